"""Who comes at a period, as cron jobs and heartbeats do: a little late, sometimes not at all, and one day no more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .clock import Process, Script

if TYPE_CHECKING:
    from .world import World

JITTER_S = 2.0
MISSES = 0.08
RUNS_TWICE = 0.2
"""Chance that one run calls the model once more, a few seconds later."""
GIVES_UP = 0.06
"""Chance at each time that it never comes again; a while later another one comes in its place."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Comes for one model."""

    model: str
    period_s: float
    first: float


class Callers:
    def __init__(self, world: World) -> None:
        self.world = world
        self.rng = world.rng
        for number, caller in enumerate(world.scenario.callers):
            Process(world.clock, self._comes(number, caller))

    def _comes(self, number: int, caller: Caller) -> Script:
        due = caller.first
        while True:
            yield max(0.0, due + self.rng.uniform(0.0, JITTER_S) - self.world.clock.now)
            if not self.world.clients.at_work:
                return
            if self.rng.random() >= MISSES:
                yield from self.world.clients.visit(1000 + number, caller.model)
                if self.rng.random() < RUNS_TWICE:
                    yield self.rng.uniform(1.0, 8.0)
                    yield from self.world.clients.visit(1000 + number, caller.model)
            due += caller.period_s * max(1, -(-(self.world.clock.now - due) // caller.period_s))
            if self.rng.random() < GIVES_UP:
                due += self.rng.uniform(2.0, 8.0) * caller.period_s
