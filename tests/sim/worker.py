"""A simulated worker: the rules are the real ones, the loads and calls are dice.

`lazyd.worker.admission` decides here as in a real worker process, so the two halves of the
hand-shake are tried against each other. Around it this module does what `lazyd.worker.main`
does: it obeys the orders of the manager as they come, and lets connections and calls come and go.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from lazyd.core import effects, events
from lazyd.core.spec import ModelSpec
from lazyd.manager.processes.catching_up import missed
from lazyd.worker.admission import Admission
from lazyd.worker.records import Action, Drop, Emptied, Lease, Object, Revoke, Tell

from .channel import Channel
from .consumption import Consumption
from .desk import Desk
from .memory import RAM
from .reporting import Reporter
from .truth import LeaseTruth

if TYPE_CHECKING:
    from .world import World


LOADS = ("loading", "warming")
PARK_FAILS = 0.05
MOST_LEAKED = 1.15
"""A call that leaks makes its worker grow by so much at most."""


class SimWorker:
    """Exists from the order to start it until its process is gone."""

    def __init__(self, world: World, order: effects.StartWorker, spec: ModelSpec) -> None:
        self.world = world
        self.id = order.worker
        self.key = order.model
        self.spec = spec
        self.memo = order.memo
        self.devices = order.devices
        self.consumption = Consumption(self, order.layers, order.devices)
        self.measured: dict[str, int] = {}
        """As the host has measured it at last."""
        self.is_measured = False
        """Nothing has changed since."""
        self.pid = 0
        self.started = 0.0
        self.runs = False
        """Its process serves clients."""
        self.gone = False
        self.ordered_to_stop = False
        self.silent_until: float | None = None
        """Inside native code: it reads nothing and says nothing until then."""
        self.was_silent = False
        """It may have obeyed an earlier manager after the present one had been told what it holds."""
        self._told_by_host: events.WorkerReport | None = None
        self._unread = 0
        self.admission = Admission()
        self.admission.max_calls = spec.max_calls
        self.desk = Desk(self)
        self.reporter = Reporter(self)
        self.leases: dict[str, LeaseTruth] = {}
        """Granted by the core, whether the grant has reached the worker or not."""
        self.load_again: dict[str, bool] = {}
        self.orders: dict[str, effects.LoadObject] = {}
        """By model: how its load was ordered last."""
        self.alarm: float | None = None
        self.inbox = Channel(world.clock, world.delay, self._obey)
        self.inbox.is_open = False
        self.outbox = Channel(world.clock, world.delay, world.manager.tell)

    def __repr__(self) -> str:
        state = "gone" if self.gone else "runs" if self.runs else "leaves" if self.pid else "starts"
        inside = " ".join(f"{o.model}={o.shown}/{o.in_flight}" for o in self.objects.values())
        return f"<{self.id} {self.key} {state} {inside}>"

    @property
    def objects(self) -> dict[str, Object]:
        return self.admission.objects

    def say(self, event: events.Event) -> None:
        if self.world.manager.attached and self.silent_until is None:
            self.outbox.send(event)

    def protected_leases(self) -> list[LeaseTruth]:
        now = self.world.clock.now
        self.leases = {name: lease for name, lease in self.leases.items() if not lease.is_over}
        return [lease for lease in self.leases.values() if lease.is_protected(now)]

    def has_memory(self, model: str) -> bool:
        """What a call needs is taken. Where there is not so much, the call fails, or in RAM the worker is killed."""
        profile, rng = self.world.scenario.profile, self.world.rng
        if profile.leaks and rng.random() < profile.leaks:
            self.consumption.grown *= rng.uniform(1.0, MOST_LEAKED)
        device = self.consumption.serve(model)
        if device is None:
            return True
        self.world.ran_short(self.id, device)
        if device == RAM and rng.random() < 0.5:
            self.world.clock.after(0.0, self.world.kill_for_memory, self)
        else:
            self.say(events.RanOut(worker=self.id, model=model))
        return False

    # What the host knows of it.

    def fall_silent(self, seconds: float) -> None:
        """It reads nothing any more. What the broken connection still had lies there unread."""
        self.silent_until = self.world.clock.now + seconds
        self.was_silent = True
        self.inbox.close()
        self.outbox.cut(0)
        self.world.clock.after(seconds, self._wake)

    def _wake(self) -> None:
        """It reads at last: what the old connection had, then that there is a new one."""
        if self.gone or self.silent_until is None:
            return
        told, self._told_by_host = self._told_by_host, None
        self.inbox.read(self._unread if told is not None else len(self.inbox))
        self.silent_until = None
        self.admission.manager_lost(self.world.clock.now)
        if told is not None and self.world.manager.attached:
            self.admission.manager_found()
            for event in missed(told, self.reporter.report()):
                self.say(event)
        self._set_alarm()
        self.inbox.open()

    # What the manager orders.

    def _obey(self, order: effects.Effect | LeaseTruth) -> None:
        if self.gone:
            return
        now = self.world.clock.now
        match order:
            case LeaseTruth():
                self._grant(order, now)
            case effects.Withdraw(lease=lease):
                self.act(self.admission.withdraw(lease))
            case effects.Revoke(lease=lease):
                self.act(self.admission.revoke(lease))
            case effects.LoadObject(model=model):
                self.orders[model] = order
                self._load(model)
            case effects.UnloadObject(model=model):
                self.unload(model)
            case effects.ParkObject(model=model):
                self._park(model)
            case effects.UnparkObject(model=model):
                self._load(model)
            case effects.Drain(model=model, drain=number, finish=finish):
                self._must_have(model, order)
                self.act(self.admission.drain(model, number, finish=finish, now=now))
            case effects.Resume(model=model):
                self._must_have(model, order)
                self.admission.resume(model)
                self.act([])
            case _:
                self.world.fail("names_what_exists", f"{self} was told {order}")

    def _must_have(self, model: str, order: effects.Effect) -> None:
        """It has what is named, unless the manager could not know better: it leaves, or was silent for long."""
        known = self.objects.get(model)
        if (known is None or known.state != "ready") and self.runs and not self.was_silent:
            self.world.fail("names_what_exists", f"{self} was told {order}")

    def _grant(self, truth: LeaseTruth, now: float) -> None:
        truth.known = Lease(
            id=truth.lease,
            token=truth.token,
            model=truth.model,
            holder=truth.holder,
            granted=now,
            hold_until=truth.hold_until,
            parent=truth.parent,
        )
        self.admission.grant(truth.known)
        if truth.lease not in self.admission.leases and self.runs and not self.was_silent:
            self.world.fail("granted_is_valid", f"{truth.lease} on {truth.model} reached {self}")
        self.act([])

    def _load(self, model: str) -> None:
        """Loads, or comes back from being parked; after what is under way."""
        known = self.objects.get(model)
        if known is None or known.state == "parked":
            self.admission.loading(model, self.world.clock.now)
            self.reporter.note(at_once=True)
            self.world.host.loads.begin(self, self.objects[model], is_parked=known is not None)
        elif known.state in ("unloading", "parking"):
            self.load_again[model] = True
        elif known.state == "ready":
            self.say_ready(known)

    def say_ready(self, known: Object) -> None:
        warmth = known.warmth
        about: Any = {"warmup": warmth.warmup, "warmup_s": warmth.seconds, "runtime": warmth.runtime}
        self.say(events.ObjectReady(worker=self.id, model=known.model, parks=known.parks, **about))

    def _park(self, model: str) -> None:
        known = self.objects.get(model)
        if known is not None and known.state == "ready":
            actions = self.admission.parking(model, self.world.clock.now)
            self.reporter.note(at_once=True)
            self.act(actions)
        elif known is not None and known.state == "parked":
            self.say(events.ObjectParked(worker=self.id, model=model))

    def parks(self, known: Object) -> None:
        """Nothing is in flight any more: its devices are given back, which takes a while."""
        self.world.clock.after(self.world.release_s(self.key) / 4, self._parked, known)

    def _parked(self, known: Object) -> None:
        if self.gone or self.objects.get(known.model) is not known or known.state != "parking":
            return
        if self.consumption.park(known.model) is not None or self.world.rng.random() < PARK_FAILS:
            self.say(events.ParkFailed(worker=self.id, model=known.model, reason="it cannot move"))
            self.unload(known.model)
            return
        self.admission.parked(known.model, self.world.clock.now)
        if self.load_again.pop(known.model, False):
            self._load(known.model)
        else:
            self.reporter.note(at_once=True)
            self.say(events.ObjectParked(worker=self.id, model=known.model))

    def unload(self, model: str) -> None:
        known = self.objects.get(model)
        self.load_again.pop(model, None)
        if known is None:
            self.say(events.ObjectUnloaded(worker=self.id, model=model))
        elif known.state == "unloading":
            self.desk.cancel_calls(model)
        elif known.state in LOADS:
            self.admission.unloading(model, self.world.clock.now)
            self.reporter.note(at_once=True)
            self.close(known)
        else:
            actions = self.admission.unloading(model, self.world.clock.now)
            self.reporter.note(at_once=True)
            self.desk.cancel_calls(model)
            self.act(actions)

    def close(self, known: Object) -> None:
        self.world.clock.after(self.world.release_s(self.key) / 4, self._closed, known)

    def _closed(self, known: Object) -> None:
        if self.gone or self.objects.get(known.model) is not known:
            return
        self.forget(known.model, events.ObjectUnloaded(worker=self.id, model=known.model))

    def forget(self, model: str, news: events.Event) -> None:
        """The object is no more; perhaps it is wanted again already."""
        self.admission.gone(model)
        self.consumption.forget(model)
        self.desk.lines.pop(model, None)
        self.reporter.note(at_once=True)
        self.say(news)
        if self.load_again.pop(model, False):
            self._load(model)

    # What the rules want done.

    def act(self, actions: list[Action]) -> None:
        for action in actions:
            if isinstance(action, Tell):
                self.say(self._event(action.message))
            elif isinstance(action, Revoke):
                self.desk.revoke(action.connection)
            elif isinstance(action, Drop):
                self.desk.disconnect(action.connection)
            elif isinstance(action, Emptied):
                known = self.objects[action.model]
                (self.parks if known.state == "parking" else self.close)(known)
        self._set_alarm()
        self.reporter.note(at_once=False)

    def _event(self, message: dict[str, Any]) -> events.Event:
        match message["is"]:
            case "presented":
                return events.LeasePresented(worker=self.id, lease=message["lease"])
            case "closed":
                return events.LeaseClosed(worker=self.id, lease=message["lease"])
            case "busy":
                return events.LeaseBusy(worker=self.id, lease=message["lease"])
            case "idle":
                return events.LeaseIdle(worker=self.id, lease=message["lease"])
            case "drained":
                return events.Drained(worker=self.id, model=message["model"], drain=message["drain"])
            case "used":
                return events.WorkerUsed(worker=self.id, calls=message["calls"])
            case "still_busy":
                return events.StillBusy(worker=self.id, model=message["model"], drain=message["drain"])
        raise ValueError(message)

    def _set_alarm(self) -> None:
        when = self.admission.next_deadline()
        if when != self.alarm:
            self.alarm = when
            if when is not None:
                self.world.clock.at(when, self._tick, when)

    def _tick(self, when: float) -> None:
        if when == self.alarm and not self.gone:
            self.alarm = None
            self.act(self.admission.tick(self.world.clock.now))

    # How it begins, changes managers and ends.

    def run(self) -> None:
        self.runs = True
        self.started = self.world.clock.now
        self.world.drivers.came(self.id)
        self.reporter.note(at_once=True)
        self.inbox.open()

    def lose_manager(self, keep: int) -> None:
        """The manager's connection breaks. Some of what it had written still gets through."""
        for order in self.inbox.cut(keep):
            if isinstance(order, LeaseTruth):
                order.lost = True
        self.outbox.cut(0)
        self.admission.manager_lost(self.world.clock.now)
        self._set_alarm()

    def find_manager(self, patience_s: float) -> events.WorkerReport:
        """A new connection. What the old one still had is read first; a report is the first thing on the new one.

        Of a worker that is silent for too long the host tells what it last heard.
        """
        now = self.world.clock.now
        self.is_measured = False
        if self.silent_until is not None and self.silent_until > now + patience_s and self.reporter.last is not None:
            self._unread = len(self.inbox)
            self._told_by_host = self.reporter.last
            return self.reporter.last
        self.silent_until = None
        self.inbox.read_dry()
        self.inbox.open()
        self.outbox.cut(0)
        self.admission.manager_lost(now)
        self.admission.manager_found()
        self._set_alarm()
        return self.reporter.report()

    def leave(self) -> None:
        """The host asks it to end: nobody is let in any more, calls are cancelled, objects close."""
        self.runs = False
        for model in list(self.objects):
            self.unload(model)

    def die(self) -> None:
        """The process is gone, and with it every connection."""
        self.runs = False
        self.gone = True
        self.consumption.end()
        self.world.drivers.ended(self.id)
        self.desk.everybody_out()
        self.objects.clear()
        self.inbox.cut(0)

    def later(self, delay_s: float, known: Object, act: Callable[..., None], *args: Any) -> None:
        """Does something about an object later, if it is still there and loading, or being warmed up."""

        def happen() -> None:
            if not self.gone and self.objects.get(known.model) is known and known.state in LOADS:
                act(self, known, *args)

        self.world.clock.after(delay_s, happen)
