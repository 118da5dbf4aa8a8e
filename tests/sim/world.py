"""One schedule: everything put together, run for so many events, then left in peace and checked."""

from __future__ import annotations

import random
from typing import NoReturn

from lazyd.core.spec import Config

from . import about_shortage, bound, peace
from .about_leaving import warmup_hangs
from .callers import Callers
from .clients import Clients
from .clock import START, Clock, Process
from .control import Control
from .driver import Drivers
from .fetching import Fetching
from .host import SimHost
from .loads import KILLED
from .lockers import Lockers
from .manager import SimManager
from .memory import Memory
from .mischief import Mischief
from .predicting import Predicting
from .programs import Program, Programs
from .recollection import Recollection
from .scenario import Character, Scenario
from .timetable import Timetable
from .truth import LeaseTruth, Violation
from .worker import SimWorker

STANDSTILL_S = 400.0
"""Longer than any client waits."""
BUSY_S, QUIET_S, QUIET = 25.0, 8.0, 12.0
"""Clients work for a while, then hardly: both rush and idleness occur."""


class World:
    """The machine and everything on it. All randomness comes from one generator."""

    def __init__(self, scenario: Scenario, rng: random.Random) -> None:
        self.scenario = scenario
        self.rng = rng
        self.clock = Clock(START)
        self.faults = True
        self.may_be_silent = scenario.profile.silent > 0
        self.config: Config = scenario.config
        self.saved_pins: frozenset[str] = frozenset()
        self.memory: dict[str, Memory] = scenario.machine()
        for memory in self.memory.values():
            memory.changed = self._changed
        self.drivers = Drivers(self)
        self.predicting = Predicting(self)
        self.fetching = Fetching(self)
        self.strange_then: dict[str, int] = {}
        """By device: what nobody has booked, as seen when something was admitted there last."""
        self.shortages: dict[str, int] = {}
        """How often a device had less than somebody needed."""
        self.workers: dict[str, SimWorker] = {}
        """From the order to start it until the process is gone: what really is booked."""
        self.leases: dict[str, LeaseTruth] = {}
        self.every_worker: dict[str, SimWorker] = {}
        """Those that are gone too."""
        self.broken: Violation | None = None
        self.bound = bound.Bound(scenario)
        self._ids = 0
        self._pids = 100
        self.uses_seen: dict[str, object] = {}
        self.recollection = Recollection(self)
        self.timetable = Timetable(self)
        self.manager = SimManager(self)
        self.control = Control(self)
        self.host = SimHost(self)
        self.clients = Clients(self)
        self.programs: dict[str, Program] = {}
        """By reservation: those that run."""
        self.reserving = Programs(self)
        self.replaced: dict[str, int] = {}
        """How often a file was replaced by another of its name."""
        Lockers(self)
        Callers(self)

    # Running.

    def run(self, count: int) -> None:
        """So many events and their samples, then peace."""
        self.manager.start()
        if self.scenario.profile.mischief:
            Process(self.clock, Mischief(self).script())
        while self.manager.events - self.manager.samples < count:
            self.step()
        if self.rng.random() < self.scenario.profile.stops:
            peace.stop(self)
        peace.check(self)

    def step(self) -> None:
        """The next thing that happens, or the next alarm of the core if that is earlier."""
        if self.broken is not None:
            raise self.broken
        if self.clock.now > self.manager.stirred + STANDSTILL_S and self.faults:
            self.fail("calls_end", "nothing happens any more, and clients wait")
        if self.manager.deadline <= self.clock.next_time():
            self.clock.now = max(self.clock.now, self.manager.deadline)
            self.manager.tick()
        else:
            self.clock.run_next()

    def run_until(self, when: float) -> None:
        while min(self.manager.deadline, self.clock.next_time()) <= when:
            self.step()
        self.clock.now = max(self.clock.now, when)

    def fail(self, invariant: str, detail: str) -> NoReturn:
        """An invariant is broken. It counts even if whoever is asked to do something drops the exception."""
        self.broken = self.broken or Violation(invariant, detail)
        raise self.broken

    # Dice.

    def delay(self) -> float:
        """How long a message takes."""
        profile = self.scenario.profile
        if profile.slow_message and self.rng.random() < profile.slow_message:
            return self.rng.uniform(0.0, 1.0)
        return self.rng.random() * profile.delay_s

    def popular_model(self) -> str:
        """A name that clients ask for; a few are asked for much more than the rest."""
        names = self.scenario.names
        return names[int(self.rng.random() ** 2 * len(names))]

    def quietness(self) -> float:
        if self.scenario.profile.rivals or self.scenario.profile.callers:
            return 1.0
        return 1.0 if (self.clock.now - START) % (BUSY_S + QUIET_S) < BUSY_S else QUIET

    def character(self, key: str) -> Character:
        return self.scenario.characters[key]

    def files_of(self, key: str) -> dict[str, int]:
        """The files that a model maps, as they are now."""
        files = self.character(key).appetite.files
        return {f"{file}.{self.replaced.get(file, 0)}": n for file, n in files.items()}

    def release_s(self, key: str) -> float:
        return self.character(key).release_s

    def new_id(self) -> str:
        self._ids += 1
        return f"id{self._ids}"

    def next_pid(self) -> int:
        self._pids += 1
        return self._pids

    # Facts.

    def forget(self, worker: SimWorker) -> None:
        """It is gone, or never came to be: its bytes are free."""
        self.workers.pop(worker.id, None)

    def may_end_calls(self, worker: SimWorker, model: str) -> bool:
        """A forced unload, a stop, a lost GPU or a warm-up that hangs may end what is otherwise protected."""
        told = self.manager.told
        if told.stop_deadline is not None or any(device in told.books.lost for device in worker.devices):
            return True
        if worker.id in told.workers and warmup_hangs(self, told.workers[worker.id], model):
            return True
        unloads = [*told.unloads.values(), *told.just_unloaded]
        return any(unload.force and told.means(unload, worker.key, model) for unload in unloads)

    # Memory.

    def _changed(self, device: str) -> None:
        self.manager.sampler.changed(device)

    def ran_short(self, owner: str, device: str) -> None:
        """A worker, or a program with a reservation, needed more of a device than there was."""
        self.shortages[device] = self.shortages.get(device, 0) + 1
        problem = about_shortage.memory_does_not_run_out(self, owner, device)
        if problem is not None:
            self.fail("memory_does_not_run_out", problem)

    def kill_for_memory(self, worker: SimWorker) -> None:
        self.host.exit(worker, None, KILLED, out_of_memory=True)

    # Accidents that concern several parts.

    def lose(self, memory: Memory) -> None:
        """A GPU is gone, and all that was on it; its processes get errors."""
        memory.is_lost = True
        memory.reset()
        for worker in self.workers.values():
            worker.consumption.lose(memory.name)

    def find(self, memory: Memory) -> None:
        """It is there again."""
        memory.is_lost = False
        self.manager.sampler.changed(memory.name)

    def replace_host(self) -> None:
        """The host dies with all its workers; somebody starts a new one."""
        self.host.die()
        self.host = SimHost(self)
        self.manager.lose_host()
