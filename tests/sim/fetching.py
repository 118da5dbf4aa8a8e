"""Models whose files lie elsewhere: they are fetched, slowly, in vain, and by whoever the manager is by then.

What has been fetched stays when the manager goes, and is removed some time later. The file of one that is loaded
may change where it comes from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazyd.core import effects, events

if TYPE_CHECKING:
    from .world import World

FETCH_S = 4.0
"""A download takes no longer."""
KEPT_S = (2.0, 30.0)
CHANGES_S = 8.0
FAILS, TELLS_MORE = 0.15, 0.5
"""Chance that a download fails, and that the head of a file tells what its model needs."""


class Fetching:
    def __init__(self, world: World) -> None:
        self.world = world
        self.here: set[str] = set()
        """By key of a spec."""
        self.stopped: set[tuple[int, int]] = set()
        """By the manager that has asked, and its number."""

    def is_absent(self, key: str) -> bool:
        return self.world.character(key).remote and key not in self.here

    def head_tells(self) -> bool:
        return self.world.rng.random() < TELLS_MORE

    def fetch(self, effect: effects.Fetch) -> None:
        rng, epoch = self.world.rng, self.world.manager.epoch
        takes_s = rng.uniform(0.05, FETCH_S)
        for part in (0.25, 0.5, 0.75):
            self.world.clock.after(takes_s * part, self._progress, effect, epoch, part)
        self.world.clock.after(takes_s, self._end, effect, epoch)

    def stop(self, effect: effects.StopFetching) -> None:
        """What is on its way crosses it, now and then."""
        if self.world.rng.random() < 0.7:
            self.stopped.add((self.world.manager.epoch, effect.number))

    def _progress(self, effect: effects.Fetch, epoch: int, part: float) -> None:
        if epoch == self.world.manager.epoch and (epoch, effect.number) not in self.stopped:
            self.world.manager.tell(events.Fetching(model=effect.model, number=effect.number, fraction=part))

    def _end(self, effect: effects.Fetch, epoch: int) -> None:
        manager, rng = self.world.manager, self.world.rng
        key = manager.told.spec_key(effect.model)
        fails = self.world.faults and rng.random() < FAILS
        if not fails:
            self.here.add(key)
            self.world.clock.after(rng.uniform(*KEPT_S), self.here.discard, key)
        if epoch != manager.epoch or (epoch, effect.number) in self.stopped:
            return
        if fails:
            reason = "the server cut the connection"
            manager.tell(events.Unpredictable(model=effect.model, number=effect.number, reason=reason))
            return
        manager.tell(events.Fetched(model=effect.model, number=effect.number))
        self.world.clock.after(rng.uniform(0.1, CHANGES_S), self._changes, effect.model, epoch)

    def _changes(self, model: str, epoch: int) -> None:
        if self.world.faults and epoch == self.world.manager.epoch:
            self.world.manager.tell(events.Renewed(model=model))
