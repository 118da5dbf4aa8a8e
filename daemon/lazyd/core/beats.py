"""Beats: uses that come at a period, as those of a cron line or a heartbeat do.

A beat is looked for in the last few uses, given by how long ago they were. Every distance between two of the
newest is tried as a period: from the newer of the two one steps back by it, and looks whether there was a use at
about that time. So uses in between do not matter, several beats may be mixed, and a use that was missed costs one
miss, not the beat.

The phase is fitted, not taken from the last use: each use of a cron line is late by some time of its own, and
that of the last should not move the next. Where the lateness adds up (a program that sleeps between its turns), steps
from the last use are steadier than the fit, and are taken instead.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise

import msgspec

from .middle import median

RECENT = 16
"""Uses that a beat is looked for in."""
NEWEST, STEPS = 3, 3
"""The period is a distance between one of so many newest uses and one of so many before it."""
ENOUGH = 2
"""After two equal intervals a period is trusted."""
MOST = 2
"""So many beats of one model are told apart."""
MISSED = 3
"""After so many missing in a row, nothing older belongs to it, and it is over."""
SLACK_S, SLACK = 3.0, 0.02
"""How far from its time a use may be: some seconds for the caller's own start, and a part of the period."""
SPREAD_S = 1.0
"""No beat is believed to be more exact: schedulers wake late, and connections take time."""
FEW = 2
"""The spread of few uses is more than it seems: of two intervals twice as much, of many no more."""
STEADIER = 0.85
"""The uses of one clock, each late by itself, have 0.7 times the spread of their intervals; where lateness adds up, the
spread about a clock is no less than that of the intervals."""
SPREADS = 3.0
"""A use is said to be expected within so many spreads of its time: seven of eight come then."""
FADES = 0.5
"""Each time it is missed, it is half as likely to come the next time."""


class Beat(msgspec.Struct, frozen=True, gc=False):
    """A period and its phase, seen from the beginning of the last use."""

    period_s: float
    next_s: float
    """When it is expected first, after the beginning of the last use."""
    spread_s: float
    """How far from that it is: half of the uses are nearer."""
    chance: float
    """How likely it comes then."""
    is_on_time: bool
    """The last use was one of this beat."""

    def __post_init__(self) -> None:
        """What was kept in a file may be damaged.

        :raises ValueError: it is no beat
        """
        is_sound = 0 < self.period_s < math.inf and 0 < self.spread_s < math.inf and 0 <= self.chance <= 1
        if not is_sound or not math.isfinite(self.next_s):
            raise ValueError("damaged beat")

    @property
    def within_s(self) -> float:
        """How far from its time a use may be, as people are told."""
        return SPREADS * self.spread_s

    def reach_s(self, price_s: float) -> float:
        """How far from its time it is worth to wait for a use, if a cold start is worth so many seconds of holding.

        As far as the next second brings it with a chance of more than 1 / price. Lateness has longer tails than a
        normal distribution, so it is taken to be exponential on both sides.
        """
        scale_s = self.spread_s / math.log(2)
        return scale_s * math.log(max(2.0, self.chance * price_s / (2 * scale_s)))

    def after(self, age_s: float) -> Beat:
        """The same beat, seen from a use of its own at this age."""
        steps = max(0, round((age_s - self.next_s) / self.period_s)) + 1
        next_s = self.next_s + steps * self.period_s - age_s
        return msgspec.structs.replace(self, next_s=next_s, is_on_time=True)

    def still_to_come(self, age_s: float) -> tuple[float, float] | None:
        """The first time, not yet over, at which it is expected, and how far from that it may be; both after the
        beginning of the last use. ``None``: it has been missed too often."""
        missed = max(0, math.ceil((age_s - self.within_s - self.next_s) / self.period_s))
        return (self.next_s + missed * self.period_s, self.within_s) if missed <= MISSED else None

    def is_due(self, age_s: float) -> bool:
        """Whether a use at this age is one of this beat."""
        return self.off_s(age_s) <= slack_s(self.period_s)

    def off_s(self, age_s: float) -> float:
        """How far a use at this age is from the nearest time at which it was expected."""
        steps = max(0, round((age_s - self.next_s) / self.period_s))
        return abs(age_s - self.next_s - steps * self.period_s)


