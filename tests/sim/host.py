"""The simulated host: it starts workers, ends them, and says when one is really gone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazyd.core import effects, events

from .channel import Channel
from .loads import KILLED, Loads
from .memory import RAM
from .pages import Order as LockOrder
from .pages import Pages, Said
from .worker import SimWorker

if TYPE_CHECKING:
    from .world import World

SPAWN_S = 0.05

Order = tuple[effects.Effect | LockOrder, SimWorker | None]
"""What the manager wants done, and with which worker."""


class SimHost:
    """One host process. After its death `World` makes a new one."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.alive = True
        self.workers: dict[str, SimWorker] = {}
        """Those it was told to start and that are not gone."""
        self.kept: tuple[events.ReservationReport, ...] = ()
        """The reservations, for the next manager."""
        self.loads = Loads(self)
        self.pages = Pages(self)
        self.inbox = Channel(world.clock, world.delay, self._obey)
        self.outbox = Channel(world.clock, world.delay, world.manager.hear)

    def say(self, event: events.Event | Said) -> None:
        if self.alive and self.world.manager.attached:
            self.outbox.send(event)

    def _obey(self, order: Order) -> None:
        effect, worker = order
        if isinstance(effect, effects.KeepReservations):
            self.kept = effect.reservations
        elif isinstance(effect, LockOrder):
            self.pages.order(effect)
        elif isinstance(effect, effects.UnlockFiles):
            self.pages.let_go(effect.model)
        elif worker is None or worker.gone:
            return
        elif not self.alive:
            self.never_started(effect, worker)
        elif isinstance(effect, effects.StartWorker):
            self.workers[worker.id] = worker
            self.world.clock.after(self.world.rng.uniform(0.0, SPAWN_S), self._spawned, worker)
        elif isinstance(effect, effects.StopWorker):
            self._end(worker, effect.grace_s)

    def finish_spawns(self) -> None:
        """A host that is asked for its workers first has those that it is about to have."""
        for worker in list(self.workers.values()):
            self._spawned(worker)

    def _spawned(self, worker: SimWorker) -> None:
        if worker.gone or worker.pid or not self.alive:
            return
        if self.world.rng.random() < self.world.scenario.profile.load_kills / 4:
            self.exit(worker, None, None)
            return
        worker.pid = self.world.next_pid()
        self.say(events.WorkerStarted(worker=worker.id, pid=worker.pid))
        worker.run()

    def _end(self, worker: SimWorker, grace_s: float) -> None:
        """Asks it to leave, kills it after the grace; its memory is free a while after."""
        worker.leave()
        closing = self.world.rng.uniform(0.0, self.world.release_s(worker.key) / 2)
        delay = min(closing, grace_s) + self.world.rng.uniform(0.0, self.world.release_s(worker.key) / 2)
        self.world.clock.after(delay, self.exit, worker, 0 if closing <= grace_s else None, KILLED)

    def exit(self, worker: SimWorker, status: int | None, signal: int | None, *, out_of_memory: bool = False) -> None:
        """The process and its cgroup are gone. The news may overtake what the worker itself still said."""
        if worker.gone:
            return
        worker.die()
        self.workers.pop(worker.id, None)
        self.world.forget(worker)
        event = events.WorkerExited(
            worker=worker.id,
            status=status,
            signal=None if status is not None else signal,
            log="last words",
            out_of_memory=out_of_memory,
        )
        overtakes = self.world.rng.random() < 0.2
        self.world.clock.at(0.0 if overtakes else worker.outbox.quiet_at, self.say, event)

    def measure(self) -> float:
        """Measures all workers; returns when the manager has heard of it. What has not changed is not told again."""
        for worker in self.workers.values():
            if worker.runs and not worker.is_measured:
                worker.is_measured = True
                worker.measured = {RAM: worker.consumption.held(RAM)}
                self.say(events.WorkerMeasured(worker=worker.id, bytes_by_device=worker.measured))
        return self.outbox.quiet_at

    # Its own death, and the manager's.

    def never_started(self, effect: effects.Effect | LockOrder, worker: SimWorker | None) -> None:
        if isinstance(effect, effects.StartWorker) and worker is not None and not worker.gone:
            worker.die()
            self.world.forget(worker)

    def lose(self, orders: list[Order]) -> None:
        """These orders never reached it."""
        for effect, worker in orders:
            self.never_started(effect, worker)

    def die(self) -> None:
        """All its workers die with it."""
        self.alive = False
        for worker in list(self.workers.values()):
            worker.die()
            worker.outbox.cut(self.world.rng.randrange(len(worker.outbox) + 1))
            self.world.forget(worker)
        self.workers.clear()
        self.pages.die()
        self.lose(self.inbox.cut(0))
        self.outbox.cut(self.world.rng.randrange(len(self.outbox) + 1))
