"""The shell around the core: events go in with the time, effects are carried out in order.

It is the real manager's part without its sockets. It can be killed at any moment: then the core
is thrown away, what was on its way is cut, and a new core learns the world from the host.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import TYPE_CHECKING

from lazyd.core import answers, effects, events
from lazyd.core.core import Core

from . import about_admission, about_shortage, invariants
from .memory import RAM
from .pages import Locking, Order, Said
from .sampler import Sampler
from .told import Told
from .truth import LeaseTruth, Violation
from .worker import SimWorker

if TYPE_CHECKING:
    from .world import World

FOREVER = float("inf")
SILENCE_S = 2.0
"""How long a worker may take to say what it holds, before the host's word for it is taken."""
MOST_TICKS_AT_ONCE = 50
KEPT_STEPS = 60
"""So many steps are shown when a schedule fails."""


class SimManager:
    def __init__(self, world: World) -> None:
        self.world = world
        self.core: Core
        self.told = Told(world)
        self.up = False
        self.attached = False
        """Workers and host can tell it something."""
        self.reaches_host = False
        """The host takes its orders: it is connected, and the core knows its workers."""
        self.epoch = 0
        self.connection = 0
        self.deadline = FOREVER
        self.events = 0
        self.samples = 0
        """Events that only showed a device once more."""
        self.stirred = 0.0
        """When there was another one."""
        self.sampler = Sampler(world, self)
        self.locking = Locking(self)
        self.known: dict[str, bool] = {}
        """Workers whose processes it knows."""
        self.measured: dict[str, int] = {}
        """Their own RAM, as the host has told."""
        self.kept: effects.KeepReservations | None = None
        self.exited: dict[str, bool] = {}
        """Workers whose end the core was told of."""
        self.seen: Counter[type] = Counter()
        """Kinds of events, effects and outcomes, so that a test can say that all of them occur."""
        self.noted: Counter[str] = Counter()
        """Kinds of notes."""
        self.admissions = 0
        self.steps: deque[tuple[float, object, list[effects.Effect]]] = deque(maxlen=KEPT_STEPS)
        self._ticks = (0.0, 0)

    # Events.

    def tell(self, event: events.Event) -> None:
        """One event, and everything that follows from it; the invariants are checked all along."""
        if not self.up:
            return
        world, now = self.world, self.world.clock.now
        self.events += 1
        if isinstance(event, events.DeviceSeen):
            self.samples += 1
        else:
            self.stirred = now
        self.told.hear(event)
        self._note(event)
        try:
            done = self.core.handle(event, now)
            deadline = self.core.next_deadline()
        except Exception as error:
            self.steps.append((now, event, []))
            raise Violation("core_carries_on", f"{type(error).__name__}: {error}") from error
        self.steps.append((now, event, done))
        self.seen[type(event)] += 1
        self.deadline = FOREVER if deadline is None else deadline
        for effect in done:
            invariants.check_effect(world, effect)
            if isinstance(effect, about_admission.ADMISSIONS):
                self.admissions += bool(about_admission.admitted(world, effect))
                about_shortage.note_admission(world, about_admission.admitted(world, effect))
            self.told.ordered(effect)
            self._carry_out(effect)
        invariants.check_after(world, event)

    def hear(self, said: events.Event | Said) -> None:
        """The host says something."""
        if isinstance(said, Said):
            self.locking.hear(said)
        else:
            self.tell(said)

    def _note(self, event: events.Event) -> None:
        """What the shell itself remembers."""
        match event:
            case events.WorkerStarted(worker=worker):
                self.known[worker] = True
            case events.WorkerMeasured(worker=worker, bytes_by_device=measured):
                self.known[worker] = True
                self.measured[worker] = measured[RAM]
            case events.WorkerExited(worker=worker):
                self.exited[worker] = True
                self.measured.pop(worker, None)
            case events.HostLost():
                self.measured.clear()
            case events.HostFound(workers=workers):
                self.known.update((report.worker, True) for report in workers)
                self.measured.update(
                    (report.worker, report.measured_bytes[RAM]) for report in workers if report.measured_bytes
                )

    def tick(self) -> None:
        """The moment that `next_deadline` announced."""
        now = self.world.clock.now
        count = self._ticks[1] + 1 if self._ticks[0] == now else 1
        self._ticks = (now, count)
        if count > MOST_TICKS_AT_ONCE:
            raise Violation("timers_move_on", f"{count} ticks at {now}, next deadline {self.deadline}")
        self.tell(events.Tick())

    # Effects.

    def _carry_out(self, effect: effects.Effect) -> None:
        self.seen[type(effect)] += 1
        handler = getattr(self, f"_do_{type(effect).__name__.lower()}", None)
        if handler is not None:
            handler(effect)
        elif (worker := self.world.workers.get(getattr(effect, "worker", ""))) is not None:
            worker.inbox.send(effect)

    def _do_note(self, effect: effects.Note) -> None:
        self.noted[effect.kind] += 1

    def _do_answer(self, effect: effects.Answer) -> None:
        self.seen[type(effect.outcome)] += 1
        pending = self.world.control.by_number[effect.request]
        match effect.outcome:
            case answers.Done() if pending.kind is events.Release:
                if (lease := self.world.leases.get(pending.fields["lease"])) is not None:
                    lease.given_back = True
            case answers.Done() if pending.kind is events.Pin:
                self.told.pin_done(pending.fields["model"], pending.fields["pinned"])
            case answers.Done() if pending.kind is events.LockFiles:
                self.locking.booked(self.told.resolve(pending.fields["model"]) or "", pending.fields["files"])
        self.world.control.answered(effect.outcome, pending)

    def _do_predict(self, effect: effects.Predict) -> None:
        self.world.predicting.predict(effect)

    def _do_fetch(self, effect: effects.Fetch) -> None:
        self.world.fetching.fetch(effect)

    def _do_stopfetching(self, effect: effects.StopFetching) -> None:
        self.world.fetching.stop(effect)

    def _do_learn(self, effect: effects.Learn) -> None:
        self.world.predicting.learn(effect)

    def _do_memorable(self, _: effects.Memorable) -> None:
        self.world.recollection.gather(self)

    def _do_keeppast(self, effect: effects.KeepPast) -> None:
        self.world.recollection.keep_past(effect)

    def _do_warmedup(self, effect: effects.WarmedUp) -> None:
        self.world.recollection.warmed_up(effect)

    def _do_sample(self, effect: effects.Sample) -> None:
        self.sampler.now(effect.device)

    def _do_keepreservations(self, effect: effects.KeepReservations) -> None:
        self.kept = effect
        if self.reaches_host:
            self.world.host.inbox.send((effect, None))

    def _do_unlockfiles(self, effect: effects.UnlockFiles) -> None:
        self.locking.unlock(effect)

    def _do_startworker(self, effect: effects.StartWorker) -> None:
        worker = SimWorker(self.world, effect, self.told.config.models[effect.model])
        self.world.workers[worker.id] = self.world.every_worker[worker.id] = worker
        self._order(effect, worker)

    def _do_stopworker(self, effect: effects.StopWorker) -> None:
        worker = self.world.workers.get(effect.worker)
        if worker is not None:
            worker.ordered_to_stop = True
            self._order(effect, worker)

    def _order(self, effect: effects.Effect, worker: SimWorker | None) -> None:
        if self.reaches_host:
            self.world.host.inbox.send((effect, worker))
        else:
            self.world.host.never_started(effect, worker)

    def _do_grant(self, effect: effects.Grant) -> None:
        worker = self.world.every_worker[effect.worker]
        lease = LeaseTruth(
            lease=effect.lease,
            token=effect.token,
            model=effect.model,
            worker=worker,
            holder=effect.holder,
            granted=self.world.clock.now,
            hold_until=effect.hold_until,
            parent=effect.parent,
        )
        self.world.leases[lease.lease] = lease
        if not worker.gone:
            worker.leases[lease.lease] = lease
            worker.inbox.send(lease)

    def _do_savepins(self, effect: effects.SavePins) -> None:
        self.world.saved_pins = effect.pins

    # Life and death.

    def start(self) -> None:
        """A new manager: it reads the devices and the configuration, then finds the host."""
        self.up = True
        self.core = Core(self.world.new_id)
        self.told = Told(self.world)
        self.sampler = Sampler(self.world, self)
        self.locking = Locking(self)
        self.kept = None
        self.known.clear()
        self.measured.clear()
        self.world.uses_seen = {}
        self.sampler.first()
        self.configure()
        self.world.recollection.recall(self)
        self.world.control.manager_is_back()
        self.world.clock.after(self.world.rng.uniform(0.0, 0.3), self.find_host, self.epoch)

    def configure(self) -> None:
        """The configuration is read, again."""
        self.tell(events.Configure(config=self.world.config, pins=self.world.saved_pins))
        if self.up:
            self.world.timetable.put_in_force(self.world.config)

    def find_host(self, epoch: int) -> None:
        """The host tells of its workers, each worker of what it holds."""
        if epoch != self.epoch or self.reaches_host or not self.world.host.alive:
            return
        self.attached = True
        self.connection += 1
        self.world.host.finish_spawns()
        running = list(self.world.host.workers.values())
        # A manager that had lost the host knows its workers: they are not silent then, see `scenario.Profile.silent`.
        patience_s = SILENCE_S if self.told.hosts_found == 0 else FOREVER
        reports = tuple(worker.find_manager(patience_s) for worker in running)
        patience_s = SILENCE_S if any(worker.silent_until is not None for worker in running) else 0.0
        arrives = self.world.clock.now + patience_s + self.world.delay()
        for worker in running:
            worker.outbox.not_before(arrives)
        self.world.host.outbox.not_before(arrives)
        host = self.world.host
        found = events.HostFound(workers=reports, reservations=host.kept, locks=host.pages.reports)
        self.world.clock.at(arrives, self._found, found, host.pages.told(), self.connection)

    def _found(self, found: events.HostFound, locks: dict[str, Order], connection: int) -> None:
        if connection == self.connection and self.attached:
            self.reaches_host = True
            if self.kept is not None:  # a host that comes later is told the same
                self.world.host.inbox.send((self.kept, None))
            self.tell(found)
            self.locking.found(locks)

    def reconnect(self) -> None:
        """The connection to the host broke, and is there again: the same core hears anew of all workers.

        Workers are reached all the time, first by their old channels, then by new ones. Orders for
        the host are dropped until the core has been told what there is.
        """
        host = self.world.host
        self.reaches_host = False
        self.connection += 1
        host.outbox.cut(0)
        host.lose(host.inbox.cut(self.world.rng.randrange(len(host.inbox) + 1)))
        self.world.clock.after(self.world.delay(), self._host_away, self.connection)

    def _perhaps_silent(self, worker: SimWorker) -> bool:
        rng = self.world.rng
        if worker.runs and worker.silent_until is None and rng.random() < self.world.scenario.profile.silent:
            worker.fall_silent(rng.uniform(SILENCE_S, 3 * SILENCE_S))
        return worker.silent_until is not None

    def _host_away(self, connection: int) -> None:
        if connection == self.connection:
            self.tell(events.HostAway())
            self.world.clock.after(self.world.rng.uniform(0.0, 0.3), self.find_host, self.epoch)

    def lose_host(self) -> None:
        """The host has died. A manager that knew it hears of it a moment later, and finds a new one after that."""
        if not self.attached:
            return
        self.attached = self.reaches_host = False
        self.connection += 1
        self.world.clock.after(self.world.delay(), self._host_lost, self.epoch)

    def _host_lost(self, epoch: int) -> None:
        if epoch != self.epoch:
            return
        self.tell(events.HostAway())
        self.tell(events.HostLost())
        self.world.clock.after(self.world.rng.uniform(0.05, 1.5), self.find_host, epoch)

    def die(self) -> None:
        """SIGKILL: what was on its way to others may still arrive, what was on its way back does not."""
        self.up = self.attached = self.reaches_host = False
        self.epoch += 1
        self.connection += 1
        self.deadline = FOREVER
        rng, host = self.world.rng, self.world.host
        host.outbox.cut(0)
        host.lose(host.inbox.cut(rng.randrange(len(host.inbox) + 1)))
        for worker in list(self.world.workers.values()):
            if not self._perhaps_silent(worker):
                worker.lose_manager(rng.randrange(len(worker.inbox) + 1))
        self.world.control.manager_died()
