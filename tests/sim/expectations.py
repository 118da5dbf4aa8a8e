"""When models are expected, as one core was told or has learned, and what its guesses have come to.

What a habit says is the learner's business, which has tests of its own: its spans are read off the core once it
has looked at them. Everything else is worked out anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lazyd.core import effects, events
from lazyd.core.spec import PrewarmWhen

if TYPE_CHECKING:
    from .told import Told
    from .world import World

SCHEDULE_GRACE_S = 60.0
"""What a schedule names is kept for a minute at least (docs/readiness.md, "Habits")."""
CLOCKS_S = 1.0
"""So far two clocks may be apart about when a time has come."""
BUDGET_S, DAY_S = 600.0, 86_400.0
"""Wrong guesses may cost ten minutes of holding; a day fills that again, and so does a guess that comes true."""

Span = tuple[float, float]


@dataclass(slots=True)
class Guess:
    """A load that nobody has asked for."""

    begun: float
    until: float
    left_s: float
    """Of its model's budget, when it was begun."""
    was_wrong: bool = False
    """Nobody has come, and it is to leave."""


@dataclass(slots=True)
class Budget:
    """What wrong guesses about a model may still cost, as it was `at`."""

    left_s: float = BUDGET_S
    at: float | None = None

    def left(self, now: float) -> float:
        if self.at is None:
            return BUDGET_S
        return min(self.left_s + BUDGET_S * max(0.0, now - self.at) / DAY_S, max(BUDGET_S, self.left_s))


class Expectations:
    def __init__(self, world: World, told: Told) -> None:
        self._world = world
        self._told = told
        self.began = world.clock.now
        self.scheduled: dict[str, float | None] = {}
        self.was_due: dict[str, float] = {}
        """What was scheduled before that, if its time has come."""
        self.budgets: dict[str, Budget] = {}
        self.forgotten: dict[str, bool] = {}
        """Models that were not configured for a while: what is known of them may be gone."""
        self.cold_since: dict[str, float] = {}
        self.due_since: dict[str, float] = {}
        """Since when models that are due could be loaded, and are not."""
        self.waits_since: tuple[int, float] | None = None
        """Which request could be had if all left who must for it, and since when."""

    # Questions.

    def spans(self, key: str) -> list[Span] | None:
        """When it is worth being hot, as far as that is known; None: nothing is."""
        spec = self._told.spec_of(key)
        if spec is None or spec.prewarm.when is PrewarmWhen.OFF:
            return None
        if spec.prewarm.when is PrewarmWhen.SCHEDULE:
            dues = (self.was_due.get(key), self.scheduled.get(key))
            return [(due, due + SCHEDULE_GRACE_S) for due in dues if due is not None] or None
        model = self._world.manager.core.world.models.get(key)
        if model is None or model.habit is None or model.spans is None or model.spans_at != model.habit.last:
            return None
        return [(span.start, span.end) for span in model.spans]

    def is_due(self, key: str, early_s: float = 0.0) -> bool:
        now = self._world.clock.now
        return any(start - early_s <= now < end for start, end in self.spans(key) or ())

    def left_s(self, key: str) -> float:
        if key in self.forgotten:
            return float("inf")
        return self.budgets.get(key, Budget()).left(self._world.clock.now)

    @property
    def lead_s(self) -> float:
        """No load is begun for a guess earlier than this."""
        return max(10.0, 1.25 * self._world.scenario.longest_start_s + 1.0)

    # Events, before the core handles them.

    def hear(self, event: events.Event) -> None:
        match event:
            case events.Scheduled(model=key, at=at):
                was = self.scheduled.get(key)
                if was is not None and was <= self._world.clock.now + CLOCKS_S:
                    self.was_due[key] = was
                self.scheduled[key] = at
            case events.Configure(config=config):
                gone = [key for key in self._told.config.models if key not in config.models]
                self.forgotten.update(dict.fromkeys(gone, True))
            case events.Remembered(memories=memories):
                for key, memory in memories.items():
                    if key not in self.budgets and memory.waste is not None and self._told.resolve(key) == key:
                        self.budgets[key] = Budget(memory.waste.left_s, memory.waste.at)

    # Effects, after they were checked.

    def guessed(self, effect: effects.Note) -> Guess:
        """A guess is made now."""
        now, key = self._world.clock.now, effect.model or ""
        until = min((end for _, end in self.spans(key) or () if end > now), default=now)
        return Guess(now, until, self.left_s(key))

    def came_true(self, key: str) -> None:
        self._settle(key, min(2 * BUDGET_S, self.left_s(key) + BUDGET_S))

    def was_wrong(self, key: str, held_s: float) -> None:
        self._settle(key, max(0.0, self.left_s(key) - held_s))

    def _settle(self, key: str, left_s: float) -> None:
        self.budgets[key] = Budget(left_s, self._world.clock.now)
