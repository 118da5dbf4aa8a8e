"""How long a request may wait at most, from the schedule's own figures.

ARCHITECTURE, "The bound": `max_wait` + waiters ahead x (quantum + longest call + release + load).
The request's own load is one more of these, and a waiter ahead is any request that waits when
this one comes. Only schedules in which nothing excuses a longer wait are held to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .scenario import Scenario
from .truth import FRESH_S

if TYPE_CHECKING:
    from .control import Pending
    from .world import World

MESSAGES = 12
"""So many messages follow each other at most while one waiter is served."""


class Bound:
    def __init__(self, scenario: Scenario) -> None:
        profile = scenario.profile
        self.is_strict = profile.is_strict
        self.max_wait_s = max(spec.max_wait_s for spec in scenario.config.models.values())
        fresh_s = FRESH_S if profile.abandon else 2 * profile.delay_s
        self.turn_s = (
            scenario.quantum_s
            + profile.call_s
            + fresh_s
            + profile.release_s
            + scenario.longest_load_s
            + MESSAGES * profile.delay_s
        )

    def of(self, world: World, pending: Pending) -> float:
        """The bound of a request that has just come; 0 if it has none."""
        if not self.is_strict:
            return 0.0
        ahead = len(world.control.by_number) - 1
        return self.max_wait_s + (ahead + 1) * self.turn_s
