"""Strategies: each computes tables of indicators from its price series when it is made, and answers from them.

This is the code of the application's author. It knows nothing of lazyd, and both sides of the benchmark use it:
``load`` is called by the application itself, or by lazyd as the factory of the family ``strategy/*``.
"""

from __future__ import annotations

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

MINUTES = 20_000
WINDOWS = range(5, 80, 3)
"""Lengths in minutes; there is a table of averages and one of deviations for each."""


def prices(number: int) -> NDArray[np.float64]:
    """The series of one instrument: a wave, and noise that is the same on every machine."""
    minute = np.arange(MINUTES, dtype=np.int64)
    noise = (minute * 2_654_435_761 + number * 40_503) % 2**32 / 2**32
    return np.asarray(100 + 8 * np.sin(minute / (40 + number)) + noise)


class Strategy:
    """Compares a price with the averages of what came before it."""

    def __init__(self, number: int) -> None:
        self.prices = prices(number)
        self.averages = np.zeros((len(WINDOWS), MINUTES))
        self.deviations = np.ones((len(WINDOWS), MINUTES))
        for row, window in enumerate(WINDOWS):
            past = sliding_window_view(self.prices, window)
            self.averages[row, window - 1 :] = past.mean(axis=1)
            self.deviations[row, window - 1 :] = past.std(axis=1)

    def signal(self, minute: int) -> float:
        """By how many deviations the price is above its averages, the mean of all windows."""
        above = self.prices[minute] - self.averages[:, minute]
        return float((above / self.deviations[:, minute]).mean())


def load(name: str) -> Strategy:
    """The strategy ``s000`` to ``s199``."""
    return Strategy(int(name[1:]))
