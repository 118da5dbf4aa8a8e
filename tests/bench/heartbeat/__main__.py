"""``python -m tests.bench.heartbeat [--short]``: the whole story in three minutes, or in less than one."""

from __future__ import annotations

import argparse
import sys
import time

from . import story, table


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.heartbeat", description=__doc__)
    parser.add_argument("--short", action="store_true", help="fewer commits")
    length = story.SHORT if parser.parse_args().short else story.DEFAULT
    began = time.monotonic()
    told = story.tell(length, lambda what: print(f"{time.monotonic() - began:5.0f} s  {what}", file=sys.stderr))
    table.draw(told)
    print(f" It took {time.monotonic() - began:.0f} s.")


if __name__ == "__main__":
    main()
