"""What a manager sees of the devices: samples, begun before they arrive, so that events may overtake them.

A sample that would say what the last one said is left out for a while: it tells nothing but that it is
younger, and whoever needs a young one asks for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazyd.core import events
from lazyd.core.pace import pace_s

from .driver import Look
from .memory import CUDA, HOST, RAM, Memory

if TYPE_CHECKING:
    from .manager import SimManager
    from .world import World

ASKING_S = 0.004
"""How long a driver takes to answer, mostly."""
MEASURING_S = 0.3
"""RAM is read when the host has measured its workers, or after this time."""
REPEATED_S = {CUDA: 1.0, HOST: 4.0}
"""How old the last sample may be before one that says the same is told."""
IN_PEACE_S = 20.0
"""The same when nothing goes wrong any more, and in schedules of an hour or so."""


class Sampler:
    """Of one manager, as long as it lives."""

    def __init__(self, world: World, manager: SimManager) -> None:
        self.world = world
        self.manager = manager
        self.rng = world.rng
        self.epoch = manager.epoch
        self.last: dict[str, list[Look]] = {}
        """By device, the last two of which the core was told."""
        self._is_asking: dict[str, bool] = {}
        self._again: dict[str, bool] = {}
        self._due: dict[str, float] = {}
        self._lost: dict[str, bool] = {}
        self._version: dict[str, int] = {}

    @property
    def is_over(self) -> bool:
        return self.epoch != self.manager.epoch

    def first(self) -> None:
        """Before anything else a manager looks at all devices."""
        for name, memory in self.world.memory.items():
            if not memory.is_lost:
                self._hear(name, self.world.clock.now, self.world.drivers.look(name, memory.used), memory.version)

    def now(self, name: str) -> None:
        """A sample is wanted that is begun after this."""
        if self._is_asking.get(name):
            self._again[name] = True
        else:
            self._begin(name)

    def changed(self, name: str) -> None:
        """Something about a device is not as it was: the next sample, soon, will show it."""
        if self.manager.up and not self._is_asking.get(name):
            self._wait(name, self.rng.random() * pace_s(self.manager.core.world, name))

    def _wait(self, name: str, seconds: float) -> None:
        when = self.world.clock.now + seconds
        if when < self._due.get(name, float("inf")):
            self._due[name] = when
            self.world.clock.at(when, self._is_due, name, when)

    def _is_due(self, name: str, when: float) -> None:
        if self._due.get(name) == when and not self.is_over:
            self.now(name)

    def _begin(self, name: str) -> None:
        now, drivers = self.world.clock.now, self.world.drivers
        self._is_asking[name], self._again[name] = True, False
        self._due.pop(name, None)
        answer_at = max(now + self.rng.random() * ASKING_S, drivers.answers_at(name))
        if name == RAM:
            measured_at = self.world.host.measure() if self.manager.attached else now
            answer_at = max(answer_at, min(measured_at, now + MEASURING_S))
        if drivers.is_silent(name):
            self.world.clock.after(ASKING_S, self._tell_silent)
        self.world.clock.at(answer_at, self._read, name, now, self.world.memory[name].used)

    def _tell_silent(self) -> None:
        """A driver does not answer, nor does it say what GPUs there are."""
        if not self.is_over:
            self.manager.tell(events.DriverSilent(reason="no answer"))

    def _read(self, name: str, begun: float, used_before: int) -> None:
        if self.is_over:
            return
        memory = self.world.memory[name]
        if memory.is_lost:
            self.world.clock.after(self.world.delay(), self._hear_lost, name)
        else:
            look = self.world.drivers.look(name, used_before)
            self.world.clock.after(self.world.delay(), self._hear, name, begun, look, memory.version)

    def _hear(self, name: str, begun: float, look: Look, version: int) -> None:
        if self.is_over:
            return
        memory = self.world.memory[name]
        self._lost[name], self._version[name] = False, version
        if self.manager.core.world.driver_problem is not None:
            self.manager.tell(events.DriverSilent(reason=None))
        self.last[name] = [*self.last.get(name, [])[-1:], look]
        self.manager.tell(self._event(memory, begun, look))
        self._over(name)

    def _event(self, memory: Memory, begun: float, look: Look) -> events.DeviceSeen:
        """By the processes that the shell knows by now."""
        reserved = {r.id for r in self.manager.core.world.reservations.values() if r.device == memory.name}
        ours = {owner: n for owner, n in look.shown.items() if owner in self.manager.known or owner in reserved}
        listed = look.strangers["listed"] + sum(look.shown.values()) - sum(ours.values())
        if memory.name == RAM:
            ours = {owner: n for owner, n in ours.items() if owner in reserved} | self.manager.measured
        return events.DeviceSeen(
            name=memory.name,
            kind=memory.kind,
            total_bytes=memory.total,
            used_bytes=look.used,
            begun=begun,
            held_bytes=ours,
            listed_bytes=listed if memory.kind == CUDA else 0,
            alone=memory.name in self.world.scenario.alone,
            uuid=f"GPU-{memory.name}" if memory.kind == CUDA else None,
        )

    def _hear_lost(self, name: str) -> None:
        if self.is_over:
            return
        if not self._lost.get(name):
            self._lost[name] = True
            self.manager.tell(events.DeviceLost(name=name, reason="it has fallen off the bus"))
        self._over(name)

    def _over(self, name: str) -> None:
        """The answer is told; the next question follows in its time."""
        self._is_asking[name] = False
        if self.is_over:
            return
        if self._again.get(name):
            self._begin(name)
            return
        memory = self.world.memory[name]
        pace = pace_s(self.manager.core.world, name)
        changed = memory.version != self._version.get(name) and not memory.is_lost
        is_calm = self.world.scenario.profile.callers or not self.world.faults
        repeated_s = IN_PEACE_S if is_calm else REPEATED_S[memory.kind]
        self._wait(name, pace if changed else max(pace, repeated_s))
