"""How long the decision core takes for one event, on a large machine that is full and has people waiting."""

from __future__ import annotations

import gc
import statistics
from collections.abc import Iterator

from .figure import Figure, Goal, percentile
from .machine import Machine, Plant

GOAL_US = 1000
SEED = 1
PLANTS = (
    Plant(models=200, gpus=2, requests_per_s=2.0),
    Plant(models=1000, gpus=8, requests_per_s=8.0),
)
WARM_UP = 4000
"""Events until the GPUs are full and there is a line."""
ROUNDS = 5
EVENTS = 2000
"""In each round."""


def figures() -> Iterator[Figure]:
    for plant in PLANTS:
        yield from on(plant)


def on(plant: Plant) -> Iterator[Figure]:
    """Of one machine. Samples are those of its rounds."""
    machine = Machine(plant, SEED)
    machine.run(WARM_UP)
    rounds = [measured(machine) for _ in range(ROUNDS)]
    what = f"decision, {plant.models:,} models, {plant.gpus} GPUs"
    line = statistics.median(each.line for each in rounds)
    workers = len(machine.core.world.workers)
    walls = statistics.median(percentile(each.wall_us, 99) for each in rounds)
    yield Figure(f"{what}, median", "µs", Goal(), [percentile(each.all_us, 50) for each in rounds])
    yield Figure(
        f"{what}, 99 of 100",
        "µs",
        Goal(value=GOAL_US),
        [percentile(each.all_us, 99) for each in rounds],
        note=f"{workers} workers, {line:.0f} in the line; by the clock on the wall {walls:,.0f} µs",
    )
    yield Figure(
        f"{what}, 99 of 100 while somebody waits",
        "µs",
        Goal(value=GOAL_US),
        [percentile(each.waiting_us, 99) for each in rounds if each.waiting_us],
        note=f"{sum(len(each.waiting_us) for each in rounds):,} of {sum(len(each.all_us) for each in rounds):,} events",
    )
    yield Figure(f"{what}, longest", "µs", Goal(), [max(each.all_us) for each in rounds])


class Round:
    """Microseconds of the processor for each event; what a busy machine adds to that by the clock is told apart."""

    def __init__(self, machine: Machine, since: int) -> None:
        self.all_us = [ns / 1e3 for ns in machine.computed_ns[since:]]
        self.wall_us = [ns / 1e3 for ns in machine.spent_ns[since:]]
        waited = zip(self.all_us, machine.waited[since:], strict=True)
        self.waiting_us = [spent for spent, somebody in waited if somebody]
        self.line = statistics.median(machine.lines[since:])


def measured(machine: Machine) -> Round:
    """The next events. As in the daemon, what was made by then is not garbage to be looked for."""
    gc.collect()
    gc.freeze()
    since = len(machine.spent_ns)
    machine.run(EVENTS)
    return Round(machine, since)
