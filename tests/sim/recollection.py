"""What is kept of models from one manager to the next: habits, what guesses have cost, how loads went, warm-ups made.

As `lazyd.manager.readiness.remembering` does with a file: habits are written some time after they have changed, all
else at once. What a manager had not written when it was killed is lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from lazyd.core import effects, events, remembering
from lazyd.core.monitoring import Past

if TYPE_CHECKING:
    from .manager import SimManager
    from .world import World

GATHER_S = 30.0
READING_S = 0.5


class Recollection:
    """The file, and what managers do with it."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.memories: dict[str, events.Memory] = dict(world.scenario.memories)
        self.pasts: dict[str, tuple[str, Past]] = dict(world.scenario.pasts)
        self.warmed: dict[str, tuple[str, ...]] = {}
        self.known: dict[tuple[str, str, bool], bool] = {}
        """The same, as `Told.warmed` has it."""
        self._is_gathering = self._is_told = False

    def recall(self, manager: SimManager) -> None:
        """A new manager reads it, soon."""
        self._is_gathering = self._is_told = False
        self.world.clock.after(self.world.rng.uniform(0.0, READING_S), self._tell, manager, manager.epoch)

    def _tell(self, manager: SimManager, epoch: int) -> None:
        if epoch == manager.epoch:
            memories = {key: copied(memory) for key, memory in self.memories.items()}
            manager.tell(events.Remembered(memories=memories, pasts=dict(self.pasts), warmed=dict(self.warmed)))
            self._is_told = True

    def gather(self, manager: SimManager) -> None:
        """Habits have changed."""
        if not self._is_gathering:
            self._is_gathering = True
            self.world.clock.after(GATHER_S, self._sweep, manager, manager.epoch)

    def _sweep(self, manager: SimManager, epoch: int) -> None:
        if epoch != manager.epoch:
            return
        self._is_gathering = False
        if not self._is_told:
            return
        for key, memory in remembering.take(manager.core.world).items():
            self._must_be_true(manager, key, memory)
            self.memories[key] = copied(memory)

    def _must_be_true(self, manager: SimManager, key: str, memory: events.Memory) -> None:
        """What is kept of guesses is what came of them."""
        budget = manager.told.expectations.budgets.get(key)
        told = (budget.left_s, budget.at) if budget is not None else None
        kept = (memory.waste.left_s, memory.waste.at) if memory.waste is not None else None
        if told != kept and key not in manager.told.expectations.forgotten:
            self.world.fail("kept_is_what_was", f"{memory} is kept of {key}, and its budget is {budget}")

    def keep_past(self, effect: effects.KeepPast) -> None:
        self.pasts[effect.model] = (effect.identity, effect.past)

    def warmed_up(self, effect: effects.WarmedUp) -> None:
        known = self.warmed.get(effect.subject, ())
        self.warmed[effect.subject] = tuple(dict.fromkeys((*known, effect.runtime)))


def copied(memory: events.Memory) -> events.Memory:
    return msgspec.json.decode(msgspec.json.encode(memory), type=events.Memory)
