"""Runs the simulation by hand: one schedule again, or many."""

from __future__ import annotations

import argparse
import random
import sys
import time

from .profiles import PROFILES
from .runner import EVENTS_A_SCHEDULE, ScheduleFailed, run_many, run_schedule, story


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim", description=__doc__)
    parser.add_argument("--seed", type=int, help="one schedule, as a failure names it")
    parser.add_argument("--base", type=int, help="base seed of many schedules; drawn if absent")
    parser.add_argument("--events", type=int, help="so many events")
    parser.add_argument("--profile", choices=[profile.name for profile in PROFILES])
    parser.add_argument("--story", action="store_true", help="tell the last steps of the schedule, and nothing else")
    arguments = parser.parse_args()
    started = time.perf_counter()
    try:
        if arguments.seed is not None:
            world = run_schedule(arguments.seed, arguments.events or EVENTS_A_SCHEDULE, arguments.profile)
            events = world.manager.events
            if arguments.story:
                print(story(world))
                return 0
        else:
            base = arguments.base if arguments.base is not None else random.SystemRandom().getrandbits(32)
            print(f"base seed {base}")
            total = run_many(base, arguments.events or 100_000, arguments.profile)
            events = total.events
            print(dict(total.profiles))
            print({kind.__name__: n for kind, n in total.seen.most_common()})
    except ScheduleFailed as failure:
        print(failure)
        return 1
    seconds = time.perf_counter() - started
    print(f"{events} events in {seconds:.1f} s, {events / seconds:.0f} a second")
    return 0


if __name__ == "__main__":
    sys.exit(main())
