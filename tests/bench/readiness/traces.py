"""Synthetic histories of use, by recipes that are written down here; the same seed gives the same history.

The mix is made after what is published of Azure Functions ("Serverless in the Wild", Shahrad et al., USENIX ATC 2020):
rates spread over eight orders of magnitude, 45 % of the applications are called once an hour or less often on average,
81 % once a minute or less often; timers trigger a sixth of the functions, and many callers are as regular as these or
far more irregular than chance. How many of each kind there are here is a choice; it is no sample of those data.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from random import Random

HOUR_S = 3600.0
DAY_S = 24 * HOUR_S
PERIODS_S = tuple(60.0 * minutes for minutes in (1, 2, 5, 10, 15, 20, 30, 60, 120, 180, 240, 360, 720, 1440))
"""What people write into their timers."""
LOADS_S = (1.0, 30.0)
"""A load takes from a second to half a minute; any order of magnitude is as likely."""
MISSED = 0.01
"""One of a hundred turns of a timer does not come."""


@dataclass(frozen=True)
class History:
    """The uses of one model, in seconds."""

    uses: tuple[float, ...]
    load_s: float


Recipe = Callable[[Random, float], Iterator[float]]
"""Uses without end, for a mean gap in seconds."""


def timer(random: Random, gap_s: float, jitter_s: float = 2.0) -> Iterator[float]:
    """At a period and a phase; each turn is up to `jitter_s` off by itself, one of a hundred is missing."""
    turn = random.uniform(0, gap_s)
    while True:
        if random.random() >= MISSED:
            yield max(0.0, turn + random.uniform(-jitter_s, jitter_s))
        turn += gap_s


def loose_timer(random: Random, gap_s: float) -> Iterator[float]:
    """At a period, each turn off by up to a tenth of it."""
    return timer(random, gap_s, jitter_s=gap_s / 10)


def drifting(random: Random, gap_s: float) -> Iterator[float]:
    """A program that sleeps between its turns, each of which takes some time of its own: lateness adds up."""
    turn = random.uniform(0, gap_s)
    while True:
        yield turn
        turn += gap_s * random.uniform(0.99, 1.01)


def runs(random: Random, gap_s: float) -> Iterator[float]:
    """A timer whose runs use the model three to ten times, within seconds."""
    for turn in timer(random, gap_s):
        at = turn
        for _ in range(random.randint(3, 10)):
            yield at
            at += random.expovariate(1.0)


def two_timers(random: Random, gap_s: float) -> Iterator[float]:
    """Two timers, one half again as slow as the other, on one model."""
    return merged(timer(random, gap_s * 5 / 3), timer(random, gap_s * 5 / 2))


def working_hours(random: Random, gap_s: float) -> Iterator[float]:
    """A timer from 9 to 17 o'clock."""
    return (turn for turn in timer(random, gap_s / 3) if 9 <= turn % DAY_S / HOUR_S < 17)


def poisson(random: Random, gap_s: float) -> Iterator[float]:
    """Without memory: at any moment as likely as at any other."""
    at = 0.0
    while True:
        at += random.expovariate(1 / gap_s)
        yield at


def bursty(random: Random, gap_s: float) -> Iterator[float]:
    """Sessions of twelve uses on average, a sixtieth of the mean gap apart (20 s at least); long pauses between."""
    within_s = max(20.0, gap_s / 60)
    pause_s = max(within_s, 12 * gap_s - 11 * within_s)
    at = 0.0
    while True:
        at += random.expovariate(1 / pause_s)
        yield at
        while random.random() < 11 / 12:
            at += random.expovariate(1 / within_s)
            yield at


def heavy_tailed(random: Random, gap_s: float) -> Iterator[float]:
    """Lognormal gaps whose logarithm has a deviation of 1.8: a coefficient of variation of 5."""
    sigma = 1.8
    at = 0.0
    while True:
        at += random.lognormvariate(math.log(gap_s) - sigma**2 / 2, sigma)
        yield at


def changing(random: Random, gap_s: float) -> Iterator[float]:
    """A timer whose period doubles, and halves again, every two days."""
    at = random.uniform(0, gap_s)
    while True:
        yield at
        at += gap_s * (1 + int(at / (2 * DAY_S)) % 2)


def merged(*sources: Iterator[float]) -> Iterator[float]:
    heads = [next(source) for source in sources]
    while True:
        first = heads.index(min(heads))
        yield heads[first]
        heads[first] = next(sources[first])


def history(recipe: Recipe, random: Random, gap_s: float, days: float) -> History:
    uses: list[float] = []
    for at in recipe(random, gap_s):
        if at >= days * DAY_S:
            break
        uses.append(at)
    load_s = math.exp(random.uniform(*map(math.log, LOADS_S)))
    return History(tuple(sorted(uses)), load_s)


def of_rates(recipe: Recipe, gaps_s: tuple[float, ...], models: int, days: float, seed: int) -> list[History]:
    """Some models of each mean gap."""
    return [
        history(recipe, Random(f"{seed} {gap_s} {number}"), gap_s, days) for gap_s in gaps_s for number in range(models)
    ]


MIX: tuple[tuple[float, Recipe], ...] = (
    (0.25, timer),
    (0.05, drifting),
    (0.05, runs),
    (0.05, loose_timer),
    (0.20, poisson),
    (0.20, bursty),
    (0.20, heavy_tailed),
)
"""35 % at periods (and 5 % loosely so), as many as chance would have it, and 40 % more irregular than that."""
RATES: tuple[tuple[float, float, float], ...] = (
    (0.19, 60.0, 60.0),
    (0.36, 60.0, HOUR_S),
    (0.45, HOUR_S, 7 * DAY_S),
)
"""Parts of the models, and between which mean gaps they are; any order of magnitude is as likely. What is used more
often than once a minute is cut to that: every policy keeps it, and its uses would only take time here."""


def azure_like(models: int, days: float, seed: int) -> list[History]:
    """The mix: kinds and rates are drawn independently; timers have the next of the periods that people choose."""
    draw = Random(seed)
    kinds = list(chain.from_iterable([recipe] * round(part * models) for part, recipe in MIX))
    draw.shuffle(kinds)
    histories: list[History] = []
    for number, recipe in enumerate(kinds):
        gap_s = mean_gap_s(draw)
        if recipe in (timer, runs, drifting):
            gap_s = min(PERIODS_S, key=lambda period, gap=gap_s: abs(math.log(period / gap)))  # type: ignore[misc]
        histories.append(history(recipe, Random(f"{seed} {number}"), gap_s, days))
    return histories


def mean_gap_s(draw: Random) -> float:
    _, shortest, longest = draw.choices(RATES, weights=[part for part, _, _ in RATES])[0]
    return shortest * math.exp(draw.uniform(0, math.log(longest / shortest)))
