"""How much a model is used, and how likely it is to be used soon.

Uses are counted with a memory that fades: each counts one when it happens and half as much after every
`HALF_LIFE_S`. So the count knows how often and how lately, in two numbers. If uses came at random
at a steady rate, the count would settle at that rate times `HALF_LIFE_S` / ln 2; read the other
way round it estimates the rate, and with it the chance of at least one use within some time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

HALF_LIFE_S = 600.0
"""The idle time after which a model is freed by default: what was ten minutes ago begins to be over."""

RATE_AT_REST_PER_S = 1 / 3600
"""A model of which no use is remembered is expected once an hour: somebody has had it loaded. It keeps the
order of two such models by what it takes to load them."""

FADES_PER_S = math.log(2) / HALF_LIFE_S


@dataclass(slots=True)
class Heat:
    """The uses of one model: their fading count as it was `at`."""

    count: float = 0.0
    at: float = 0.0

    def used(self, now: float) -> None:
        """Counts one use."""
        self.count = 1.0 + self.count * math.exp2((self.at - now) / HALF_LIFE_S)
        self.at = now

    def rate_per_s(self, now: float) -> float:
        """Uses to be expected per second."""
        return self.count * math.exp2((self.at - now) / HALF_LIFE_S) * FADES_PER_S + RATE_AT_REST_PER_S

    def chance(self, now: float, within_s: float) -> float:
        """The chance of at least one use within a time, from 0 to 1."""
        return -math.expm1(-self.rate_per_s(now) * within_s)
