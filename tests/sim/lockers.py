"""People who have models' files locked in RAM (``lazyctl warm --tier ram``), again and again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazyd.core import events

from .clock import Process, Script

if TYPE_CHECKING:
    from .world import World

PAUSE_S = 4.0
IMPATIENT = 0.1
"""Chance that one goes away before he has an answer."""


class Lockers:
    def __init__(self, world: World) -> None:
        self.world = world
        self.rng = world.rng
        specs = world.scenario.config.models.values()
        self.models = [spec.key for spec in specs if spec.ram_lock and world.files_of(spec.key)]
        if self.models:
            Process(world.clock, self._script())

    def _script(self) -> Script:
        while True:
            yield self.rng.expovariate(1.0 / PAUSE_S) * self.world.scenario.slowness
            if not self.world.clients.at_work:
                return
            model = self.rng.choice(self.models)
            wish = Process(self.world.clock, self._wish(model, self.world.files_of(model)))
            if self.rng.random() < IMPATIENT:
                self.world.clock.after(self.rng.uniform(0.0, 1.0), wish.kill)

    def _wish(self, model: str, files: dict[str, int]) -> Script:
        yield from self.world.control.request(events.LockFiles, model=model, files=files)
