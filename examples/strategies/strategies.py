"""200 strategies, as they were: each fits its parameters to a history of its own when it is loaded."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence

NAMES = tuple(f"s{number:03}" for number in range(200))
DAYS = 1500


class Strategy:
    """Buys while a quick average of prices is above a slow one."""

    def __init__(self, name: str) -> None:
        self.name = name
        days = history(name, DAYS)
        choices = itertools.product((3, 5, 8, 13), (20, 30, 50))
        self.quick, self.slow = max(choices, key=lambda choice: earned(days, *choice))

    def signal(self, prices: Sequence[float]) -> float:
        """How far the quick average is above the slow one, in parts of the slow one."""
        slow = average(prices, self.slow)
        return round(average(prices, self.quick) / slow - 1.0, 6)


def load(name: str) -> Strategy:
    return Strategy(name)


def history(name: str, days: int) -> list[float]:
    """Prices of what a strategy trades, made up from its name."""
    dice = random.Random(name)
    return list(
        itertools.accumulate((dice.gauss(0.0003, 0.01) for _ in range(days)), lambda p, r: p * (1 + r), initial=100.0)
    )


def average(prices: Sequence[float], days: int) -> float:
    last = prices[-days:]
    return sum(last) / len(last)


def earned(prices: Sequence[float], quick: int, slow: int) -> float:
    """What trading by these two averages would have earned, day after day."""
    return sum(gains(prices, quick, slow))


def gains(prices: Sequence[float], quick: int, slow: int) -> Iterator[float]:
    for day in range(slow, len(prices) - 1):
        seen = prices[day - slow : day + 1]
        if average(seen, quick) > average(seen, slow):
            yield prices[day + 1] / prices[day] - 1.0
