"""Replays histories through policies: how many uses meet a cold model, and how long models are held for it.

A model is held from the beginning of its load. A cold use costs a load, and a load that was begun before a use but too
late counts as a cold start in full. All models count the same, whatever their size: model-hours, not byte-hours.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from lazyd.core.habits import Habit, Window

from .traces import DAY_S, History

FIXED_S = 600.0
"""The keep-alive that is compared with."""
BOUND_POINTS = 300


@dataclass(frozen=True)
class Cost:
    """What a policy has cost: cold starts, and seconds of holding a model."""

    cold: int = 0
    held_s: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.cold + other.cold, self.held_s + other.held_s)


@dataclass(frozen=True)
class Point:
    """A policy with one setting."""

    setting: float
    cost: Cost


Curve = list[Point]
"""A policy with all its settings, the cheapest in memory first."""


def rest(windows: Sequence[Window], gap_s: float, load_s: float, *, used: bool) -> Cost:
    """What a gap costs if the model is held in these windows after a use; `used`: the next use ends the gap."""
    held_s, is_hot, until = 0.0, False, 0.0
    for window in windows:
        begin = window.start_s and max(until, window.start_s - load_s)
        if gap_s <= begin:
            break
        until = min(window.end_s, gap_s)
        if gap_s >= window.start_s:
            held_s += max(0.0, until - begin)
            is_hot = gap_s <= window.end_s
    if used and not is_hot:
        return Cost(1, held_s + load_s)
    return Cost(0, held_s)


def gaps(history: History, days: float) -> Iterable[tuple[float, float, bool]]:
    """When each gap began, how long it was, and whether a use has ended it: the last lasts until the end."""
    for use, following in pairwise(history.uses):
        yield use, following - use, True
    if history.uses:
        yield history.uses[-1], days * DAY_S - history.uses[-1], False


def start(history: History) -> Cost:
    """The first use is cold with any policy."""
    return Cost(1, history.load_s) if history.uses else Cost()


def fixed(history: History, days: float, keep_s: Sequence[float]) -> list[Cost]:
    """A keep-alive of so long, for each of the settings."""
    costs = [start(history)] * len(keep_s)
    for _, gap_s, used in gaps(history, days):
        for index, keep in enumerate(keep_s):
            costs[index] += rest((Window(0.0, keep),), gap_s, history.load_s, used=used)
    return costs


def learned(history: History, days: float, prices_s: Sequence[float]) -> list[Cost]:
    """What `lazyd.core.habits` says, for each price of a cold start; it sees a use only once it has come.

    The default idle time, which stands as `lazyd.core.expecting.may_shorten` says, is ten minutes, or less where a cold
    start is worth less.
    """
    habit = Habit()
    costs = [start(history)] * len(prices_s)
    for began, gap_s, used in gaps(history, days):
        habit.arrived(began)
        for index, price_s in enumerate(prices_s):
            windows = kept(habit, price_s, min(price_s, FIXED_S), history.load_s)
            costs[index] += rest(windows, gap_s, history.load_s, used=used)
    return costs


def kept(habit: Habit, price_s: float, default_s: float, load_s: float) -> Sequence[Window]:
    """When it is hot after its last use."""
    windows = habit.windows(price_s, load_s)
    if windows and habit.may_leave_within(default_s):
        return windows
    held = [Window(0.0, default_s)]
    for window in windows:
        if window.start_s > held[-1].end_s:
            held.append(window)
        elif window.end_s > held[-1].end_s:
            held[-1] = Window(held[-1].start_s, window.end_s)
    return held


def curve(
    policy: partial[list[Cost]], histories: Sequence[History], settings: Sequence[float], pool: ProcessPoolExecutor
) -> Curve:
    """The policy's cost with each of its settings, for all histories together."""
    of_each = pool.map(policy, histories, chunksize=max(1, len(histories) // 64))
    sums = [sum(costs, Cost()) for costs in zip(*of_each, strict=True)]
    return [Point(setting, cost) for setting, cost in zip(settings, sums, strict=True)]


def processes() -> ProcessPoolExecutor:
    return ProcessPoolExecutor(os.cpu_count() or 1)


def hindsight(histories: Sequence[History], days: float) -> Curve:
    """What holding alone can do at most, if one knows every gap: the shortest are held, as many as the memory allows.

    Who knows the gaps and loads beforehand has no cold start but the first ones, see `foreseen`.
    """
    known = sorted((gap_s, h.load_s) for h in histories for _, gap_s, used in gaps(h, days) if used)
    cost = sum(map(start, histories), Cost()) + Cost(len(known), sum(load_s for _, load_s in known))
    points = [Point(0.0, cost)]
    each = max(1, len(known) // BOUND_POINTS)
    for index in range(0, len(known), each):
        held = known[index : index + each]
        cost += Cost(-len(held), sum(gap_s - load_s for gap_s, load_s in held))
        points.append(Point(held[-1][0], cost))
    cheapest = min(range(len(points)), key=lambda index: points[index].cost.held_s)
    return points[cheapest:]


def foreseen(histories: Sequence[History], days: float) -> Cost:
    """The bound: each use is known beforehand, and the model is held from use to use or loaded just before."""
    held_s = sum(min(gap_s, h.load_s) for h in histories for _, gap_s, used in gaps(h, days) if used)
    return sum(map(start, histories), Cost()) + Cost(0, held_s)


def cold_at(curve: Curve, held_s: float) -> float:
    """Cold starts of a policy where it holds as much.

    Between two of its settings on a straight line, on which one is by using each for a part of the models.
    """
    return between([(point.cost.held_s, point.cost.cold) for point in curve], held_s)


def held_at(curve: Curve, cold: float) -> float:
    """How much a policy holds where it has as many cold starts."""
    return between(sorted((point.cost.cold, point.cost.held_s) for point in curve), cold)


def between(points: Sequence[tuple[float, float]], at: float) -> float:
    """The value there: NaN beyond the points on the cheaper side; beyond the other, the last one's."""
    if at < points[0][0]:
        return math.nan
    for (x, y), (further, value) in pairwise(points):
        if x <= at <= further and further > x:
            return y + (value - y) * (at - x) / (further - x)
    return points[-1][1]
