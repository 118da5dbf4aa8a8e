"""When a model will be needed: a causal learner of its uses.

A cold start is worth `price_s` seconds of holding the model. So a moment is worth holding it if the chance that it
is asked for in the next second, the *hazard*, times the price is one at least. A model whose uses come at random is
kept while its rate is above 1 / price; one that comes at a period is freed at once and brought back shortly before
its time. To bring it back costs a load, which a window must gain as well: windows close together are one.

The hazard is that of its gaps (`intervals`) and of its beats (`beats`). Nothing here has a clock: all times are the
core's seconds.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator
from itertools import islice, pairwise

import msgspec

from . import beats
from .beats import Beat
from .intervals import EDGES, LAST, PRIOR, Intervals

TICK_S = 1.0
"""Uses that are closer together are one: nothing is loaded or freed between them."""
VISIT_S = 30.0
"""Uses that are closer together are one visit, as the calls of one run of a cron job are. Beats are those of the
beginnings of visits: a run begins at its time, and ends when it ends."""
KNOWN = 2
"""So many intervals are enough to tell something. One is not: to keep the model for the default time until there are
two meets fewer cold starts, on mixed histories and on bursts."""
LEAST_AWAY_S = 30.0
"""Nothing is freed for so short a time: to be unloaded and loaded takes as much from others as it would give them."""
LOADS = 2.0
"""A load costs so many times its holding: it takes the disk and a processor as well."""
TRUST = 0.125
"""How much the last visit changes the trust in beats."""
REGULAR = 0.5
"""A beat is relied on if it brings the next use more likely than not."""
SELDOM = 0.05
"""What happens less often than this is seldom: one cold start of twenty."""
RIGHT = 2.0
"""A beat was right about what came within so many times what was told."""


class Window(msgspec.Struct, frozen=True, gc=False):
    """From when to when it is worth being hot, in seconds after the last use.

    One that begins at 0 keeps the model; a later one brings it back, and it is to be ready when it begins.
    """

    start_s: float
    end_s: float
    expected_s: float | None = None
    """When the use is expected, if it comes at a period."""
    within_s: float = 0.0
    """How far from that it may be."""


NEVER = (Window(0.0, 0.0),)
"""It is known that holding it is not worth it."""


class Habit(msgspec.Struct, omit_defaults=True, gc=False):
    """What is remembered of the uses of one model: some kilobytes at most."""

    last: float | None = None
    """When it was used last."""
    began: float = 0.0
    """When the visit of the last use began."""
    visits: list[float] = []
    """From the beginning of a visit to that of the next, the last few, the newest last."""
    gaps: Intervals = msgspec.field(default_factory=Intervals)
    beats: tuple[Beat, ...] = ()
    """As seen from `began`."""
    trust: float = 1.0
    """How often a beat, where one was thought to be, was right: from 0 to 1."""

    def __post_init__(self) -> None:
        """What was kept in a file may be damaged.

        :raises ValueError: it is no habit
        """
        known = [self.began, *self.visits] if self.last is None else [self.began, self.last, *self.visits]
        is_sound = all(map(math.isfinite, known)) and all(visit > 0 for visit in self.visits) and 0 <= self.trust <= 1
        if not is_sound or (self.last is None and (self.visits or self.beats)):
            raise ValueError("damaged habit")

    def arrived(self, now: float) -> None:
        """It was used."""
        last, self.last = self.last, now
        if last is None or now < last:  # a clock that was ahead
            self.began = now
        elif now - last >= VISIT_S:
            self._visited(last, now)
        elif now - last >= TICK_S:
            self.gaps.add(now - last)

    def _visited(self, last: float, now: float) -> None:
        """A visit has begun."""
        age_s, gap_s = now - self.began, now - last
        foretold = [beat for beat in self.beats if beat.is_due(age_s)]
        if self.beats:
            was_right = any(beat.off_s(age_s) <= RIGHT * beat.within_s for beat in self.beats)
            self.trust += TRUST * (was_right - self.trust)
        self.gaps.add(gap_s, self.trust if foretold else 0.0)
        self.visits = [*self.visits[1 - beats.RECENT :], age_s]
        self.began = now
        found = beats.find(self.visits, VISIT_S)
        if not any(beat.is_on_time for beat in found):
            # It may go on after a pause: a timer of working hours, in the morning.
            found = (*(beat.after(age_s) for beat in foretold), *found)[: beats.MOST]
        elif not foretold and found[0].is_on_time:
            # The gaps by which a beat is found were its own, as is seen only now.
            self.gaps.explain(gap_s, beats.slack_s(found[0].period_s), beats.ENOUGH * self.trust)
        self.beats = found

    def resumed(self, last: float) -> None:
        """After a restart: when it was used last, by a clock that has begun anew."""
        if self.last is not None:
            self.began += last - self.last
            self.last = last

    def expected(self, now: float) -> tuple[float, float] | None:
        """When its next use is expected, and how far from that it may be; ``None``: it comes at no period, or has
        been missed too often."""
        found = [later for beat in self.beats if (later := beat.still_to_come(now - self.began)) is not None]
        if self.last is None or not found:
            return None
        at_s, within_s = min(found)
        return self.began + at_s, within_s

    @property
    def surest(self) -> float:
        """How likely its surest beat brings it in time, from 0 to 1."""
        return self.trust * max((beat.chance for beat in self.beats), default=0.0)

    def may_leave_within(self, age_s: float) -> bool:
        """Whether it can be freed before it was away for so long, and hardly ever is missed in that time: it comes by a
        beat, or was seldom back so soon."""
        return self.surest > REGULAR or self.gaps.chance(VISIT_S, age_s) < SELDOM

    def windows(self, price_s: float, load_s: float) -> tuple[Window, ...]:
        """When it is worth being hot, by the time since its last use.

        Sorted and disjoint. ``()``: too little is known; `NEVER`: it is never worth it.

        :param price_s: seconds of holding that a cold start is worth
        :param load_s: how long it takes to load
        """
        if len(self.visits) < KNOWN:
            return ()
        dues = sorted(self._dues(price_s, load_s))
        # The surer a beat, the fewer uses are to be expected that none foretells.
        moments = list(slices(self.gaps, PRIOR * (1.0 - self.surest), dues))
        held = worth(moments, price_s, load_s)
        return tuple(described(held, dues)) or NEVER

    def _dues(self, price_s: float, load_s: float) -> Iterator[Due]:
        """When beats are expected, and when they will be once they were missed, as long as that is worth a load."""
        assert self.last is not None
        since = self.last - self.began
        for beat in self.beats:
            chance = beat.chance * self.trust
            reach_s = beat.reach_s(price_s)
            for missed in range(beats.MISSED + 1):
                at = beat.next_s + missed * beat.period_s - since
                if chance * price_s <= LOADS * load_s:
                    break
                if at + reach_s > 0:
                    yield Due(max(0.0, at - reach_s), at + reach_s, at, beat.within_s, chance)
                    chance *= beats.FADES


class Due(msgspec.Struct, frozen=True, order=True, gc=False):
    """A use of a beat, after the last use."""

    start_s: float
    end_s: float
    """When it is worth waiting for it."""
    at_s: float
    within_s: float
    chance: float


Slice = tuple[float, float, float]
"""From when, until when, and how likely it is used in that time if it was not before."""


def slices(gaps: Intervals, prior: float, dues: list[Due]) -> Iterator[Slice]:
    """All that is known of the time after the last use, cut where the hazard changes."""
    hazards = gaps.hazards(prior)
    horizon = max([EDGES[min(len(hazards), LAST)], *(due.end_s for due in dues)])
    cuts = {0.0, horizon, *EDGES[: bisect_left(EDGES, horizon)]}
    for due in dues:
        cuts.update((due.start_s, due.end_s))
    bin_ = over = 0
    for start, end in pairwise(sorted(cuts)):
        while bin_ < LAST and EDGES[bin_ + 1] <= start:
            bin_ += 1
        hazard = hazards[bin_] if bin_ < len(hazards) else prior / end
        away = max(0.0, 1.0 - hazard * (end - start))
        while over < len(dues) and dues[over].end_s <= start:
            over += 1
        for due in islice(dues, over, None):
            if due.start_s >= end:
                break
            if end <= due.end_s:
                away *= 1.0 - due.chance * (end - start) / (due.end_s - due.start_s)
        yield start, end, 1.0 - away


def worth(moments: list[Slice], price_s: float, load_s: float) -> list[tuple[float, float]]:
    """The times at which holding it gains most, those that all but meet being one.

    One that is hot just after its use may be let go, and loaded again.
    """
    plan = planned(moments, price_s, LOADS * load_s)
    held: list[tuple[float, float]] = []
    is_hot = True
    for (start, end, _), (keeps, loads) in zip(moments, plan, strict=True):
        is_hot = keeps if is_hot else loads
        if not is_hot:
            continue
        began, ended = held[-1] if held else (0.0, 0.0)
        if start - ended <= LEAST_AWAY_S:
            held[-1:] = [(began, end)]
        else:
            held.append((start, end))
    return held


def planned(moments: list[Slice], price_s: float, load_costs_s: float) -> list[tuple[bool, bool]]:
    """For each slice whether one that is hot is kept through it, and whether one that is cold is loaded for it.

    Backwards from the last slice: what is to be gained from there on is known for one that is hot and for one that is
    cold. A cold one becomes hot at the price of a load.
    """
    hot = cold = 0.0
    plan: list[tuple[bool, bool]] = []
    for start, end, chance in reversed(moments):
        hold = chance * price_s - (end - start) * (1.0 - chance / 2) + (1.0 - chance) * hot
        rest = (1.0 - chance) * cold
        load = hold - load_costs_s
        cold = max(rest, load)
        hot = max(hold, cold)
        plan.append((hold > cold, load > rest))
    plan.reverse()
    return plan


def described(held: list[tuple[float, float]], dues: list[Due]) -> Iterator[Window]:
    """The windows, with the use that is expected in each."""
    for start, end in held:
        due = next((due for due in dues if start <= due.at_s <= end), None)
        yield Window(start, end, due.at_s, due.within_s) if due else Window(start, end)
