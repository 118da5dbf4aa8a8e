"""Runs schedules: one again, or many."""

from __future__ import annotations

import argparse
import os
import random
import sys
import time

from .many import Total, run_many
from .run import run


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--seed", type=int, help="one schedule, as a failure names it, with its story")
    parser.add_argument("--json", action="store_true", help="the result of that one as JSON")
    parser.add_argument("--schedules", type=int, default=500, help="so many (500)")
    parser.add_argument("--base", type=int, help="base seed of many; drawn if absent")
    parser.add_argument(
        "--jobs", type=int, default=2 * (os.cpu_count() or 1), help="so many at a time (two a processor)"
    )
    arguments = parser.parse_args()
    if arguments.seed is not None:
        result = run(arguments.seed, tell=not arguments.json)
        print(result.as_json() if arguments.json else result.story)
        for violation in [] if arguments.json else result.violations:
            print(f"VIOLATION {violation}")
        return 1 if result.violations else 0
    base = arguments.base if arguments.base is not None else random.SystemRandom().getrandbits(32)
    print(f"{arguments.schedules} schedules, {arguments.jobs} at a time, base seed {base}", flush=True)
    began = time.monotonic()
    total = Total()
    for result in run_many(seeds(base, arguments.schedules), arguments.jobs):
        total.add(result)
        if result.violations:
            print(result.story)
            for violation in result.violations:
                print(f"seed {result.seed}: {violation}")
            print(f"again: python -m tests.soak --seed {result.seed}", flush=True)
        elif total.schedules % 25 == 0:
            print(f"{total.schedules} schedules, {time.monotonic() - began:.0f} s", flush=True)
    print(total.told(time.monotonic() - began))
    return 1 if total.violations else 0


def seeds(base: int, count: int) -> list[int]:
    rng = random.Random(base)
    return [rng.getrandbits(32) for _ in range(count)]


if __name__ == "__main__":
    sys.exit(main())
