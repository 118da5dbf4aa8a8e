"""Programs that lazyd does not run, and the clients that reserve memory for them.

A client is what ``lazyctl reserve`` is: it asks, waits, starts its program, and holds the reservation by its
connection. When the manager comes back it claims it again. It may be killed, and its program live on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazyd.core import answers, events

from .clock import Process, Script
from .memory import CUDA

if TYPE_CHECKING:
    from .world import World

WATCHING_S = 0.5
"""A client notices after so long, at most, that the manager has gone."""
LATE_S = 45.0
"""Longer than a reservation is kept for a client that does not come back."""
LIE = 1.3
"""A program may take so much more than was reserved for it."""


class Program:
    """What runs on a reserved device, under the name of the reservation."""

    def __init__(self, world: World, reservation: str, device: str, reserved: int) -> None:
        self.world = world
        self.name = reservation
        self.memory = world.memory[device]
        self.reserved = reserved
        lies = world.rng.random() < world.scenario.profile.programs_lie
        self.wants = int(reserved * (LIE if lies else world.rng.uniform(0.3, 1.0)))
        self.epoch = world.control.reserved_by[reservation]
        """Of the manager that its client is connected to."""
        self.is_connected = True
        world.programs[reservation] = self

    def grow(self, share: float) -> bool:
        """Takes a part of what it wants; False: there is not so much, and it gives up."""
        if self.memory.is_lost or self.memory.take(self.name, int(self.wants * share)):
            return not self.memory.is_lost
        self.world.ran_short(self.name, self.memory.name)
        return False

    def is_called(self, reservation: str) -> None:
        """Its client has been given another reservation for it."""
        del self.world.programs[self.name]
        self.memory.rename(self.name, reservation)
        self.name = reservation
        self.world.programs[reservation] = self

    def end(self) -> None:
        """Its processes are gone."""
        self.world.programs.pop(self.name, None)
        if self.memory.kind == CUDA and not self.memory.is_lost:
            self.memory.leave(self.name)
            self.world.drivers.ended(self.name)
        else:
            self.memory.drop(self.name)


class Programs:
    """All who reserve."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.rng = world.rng
        self.sessions: dict[int, Process] = {}
        for number in range(world.scenario.profile.programs):
            Process(world.clock, self._client(number))

    def leave(self) -> None:
        """Everybody goes."""
        for session in list(self.sessions.values()):
            session.kill()

    def _client(self, number: int) -> Script:
        while True:
            yield self.rng.expovariate(1.0 / 4.0) * self.world.scenario.slowness
            if not self.world.clients.at_work:
                return
            session = self.sessions[number] = Process(self.world.clock, self._session(2000 + number % 2))
            if self.rng.random() < 0.2:
                self.world.clock.after(self.rng.uniform(0.01, 6.0), session.kill)
            while not session.over:
                yield WATCHING_S

    def _session(self, uid: int) -> Script:
        memory = self.rng.choice(list(self.world.memory.values()))
        wanted = int(memory.total * self.rng.uniform(0.02, 0.6))
        asked = {"device": memory.name, "bytes": wanted, "holder": uid, "pid": self.world.next_pid()}
        outcome = yield from self.world.control.request(
            events.Reserve,
            **asked,
            deadline=self._deadline(),
            wait=self.rng.random() < 0.8,
            command="train.py",
            resume=None,
        )
        if not isinstance(outcome, answers.Reserved):
            return
        program = Program(self.world, outcome.reservation, memory.name, wanted)
        try:
            yield from self._run(program, asked)
        finally:
            self._hang_up(program)

    def _deadline(self) -> float | None:
        return self.world.clock.now + self.rng.choice((0.5, 3.0, 20.0)) if self.rng.random() < 0.6 else None

    def _run(self, program: Program, asked: dict[str, object]) -> Script:
        """The program takes its memory by and by, and ends some time."""
        ends_at = self.world.clock.now + self.rng.uniform(1.0, 15.0)
        while self.world.clock.now < ends_at:
            if not program.grow(self.rng.random()):
                return
            yield self.rng.uniform(0.1, WATCHING_S)
            if program.epoch != self.world.manager.epoch:
                program.is_connected = False
                yield from self._come_back(program, asked)
                if not program.is_connected:
                    return

    def _come_back(self, program: Program, asked: dict[str, object]) -> Script:
        """The reservation is claimed again, by most in time."""
        yield LATE_S if self.rng.random() < 0.1 else self.rng.uniform(0.0, 3.0)
        outcome = yield from self.world.control.request(
            events.Reserve, **asked, deadline=None, wait=True, command="train.py", resume=program.name
        )
        if isinstance(outcome, answers.Reserved):
            program.epoch, program.is_connected = self.world.control.reserved_by[outcome.reservation], True
            if outcome.reservation != program.name:
                program.is_called(outcome.reservation)

    def _hang_up(self, program: Program) -> None:
        """The connection closes when the program has ended; or the client is killed, and the program lives on."""
        if self.rng.random() < 0.2:
            self._close(program)
            self.world.clock.after(self.rng.uniform(0.0, 2.0), program.end)
        else:
            program.end()
            self._close(program)

    def _close(self, program: Program) -> None:
        if program.is_connected and program.epoch == self.world.manager.epoch:
            program.is_connected = False
            self.world.clock.after(self.world.delay(), self.world.control.closed, program.name, program.epoch)