def slack_s(period_s: float) -> float:
    """How far from its time a use may be to be one of a beat."""
    return SLACK_S + SLACK * period_s


def find(intervals: Sequence[float], shortest_s: float) -> tuple[Beat, ...]:
    """The beats in the last uses, the surest first.

    :param intervals: from use to use, the newest last
    :param shortest_s: periods that are shorter are not looked for
    """
    uses = positions(intervals)
    found: list[Beat] = []
    while len(uses) > ENOUGH and len(found) < MOST:
        steps = best(uses, shortest_s)
        if steps is None:
            break
        found.append(fitted(steps))
        taken = set(steps.values())
        uses = [use for use in uses if use not in taken]
    return tuple(found)


def positions(intervals: Sequence[float]) -> list[float]:
    """When the uses were, the oldest first; the last was at 0."""
    uses = [0.0]
    for interval in reversed(intervals):
        uses.append(uses[-1] - interval)
    uses.reverse()
    return uses


def best(uses: Sequence[float], shortest_s: float) -> dict[int, float] | None:
    """The uses of the beat that explains most, by their step back from the newest of them; ``None``: there is none."""
    winner: dict[int, float] | None = None
    most = 0.0
    count = len(uses)
    for last in range(max(ENOUGH, count - NEWEST), count)[::-1]:
        for first in range(max(0, last - STEPS), last)[::-1]:
            period_s = uses[last] - uses[first]
            if period_s < shortest_s or -uses[last] > (MISSED + 0.5) * period_s:
                continue
            steps = walk(uses, last, period_s)
            hits, missed = len(steps) - 1, max(steps) - len(steps) + 1
            if hits >= ENOUGH and hits >= missed and hits - missed > most:
                winner, most = steps, hits - missed
    return winner


def walk(uses: Sequence[float], last: int, period_s: float) -> dict[int, float]:
    """Steps back from a use by a period, as long as there are uses at about these times."""
    slack = slack_s(period_s)
    steps = {0: uses[last]}
    step, at = 0, uses[last]
    upper = last
    missed = 0
    while upper > 0 and missed < MISSED:
        missed += 1
        due = at - missed * period_s
        index = nearest(uses, due, upper)
        if abs(uses[index] - due) <= slack:
            step, at, upper = step + missed, uses[index], index
            steps[step] = at
            missed = 0
        elif due < uses[0]:
            break
    return steps


def nearest(uses: Sequence[float], due: float, upper: int) -> int:
    """The index of the use that is nearest to a time, among those before `upper`."""
    index = bisect_left(uses, due, 0, upper)
    if index == upper or (index and due - uses[index - 1] < uses[index] - due):
        index -= 1
    return index


def fitted(steps: dict[int, float]) -> Beat:
    """Period, phase, spread and chance of a beat, from its uses by their step back."""
    counts, uses = list(steps), list(steps.values())
    period_s, phase, spread_s = steadiest(counts, uses)
    hits, missed = len(counts) - 1, counts[-1] - len(counts) + 1
    spread_s = max(SPREAD_S, spread_s) * (1 + FEW / hits)
    ahead = max(1, math.ceil((-phase - SPREADS * spread_s) / period_s))
    chance = (hits + 1) / (hits + missed + 2) * FADES ** (ahead - 1)
    return Beat(period_s, phase + ahead * period_s, spread_s, chance, uses[0] == 0.0)


def steadiest(counts: Sequence[int], uses: Sequence[float]) -> tuple[float, float, float]:
    """Period, time of the newest use and spread: of a clock that they all follow, or of one that each sets anew.

    A newest use that is far from its time makes the clock doubtful.
    """
    half = len(uses) // 2
    period_s = median((uses[i] - uses[i + half]) / (counts[i + half] - counts[i]) for i in range(len(uses) - half))
    times = [use + count * period_s for count, use in zip(counts, uses, strict=True)]
    phase = median(times)
    spread_s = median(abs(time - phase) for time in times)
    steps = [(use - older) / (n - m) for (use, older), (m, n) in zip(pairwise(uses), pairwise(counts), strict=True)]
    step_s = median(steps)
    step_spread_s = median(abs(step - step_s) for step in steps)
    if spread_s > STEADIER * step_spread_s:
        return step_s, uses[0], step_spread_s
    return period_s, phase, max(spread_s, abs(uses[0] - phase) / SPREADS)
