"""What is compared: the kinds of callers, each alone, and the mix."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial

from lazyd.core.expecting import PRICE_S

from . import policies
from .policies import FIXED_S, Cost, Curve
from .traces import (
    HOUR_S,
    History,
    Recipe,
    azure_like,
    bursty,
    changing,
    drifting,
    heavy_tailed,
    loose_timer,
    of_rates,
    poisson,
    runs,
    timer,
    two_timers,
    working_hours,
)

SEED = 4
BEST, NO_WORSE = 0.4, 1.1
"""Goals for the cold starts at equal memory x time, beside a fixed keep-alive of ten minutes; the second also for those
with the price that the daemon has, whatever they come of."""
KEEPS_S = (30.0, 60.0, 120.0, 300.0, FIXED_S, 1200.0, HOUR_S, 2 * HOUR_S)
PRICES_S = (30.0, 100.0, 300.0, PRICE_S, 1200.0, 3000.0, 10000.0)


@dataclass(frozen=True)
class Scenario:
    name: str
    goal: float
    histories: list[History]
    days: float


@dataclass(frozen=True)
class Result:
    """The cost of all policies in one scenario."""

    scenario: Scenario
    fixed: Curve
    learned: Curve
    bound: Curve
    """Holding in hindsight."""

    @property
    def base(self) -> Cost:
        """That of the fixed keep-alive of ten minutes."""
        return next(point.cost for point in self.fixed if point.setting == FIXED_S)

    @property
    def as_it_is(self) -> Cost:
        """That of what is learned, with the price that the daemon has."""
        return next(point.cost for point in self.learned if point.setting == PRICE_S)

    @property
    def cold(self) -> float:
        """Cold starts of what is learned, at equal memory x time."""
        return policies.cold_at(self.learned, self.base.held_s)

    @property
    def cold_ratio(self) -> float:
        return self.cold / self.base.cold

    @property
    def held_ratio(self) -> float:
        """Memory x time of what is learned at as many cold starts."""
        return policies.held_at(self.learned, self.base.cold) / self.base.held_s

    @property
    def by_holding(self) -> float:
        """Cold starts if one held in hindsight what is worth it, at equal memory x time."""
        return policies.cold_at(self.bound, self.base.held_s)

    @property
    def foreseen(self) -> Cost:
        """If every use were known beforehand."""
        return policies.foreseen(self.scenario.histories, self.scenario.days)


MINUTES: dict[str, tuple[float, Recipe, tuple[float, ...]]] = {
    "timers, 5 min": (NO_WORSE, timer, (5,)),
    "timers, 15 min to 6 h": (BEST, timer, (15, 30, 60, 120, 360)),
    "timers with 3 to 10 calls a run": (BEST, runs, (15, 60, 240)),
    "timers that drift": (BEST, drifting, (15, 60, 240)),
    "timers, a tenth off": (BEST, loose_timer, (15, 30, 60)),
    "two timers on one model": (BEST, two_timers, (20, 60)),
    "timers in working hours": (BEST, working_hours, (60, 180)),
    "timers whose period changes": (BEST, changing, (15, 60)),
    "Poisson, one rate: 5 min": (NO_WORSE, poisson, (5,)),
    "Poisson, one rate: 15 min": (NO_WORSE, poisson, (15,)),
    "Poisson, one rate: 1 h": (NO_WORSE, poisson, (60,)),
    "Poisson, 2 min to 12 h": (NO_WORSE, poisson, (2, 5, 15, 60, 240, 720)),
    "bursts": (NO_WORSE, bursty, (10, 30, 120)),
    "heavy tails": (NO_WORSE, heavy_tailed, (5, 30, 120)),
}
"""Goal, recipe and mean gaps in minutes."""
MIX_NAME = "Azure-like mix"


def alone(models: int, days: float) -> list[Scenario]:
    """Each kind of caller by itself, so many models of each mean gap."""
    return [
        Scenario(name, goal, of_rates(recipe, tuple(60.0 * m for m in minutes), models, days, SEED), days)
        for name, (goal, recipe, minutes) in MINUTES.items()
    ]


def mix(models: int, days: float, seed: int = SEED) -> Scenario:
    return Scenario(MIX_NAME, BEST, azure_like(models, days, seed), days)


def compare(
    scenario: Scenario,
    pool: ProcessPoolExecutor,
    prices_s: Sequence[float] = PRICES_S,
    keeps_s: Sequence[float] = KEEPS_S,
) -> Result:
    fixed = partial(policies.fixed, days=scenario.days, keep_s=keeps_s)
    learned = partial(policies.learned, days=scenario.days, prices_s=prices_s)
    return Result(
        scenario,
        policies.curve(fixed, scenario.histories, keeps_s, pool),
        policies.curve(learned, scenario.histories, prices_s, pool),
        policies.hindsight(scenario.histories, scenario.days),
    )
