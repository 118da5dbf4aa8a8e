"""What goes wrong, and who interferes: crashes, restarts, strangers, people with lazyctl."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from msgspec.structs import replace

from lazyd.core import events
from lazyd.core.spec import MIB, Config

from .clock import Script
from .memory import CUDA, HOST, Memory
from .scenario import draw_settings

if TYPE_CHECKING:
    from .world import World


POLITE_BYTES, POLITE_PAUSE_S = 8 * MIB, 1.3
"""Less than the margin in the time in which a sample may be built on."""


class Mischief:
    """One process that does something bad every now and then."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.rng: random.Random = world.rng
        self._took_at: dict[str, float] = {}
        self.names = list(world.scenario.profile.mischief)
        self.weights = list(world.scenario.profile.mischief.values())

    def script(self) -> Script:
        while True:
            yield self.rng.expovariate(1.0 / self.world.scenario.profile.mischief_every_s)
            if not self.world.faults:
                return
            what = self.rng.choices(self.names, self.weights)[0]
            getattr(self, what)()

    def crash(self) -> None:
        """A worker dies, wherever it is: starting, loading, in a call, on its way out."""
        workers = [worker for worker in self.world.host.workers.values() if worker.pid]
        if workers:
            self.world.host.exit(self.rng.choice(workers), None, self.rng.choice((9, 11)))

    def restart(self) -> None:
        if self.world.manager.up:
            self.world.manager.die()
            self.world.clock.after(self.rng.uniform(0.01, 1.0), self.world.manager.start)

    def host_lost(self) -> None:
        if self.world.host.alive:
            self.world.replace_host()

    def host_upgraded(self) -> None:
        """The host executes itself anew: its connection breaks and comes back, its workers stay."""
        if self.world.manager.attached:
            self.world.manager.reconnect()

    def measure(self) -> None:
        """The host measures its workers at another moment than that of a sample."""
        self.world.host.measure()

    def strangers(self) -> None:
        """Somebody else uses a device, or stops using it."""
        memory = self.rng.choice(list(self.world.memory.values()))
        kind = self.rng.choice(("hidden", "listed"))
        wanted = self.rng.choice((0, 0, int(memory.total * self.rng.uniform(0.1, 0.9))))
        more = wanted - memory.strangers[kind]
        if self.world.scenario.profile.polite:
            more = min(more, self._polite_bytes(memory))
        memory.grow_stranger(kind, more)

    def _polite_bytes(self, memory: Memory) -> int:
        """So much that no admission which has not seen it can go wrong, and nothing that lazyd has booked."""
        core, now = self.world.manager.core.world, self.world.clock.now
        if now < self._took_at.get(memory.name, 0.0) + POLITE_PAUSE_S:
            return 0
        self._took_at[memory.name] = now
        booked = core.ledger.devices[memory.name].booked_bytes
        if memory.kind == HOST:
            booked = max(booked, core.ledger.devices[memory.name].budget_bytes)
        return max(0, min(POLITE_BYTES, memory.total - booked - memory.strange))

    def pressure(self) -> None:
        """Programs stall for want of memory."""
        self.world.manager.tell(events.MemoryPressure())

    def hang(self) -> None:
        """A driver does not answer for a while."""
        self.world.drivers.hang(self.rng.choice(list(self.world.memory)), self.rng.choice((0.3, 1.0, 4.0, 10.0)))

    def lose(self) -> None:
        """A GPU falls off the bus, and is there again some time later, with nothing on it."""
        gpus = [memory for memory in self.world.memory.values() if memory.kind == CUDA and not memory.is_lost]
        if gpus:
            memory = self.rng.choice(gpus)
            self.world.lose(memory)
            self.world.clock.after(self.rng.uniform(0.5, 15.0), self.world.find, memory)

    def replace_files(self) -> None:
        """A file of a model is replaced by another of its name."""
        files = [file for character in self.world.scenario.characters.values() for file in character.appetite.files]
        if files:
            file = self.rng.choice(files)
            self.world.replaced[file] = self.world.replaced.get(file, 0) + 1

    def set_clock(self) -> None:
        self.world.timetable.set_clock()

    def unload(self) -> None:
        count = self.rng.choice((1, 1, 2))
        names = tuple(self.world.popular_model() for _ in range(count))
        self._unload(models=names)

    def unload_all(self) -> None:
        self._unload(all=True)

    def unload_idle(self) -> None:
        self._unload(idle=True)

    def _unload(self, **what: object) -> None:
        deadline = self.world.clock.now + self.rng.choice((0.1, 1.0, 30.0))
        self.world.control.tell(events.Unload, deadline=deadline, force=self.rng.random() < 0.3, **what)

    def pin(self) -> None:
        name, pinned = self.world.popular_model(), self.rng.random() < 0.5
        self.world.control.tell(events.Pin, model=name, pinned=pinned)

    def strange_release(self) -> None:
        """Somebody gives back a lease that is not theirs, or never was."""
        names = [*list(self.world.leases)[-5:], "no-such-lease"]
        self.world.control.tell(events.Release, lease=self.rng.choice(names), holder=4242)

    def configure(self) -> None:
        """A model changes, goes or comes."""
        config = self.world.config
        models = dict(config.models)
        key = self.rng.choice(list(models))
        how = self.rng.random()
        if how < 0.25 and len(models) > 2:
            del models[key]
        elif how < 0.5:
            gone = [spec for spec in self.world.scenario.config.models.values() if spec.key not in models]
            models.update((spec.key, spec) for spec in gone)
        elif how < 0.6 and models[key].ram_lock:
            models[key] = replace(models[key], ram_lock=False)
        elif how < 0.75:
            models[key] = replace(models[key], idle_timeout_s=self.rng.choice((1.0, 5.0, 15.0)), idle_written=True)
        else:
            models[key] = replace(models[key], options={"revision": self.rng.randrange(1000)})
        self._accept(replace(config, models=models))

    def budget(self) -> None:
        """The budgets change, perhaps below what is booked already."""
        settings = draw_settings(self.rng, self.world.scenario.devices)
        if self.rng.random() < 0.3:
            settings = replace(settings, budget={**settings.budget, "ram": self.rng.randrange(150, 500) * MIB})
        self._accept(replace(self.world.config, settings=settings))

    def _accept(self, config: Config) -> None:
        self.world.config = config
        self.world.manager.configure()
