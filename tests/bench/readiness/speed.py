"""What learning costs itself, by the processor's clock."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from itertools import islice
from random import Random

from lazyd.core.habits import Habit

from ..figure import Figure, Goal
from .scenarios import SEED
from .traces import HOUR_S, Recipe, bursty, heavy_tailed, poisson, timer, two_timers

CALLERS: dict[str, tuple[Recipe, float]] = {
    "a timer": (timer, 300.0),
    "two timers": (two_timers, 1200.0),
    "Poisson": (poisson, 300.0),
    "bursts": (bursty, 1800.0),
    "heavy tails": (heavy_tailed, HOUR_S),
}
USES = 300
REPEATED = 50
MOST_US = 200.0
"""Goal for a look at a habit."""


def figures() -> Iterator[Figure]:
    for name, (recipe, gap_s) in CALLERS.items():
        habit = Habit()
        learning = [took_us(lambda at=at, habit=habit: habit.arrived(at)) for at in uses(recipe, gap_s)]  # type: ignore[misc]
        looking = [took_us(lambda habit=habit: habit.windows(600.0, 5.0)) for _ in range(REPEATED)]  # type: ignore[misc]
        yield Figure(f"{name}: to learn from a use", "µs", Goal(), learning)
        yield Figure(f"{name}: to tell when it is needed", "µs", Goal(value=MOST_US), looking)
    last = habit.last or 0.0
    often = [took_us(lambda number=number: habit.arrived(last + number / 1000)) for number in range(1000)]  # type: ignore[misc]
    yield Figure("a use within a second of the last", "µs", Goal(), [statistics.median(often)])


def uses(recipe: Recipe, gap_s: float) -> list[float]:
    return list(islice(recipe(Random(SEED), gap_s), USES))


def took_us(work: Callable[[], object]) -> float:
    began = time.process_time_ns()
    work()
    return (time.process_time_ns() - began) / 1000
