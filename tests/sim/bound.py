"""How long a request may wait at most, from the schedule's own figures.

docs/architecture.md, "Waiting is bounded": `max_wait` + waiters ahead x (quantum + longest call + release + load).
The request's own load is one more of these, and a waiter ahead is any request that waits when
this one comes. Only schedules in which nothing excuses a longer wait are held to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .scenario import Scenario
from .truth import FRESH_S

if TYPE_CHECKING:
    from .world import World

MESSAGES = 12
"""So many messages follow each other at most while one waiter is served."""


class Bound:
    def __init__(self, scenario: Scenario) -> None:
        profile = scenario.profile
        self.is_strict = profile.is_strict
        self.max_wait_s = max(spec.max_wait_s for spec in scenario.config.models.values())
        fresh_s = FRESH_S if profile.abandon else 2 * profile.delay_s
        delay_s = 1.0 if profile.slow_message else profile.delay_s
        # A model runs one call at a time, so the longest call is one behind all others.
        self.turn_s = (
            scenario.quantum_s
            + profile.call_s * profile.clients[1]
            + fresh_s
            + profile.release_s
            + scenario.longest_load_s
            + MESSAGES * delay_s
        )

    def of(self, world: World) -> float:
        """The bound of a request that has just come; 0 if it has none."""
        return self.after(len(world.control.by_number) - 1) if self.is_strict else 0.0

    def after(self, ahead: int) -> float:
        """The bound of a request with so many before it."""
        return self.max_wait_s + (ahead + 1) * self.turn_s
