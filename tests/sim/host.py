"""The simulated host: it starts workers, ends them, and says when one is really gone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazyd.core import effects, events
from lazyd.worker.records import Object

from .channel import Channel
from .profiles import MOST_GROWN
from .worker import SimWorker

if TYPE_CHECKING:
    from .world import World

SPAWN_S = 0.05
KILLED = 9


class SimHost:
    """One host process. After its death `World` makes a new one."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.alive = True
        self.workers: dict[str, SimWorker] = {}
        """Those it was told to start and that are not gone."""
        self.inbox = Channel(world.clock, world.delay, self._obey)
        self.outbox = Channel(world.clock, world.delay, world.manager.tell)

    def say(self, event: events.Event) -> None:
        if self.alive and self.world.manager.attached:
            self.outbox.send(event)

    def _obey(self, order: tuple[effects.Effect, SimWorker]) -> None:
        effect, worker = order
        if worker.gone:
            return
        if not self.alive:
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

    def exit(self, worker: SimWorker, status: int | None, signal: int | None) -> None:
        """The process and its cgroup are gone. The news may overtake what the worker itself still said."""
        if worker.gone:
            return
        worker.die()
        self.workers.pop(worker.id, None)
        self.world.forget(worker)
        event = events.WorkerExited(
            worker=worker.id, status=status, signal=None if status is not None else signal, log="last words"
        )
        overtakes = self.world.rng.random() < 0.2
        self.world.clock.at(0.0 if overtakes else worker.outbox.quiet_at, self.say, event)

    def measure(self) -> None:
        for worker in self.workers.values():
            if worker.runs:
                share = self.world.rng.uniform(0.3, MOST_GROWN)
                worker.measured = {device: int(n * share) for device, n in worker.booked.items()}
                self.say(events.WorkerMeasured(worker=worker.id, bytes_by_device=worker.measured))

    # Loads: the worker does them, the dice are here.

    def begin_load(self, worker: SimWorker, known: Object) -> None:
        profile, rng = self.world.scenario.profile, self.world.rng
        seconds = rng.uniform(*self.world.character(worker.key).load_s)
        dice = rng.random()
        if (dice := dice - profile.load_fails) < 0:
            worker.later(seconds, known, self._fails)
        elif (dice := dice - profile.load_sticks) < 0:
            return  # It hangs.
        elif (dice := dice - profile.load_kills) < 0:
            worker.later(seconds, known, lambda w, _: self.exit(w, None, 11))
        elif (dice := dice - profile.load_crawls) < 0:
            self._progress(worker, known, rng.uniform(4.0, 12.0))
        else:
            self._progress(worker, known, seconds)

    def _progress(self, worker: SimWorker, known: Object, left_s: float) -> None:
        """Progress is told every second or so, until the object is ready."""
        step = self.world.rng.uniform(0.5, 1.5)
        if left_s <= step:
            worker.later(left_s, known, self._ready)
        else:
            worker.later(step, known, self._goes_on, left_s - step)

    def _goes_on(self, worker: SimWorker, known: Object, left_s: float) -> None:
        worker.say(events.LoadProgress(worker=worker.id, model=known.model, phase="weights", fraction=0.5))
        self._progress(worker, known, left_s)

    def _ready(self, worker: SimWorker, known: Object) -> None:
        worker.admission.loaded(known.model, self.world.clock.now)
        worker.reporter.note(at_once=True)
        worker.say(events.ObjectReady(worker=worker.id, model=known.model))

    def _fails(self, worker: SimWorker, known: Object) -> None:
        failure = events.ObjectFailed(worker=worker.id, model=known.model, reason="the weights are damaged")
        worker.forget(known.model, failure)

    # Its own death, and the manager's.

    def never_started(self, effect: effects.Effect, worker: SimWorker) -> None:
        if isinstance(effect, effects.StartWorker) and not worker.gone:
            worker.die()
            self.world.forget(worker)

    def lose(self, orders: list[tuple[effects.Effect, SimWorker]]) -> None:
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
        self.lose(self.inbox.cut(0))
        self.outbox.cut(self.world.rng.randrange(len(self.outbox) + 1))
