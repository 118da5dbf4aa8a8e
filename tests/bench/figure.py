"""A figure, its floor, its goal; and how the two are measured fairly."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

Measure = Callable[[], float]


@dataclass(frozen=True)
class Goal:
    """What a figure should be: at most `times` its floor, or at most `value`; neither: it is only shown."""

    times: float | None = None
    value: float | None = None

    def met(self, ours: float, ratio: float | None) -> bool:
        if self.times is not None:
            return ratio is not None and ratio <= self.times
        return self.value is None or ours <= self.value


@dataclass(frozen=True)
class Figure:
    """One line of the table. Samples are in `unit`; a ratio is the median of the pairs' ratios."""

    name: str
    unit: str
    goal: Goal
    ours: Sequence[float]
    floor: Sequence[float] = ()
    floor_name: str = ""
    note: str = ""

    @property
    def median(self) -> float:
        return statistics.median(self.ours)

    @property
    def floor_median(self) -> float | None:
        return statistics.median(self.floor) if self.floor else None

    @property
    def ratio(self) -> float | None:
        """Ours divided by the floor: of each pair where they were measured in pairs, else of the medians."""
        if not self.floor or not all(self.floor):
            return None
        if len(self.ours) == len(self.floor):
            return statistics.median(ours / floor for ours, floor in zip(self.ours, self.floor, strict=True))
        return self.median / statistics.median(self.floor)

    @property
    def met(self) -> bool:
        return self.goal.met(self.median, self.ratio)


def pairs(count: int, ours: Measure, floor: Measure) -> tuple[list[float], list[float]]:
    """Measures both in turn, `count` times, so that a slow moment of the machine hits both.

    Each is run once before, unmeasured: files are in the page cache then and byte code is compiled.
    """
    ours(), floor()
    samples = [(ours(), floor()) for _ in range(count)]
    return [pair[0] for pair in samples], [pair[1] for pair in samples]


def percentile(samples: Sequence[float], of_100: int) -> float:
    """The sample than which so many of a hundred are no longer."""
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, len(ordered) * of_100 // 100)]
