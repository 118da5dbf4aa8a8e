"""Many schedules about memory through the core, and what came of them: ``make schedules``.

GPUs, strangers, parking, reservations, dry runs and learned peaks, shortage, lost GPUs, restarts of manager and host.
Each schedule is short, and then left in peace until all that it had is accounted for.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from . import about_ledger
from .profiles import ABOUT_MEMORY
from .runner import ScheduleFailed, run_schedule

COUNT = 10_000
EVENTS = 100
"""In each schedule, before there is peace."""
AT_ONCE = 25
"""So many schedules are one task of a process."""
WIDTH = 120
SHOWN = 3
"""So many failures are told in full."""
ADMISSION = ("admission_fits", "admission_is_seen")
SHORTAGE = ("memory_does_not_run_out",)
LEFT = ("nothing_lingers", "stop_frees_everything", "books_balance", "used_is_accounted")

Seed = tuple[int, str]
"""With the profile."""


@dataclass
class Summary:
    """What some schedules have come to."""

    schedules: int = 0
    events: int = 0
    admissions: int = 0
    shortages: int = 0
    unaccounted_bytes: int = 0
    happened: Counter[str] = field(default_factory=Counter)
    """Kinds of events, effects, outcomes and notes."""
    broken: Counter[str] = field(default_factory=Counter)
    """By invariant: schedules that broke it."""
    failures: list[str] = field(default_factory=list)

    def add(self, other: Summary) -> None:
        self.schedules += other.schedules
        self.events += other.events
        self.admissions += other.admissions
        self.shortages += other.shortages
        self.unaccounted_bytes += other.unaccounted_bytes
        self.happened.update(other.happened)
        self.broken.update(other.broken)
        self.failures += other.failures

    def count(self, invariants: tuple[str, ...]) -> int:
        return sum(self.broken[name] for name in invariants)

    def told(self) -> str:
        rows = (
            ("schedules", self.schedules),
            ("events", self.events),
            ("admissions", self.admissions),
            ("  over budget, or on old news", self.count(ADMISSION)),
            ("out of memory", self.shortages),
            ("  where a feasible plan could have avoided it", self.count(SHORTAGE)),
            ("bytes unaccounted for at the end", self.unaccounted_bytes),
            ("  schedules with bytes left, or a ledger that does not add up", self.count(LEFT)),
            ("schedules that broke anything", sum(self.broken.values())),
        )
        things = ", ".join(f"{name} {n:,}" for name, n in sorted(self.happened.items()))
        happened = textwrap.wrap(things, WIDTH, initial_indent="  ", subsequent_indent="  ")
        return "\n".join([*(f"{name:<64}{n:>14,}" for name, n in rows), "what happened:", *happened])


def play(seeds: list[Seed]) -> Summary:
    """Some schedules, one after the other."""
    found = Summary()
    for seed, profile in seeds:
        found.schedules += 1
        try:
            world = run_schedule(seed, EVENTS, profile)
        except ScheduleFailed as failure:
            found.broken[failure.invariant] += 1
            found.failures.append(str(failure))
            continue
        manager = world.manager
        found.events += manager.events
        found.admissions += manager.admissions
        found.shortages += sum(world.shortages.values())
        found.unaccounted_bytes += about_ledger.unaccounted(world)
        found.happened.update({kind.__name__: n for kind, n in manager.seen.items()})
        found.happened.update(manager.noted)
    return found


def drawn(base: int, count: int) -> Iterator[list[Seed]]:
    """Seeds in parcels, each profile as often as its weight says."""
    rng = random.Random(base)
    profiles = rng.choices(ABOUT_MEMORY, [profile.weight for profile in ABOUT_MEMORY], k=count)
    seeds = [(rng.getrandbits(48), profile.name) for profile in profiles]
    for first in range(0, count, AT_ONCE):
        yield seeds[first : first + AT_ONCE]


def play_all(base: int, count: int = COUNT, processes: int = 1) -> Summary:
    """The same schedules from the same base, in so many processes."""
    found = Summary()
    if processes == 1:
        for seeds in drawn(base, count):
            found.add(play(seeds))
        return found
    with multiprocessing.get_context("fork").Pool(processes) as pool:
        for part in pool.imap_unordered(play, drawn(base, count)):
            found.add(part)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.sim.schedules", description=__doc__)
    parser.add_argument("--base", type=int, default=None, help="base seed; drawn if absent")
    parser.add_argument("--count", type=int, default=COUNT, help="so many schedules")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    base = given.base if given.base is not None else random.SystemRandom().getrandbits(32)
    print(f"base seed {base}: again with --base {base} --count {given.count}", flush=True)
    started = time.perf_counter()
    found = play_all(base, given.count, given.processes)
    print(found.told())
    print(f"{time.perf_counter() - started:.0f} s in {given.processes} processes")
    for failure in found.failures[:SHOWN]:
        print(f"\n{failure}")
    return 1 if found.broken or found.unaccounted_bytes else 0


if __name__ == "__main__":
    sys.exit(main())
