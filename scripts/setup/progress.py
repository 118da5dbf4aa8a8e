"""Reads a compiler's long output and shows how far it has come.

Usage: COMMAND 2>&1 | python progress.py LOG. All of it goes to LOG. On a terminal one line is
kept up to date; elsewhere there is a new line every half minute.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

STEP = re.compile(r"^\s*\[\s*(\d+)/(\d+)\]")
QUIET_PAUSE_S = 30.0


def steps(lines: Iterator[str]) -> Iterator[tuple[int, int]]:
    """Yields ``(done, total)`` for every line that carries ninja's ``[done/total]``."""
    for line in lines:
        if found := STEP.match(line):
            yield int(found[1]), int(found[2])


def follow(source: TextIO, log: TextIO, screen: TextIO) -> None:
    """Copies `source` to `log` and draws on `screen`."""

    def copied() -> Iterator[str]:
        for line in source:
            log.write(line)
            yield line

    live = screen.isatty()
    began = shown = time.monotonic()
    for done, total in steps(copied()):
        now = time.monotonic()
        if not live and now - shown < QUIET_PAUSE_S and done < total:
            continue
        shown = now
        minutes, seconds = divmod(int(now - began), 60)
        screen.write(f"{chr(13) if live else ''}        compiling {done}/{total}, {minutes}:{seconds:02} so far")
        screen.write("" if live else "\n")
        screen.flush()
    if live and shown != began:
        screen.write("\n")


def main() -> None:
    path = Path(sys.argv[1])
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as log:
        follow(sys.stdin, log, sys.stdout)


if __name__ == "__main__":
    main()
