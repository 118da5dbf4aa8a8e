"""Schedules: when models are needed, as the shell tells the core (`lazyd.manager.readiness.schedules`).

Each has a period here, instead of cron lines. Now and then the clock of the machine is set, and all times are others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazyd.core import events
from lazyd.core.spec import Config, PrewarmWhen

if TYPE_CHECKING:
    from .world import World

A_MOMENT_S = 1e-3
PERIODS_S = (45.0, 90.0, 200.0)


class Timetable:
    def __init__(self, world: World) -> None:
        self.world = world
        self.rng = world.rng
        keys = sorted(world.scenario.characters) if world.scenario.profile.expects else ()
        self.periods = {key: self.rng.choice(PERIODS_S) for key in keys}
        self.phases = {key: self.rng.uniform(0.0, period_s) for key, period_s in self.periods.items()}
        self._told: dict[str, float] = {}
        self._epoch = -1
        self._rings = 0

    def next_time(self, key: str) -> float:
        period_s, phase = self.periods[key], self.phases[key]
        soon = self.world.clock.now + A_MOMENT_S
        return (soon - phase) // period_s * period_s + period_s + phase

    def put_in_force(self, config: Config) -> None:
        """The configuration is another one, or the manager is."""
        if self._epoch != self.world.manager.epoch:
            self._epoch, self._told = self.world.manager.epoch, {}
        keys = [spec.key for spec in config.models.values() if spec.prewarm.when is PrewarmWhen.SCHEDULE]
        for key in [key for key in self._told if key not in keys]:
            del self._told[key]
            self.world.manager.tell(events.Scheduled(model=key, at=None))
        self._told.update(dict.fromkeys(keys, 0.0))
        self._look()

    def _look(self) -> None:
        """Tells of all next times, and looks again at the first of them."""
        for key in list(self._told):
            due = self._told[key] = self.next_time(key)
            self.world.manager.tell(events.Scheduled(model=key, at=due))
        self._rings += 1
        if self._told:
            self.world.clock.at(min(self._told.values()), self._ring, self._rings)

    def _ring(self, number: int) -> None:
        if number == self._rings and self._epoch == self.world.manager.epoch and self.world.manager.up:
            self._look()

    def set_clock(self) -> None:
        """The clock of the machine is set."""
        self.phases = {key: self.rng.uniform(0.0, period_s) for key, period_s in self.periods.items()}
        if self.world.manager.up and self._epoch == self.world.manager.epoch:
            self._look()
