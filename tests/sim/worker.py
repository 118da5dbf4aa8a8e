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
from lazyd.manager.catching_up import missed
from lazyd.worker.admission import Admission
from lazyd.worker.records import Action, Drop, Emptied, Lease, Object, Revoke, Tell

from .channel import Channel
from .clock import Future, Process, Script
from .truth import FRESH_S, LeaseTruth

if TYPE_CHECKING:
    from .world import World

REPORTED_EVERY_S = 0.5
"""The host hears of leases at most so often."""
CANCEL_S = 0.3
"""A call that was cancelled may go on for so long."""


class Call:
    """A call that was admitted. It runs when those before it, on the same model, have ended."""

    __slots__ = ("connection", "future", "process", "script")

    def __init__(self, connection: Connection, script: Script, future: Future) -> None:
        self.connection = connection
        self.script = script
        self.future = future
        self.process: Process | None = None


class Connection:
    """A client's connection to the data socket, from the moment at which its token was accepted."""

    __slots__ = ("calls", "is_open", "known", "truth")

    def __init__(self, truth: LeaseTruth, known: Lease) -> None:
        self.truth = truth
        self.known = known
        self.is_open = True
        self.calls: list[Call] = []


class SimWorker:
    """Exists from the order to start it until its process is gone."""

    def __init__(self, world: World, order: effects.StartWorker, spec: ModelSpec) -> None:
        self.world = world
        self.id = order.worker
        self.key = order.model
        self.spec = spec
        self.memo = order.memo
        self.booked: dict[str, int] = world.booked_in(order.memo)
        self.measured: dict[str, int] = {}
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
        self.last_report: events.WorkerReport | None = None
        """What it last told the host."""
        self._reported = self._next_report = 0.0
        self._told_by_host: events.WorkerReport | None = None
        self._unread = 0
        self.admission = Admission()
        self.leases: dict[str, LeaseTruth] = {}
        """Granted by the core, whether the grant has reached the worker or not."""
        self.lines: dict[str, list[Call]] = {}
        """The calls of each model, which runs one at a time: the first one runs."""
        self.load_again: dict[str, bool] = {}
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

    # What the host knows of it.

    def note(self, *, at_once: bool) -> None:
        """What holds is told to the host: at once if an object has changed, else at most twice a second."""
        if not self.world.may_be_silent or self.gone:
            return
        now = self.world.clock.now
        if at_once or now >= self._reported + REPORTED_EVERY_S:
            self._reported = now
            self.last_report = self.report()
        elif self._reported + REPORTED_EVERY_S != self._next_report:
            self._next_report = self._reported + REPORTED_EVERY_S
            self.world.clock.at(self._next_report, self._note_later, self._reported)

    def _note_later(self, reported: float) -> None:
        if reported == self._reported:
            self.note(at_once=True)

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
            for event in missed(told, self.report()):
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
                self._act(self.admission.withdraw(lease))
            case effects.LoadObject(model=model):
                self._load(model)
            case effects.UnloadObject(model=model):
                self.unload(model)
            case effects.Drain(model=model, drain=number, finish=finish):
                self._must_have(model, order)
                self._act(self.admission.drain(model, number, finish=finish, now=now))
            case effects.Resume(model=model):
                self._must_have(model, order)
                self.admission.resume(model)
                self._act([])
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
        self._act([])

    def _load(self, model: str) -> None:
        known = self.objects.get(model)
        if known is not None and known.state == "unloading":
            self.load_again[model] = True
        elif known is not None and known.state == "ready":
            self.say(events.ObjectReady(worker=self.id, model=model))
        elif known is None:
            self.admission.loading(model, self.world.clock.now)
            self.note(at_once=True)
            self.world.host.begin_load(self, self.objects[model])

    def unload(self, model: str) -> None:
        known = self.objects.get(model)
        self.load_again.pop(model, None)
        if known is None:
            self.say(events.ObjectUnloaded(worker=self.id, model=model))
        elif known.state == "unloading":
            self._cancel_calls(model)
        elif known.state == "loading":
            self.admission.unloading(model, self.world.clock.now)
            self.note(at_once=True)
            self._close(known)
        else:
            actions = self.admission.unloading(model, self.world.clock.now)
            self.note(at_once=True)
            self._cancel_calls(model)
            self._act(actions)

    def _cancel_calls(self, model: str) -> None:
        for lease in list(self.admission.objects[model].leases.values()):
            if lease.connection is not None:
                self._cancel(lease.connection)

    def _close(self, known: Object) -> None:
        self.world.clock.after(self.world.release_s(self.key) / 4, self._closed, known)

    def _closed(self, known: Object) -> None:
        if self.gone or self.objects.get(known.model) is not known:
            return
        self.forget(known.model, events.ObjectUnloaded(worker=self.id, model=known.model))

    def forget(self, model: str, news: events.Event) -> None:
        """The object is no more; perhaps it is wanted again already."""
        self.admission.gone(model)
        self.lines.pop(model, None)
        self.note(at_once=True)
        self.say(news)
        if self.load_again.pop(model, False):
            self._load(model)

    # What the rules want done.

    def _act(self, actions: list[Action]) -> None:
        for action in actions:
            if isinstance(action, Tell):
                self.say(self._event(action.message))
            elif isinstance(action, Revoke):
                self._revoke(action.connection)
            elif isinstance(action, Drop):
                self._disconnect(action.connection)
            elif isinstance(action, Emptied):
                self._close(self.objects[action.model])
        self._set_alarm()
        self.note(at_once=False)

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
            case "still_busy":
                return events.StillBusy(worker=self.id, model=message["model"], drain=message["drain"])
        raise ValueError(message)

    def _revoke(self, connection: Connection) -> None:
        """The rules have ended this lease. If its owner had a right to it, they were wrong.

        An order to unload was looked at when it was given.
        """
        truth, known, now = connection.truth, connection.known, self.world.clock.now
        connection.is_open = False
        fresh_or_held = now < truth.hold_until or (not known.called and now < truth.granted + FRESH_S)
        if truth.given_back or not (connection.calls or fresh_or_held) or self.objects[truth.model].state != "ready":
            return
        if not self.world.may_end_calls(self, truth.model):
            self.world.fail(
                "busy_is_protected", f"{truth.lease} of {truth.model} is busy, fresh or held, and is revoked"
            )

    def _disconnect(self, connection: Connection) -> None:
        """The connection ends, from either side; calls under way are cancelled."""
        if not connection.is_open:
            return
        connection.is_open = False
        self._cancel(connection)
        self._act(self.admission.closed(connection.known, self.world.clock.now))

    def _cancel(self, connection: Connection) -> None:
        """Calls are told to end: one that runs does so some time later, one that has not begun at once."""
        calls, connection.calls = connection.calls, []
        for call in calls:
            call.future.set("end of file")
            if call.process is None:
                self.lines[connection.truth.model].remove(call)
                self.world.clock.after(0.0, self._call_is_over, connection, False)
            else:
                call.process.kill()
                self.world.clock.after(self.world.rng.uniform(0.0, CANCEL_S), self._cancelled, call)

    def _cancelled(self, call: Call) -> None:
        self._call_is_over(call.connection, False)
        self._next_call(call)

    def _call_is_over(self, connection: Connection, ok: bool) -> None:
        if not self.gone:
            self._act(self.admission.end(connection.known, self.world.clock.now, ok=ok))

    def _set_alarm(self) -> None:
        when = self.admission.next_deadline()
        if when != self.alarm:
            self.alarm = when
            if when is not None:
                self.world.clock.at(when, self._tick, when)

    def _tick(self, when: float) -> None:
        if when == self.alarm and not self.gone:
            self.alarm = None
            self._act(self.admission.tick(self.world.clock.now))

    # What clients do on the data socket.

    def connect(self, token: str) -> Connection | None:
        """A connection shows its token. None: turned away."""
        if not self.runs or self.silent_until is not None:
            return None
        if all(lease.token != token for lease in self.admission.leases.values()):
            self.inbox.read_dry()
        truth = next((lease for lease in self.leases.values() if lease.token == token), None)
        if truth is None or truth.known is None:
            return None
        connection = Connection(truth, truth.known)
        lease, actions = self.admission.present(token, connection)
        self._act(actions)
        return connection if lease is not None else None

    def call(self, connection: Connection, script: Script) -> Future:
        """A call on a connection. Its future says how it ended: done, revoked, or end of file."""
        future = Future(self.world.clock)
        if not (connection.is_open and self.runs):
            future.set("end of file")
            return future
        admitted, actions = self.admission.begin(connection.known, self.world.clock.now)
        self._act(actions)
        if not admitted:
            future.set("revoked")
            return future
        call = Call(connection, script, future)
        connection.calls.append(call)
        line = self.lines.setdefault(connection.truth.model, [])
        line.append(call)
        if len(line) == 1:
            self._begin_call(call)
        return future

    def _begin_call(self, call: Call) -> None:
        call.process = Process(self.world.clock, call.script, lambda _: self._call_ends(call))

    def _call_ends(self, call: Call) -> None:
        call.connection.calls.remove(call)
        call.future.set("done")
        self._call_is_over(call.connection, True)
        self._next_call(call)

    def _next_call(self, ended: Call) -> None:
        line = self.lines.get(ended.connection.truth.model, [])
        if line and line[0] is ended:
            del line[0]
            if line and not self.gone:
                self._begin_call(line[0])

    def hang_up(self, connection: Connection) -> None:
        """The client closes its connection, perhaps in the middle of a call."""
        connection.truth.given_back = True
        if not self.gone:
            self._disconnect(connection)

    # How it begins, changes managers and ends.

    def run(self) -> None:
        self.runs = True
        self.started = self.world.clock.now
        self.note(at_once=True)
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
        if self.silent_until is not None and self.silent_until > now + patience_s and self.last_report is not None:
            self._unread = len(self.inbox)
            self._told_by_host = self.last_report
            return self.last_report
        self.silent_until = None
        self.inbox.read_dry()
        self.inbox.open()
        self.outbox.cut(0)
        self.admission.manager_lost(now)
        self.admission.manager_found()
        self._set_alarm()
        return self.report()

    def report(self) -> events.WorkerReport:
        report = self.admission.report()
        return events.WorkerReport(
            worker=self.id,
            pid=self.pid,
            started=self.started,
            endpoint=f"/run/lazyd/host/w/{self.id}.sock",
            memo=self.memo,
            objects=tuple(_object_report(known) for known in report["objects"]),
            leases=tuple(_lease_report(known) for known in report["leases"]),
            measured_bytes=self.measured,
        )

    def leave(self) -> None:
        """The host asks it to end: nobody is let in any more, calls are cancelled, objects close."""
        self.runs = False
        for model in list(self.objects):
            self.unload(model)

    def die(self) -> None:
        """The process is gone, and with it every connection."""
        self.runs = False
        self.gone = True
        for lease in list(self.admission.leases.values()):
            if lease.connection is not None:
                lease.connection.is_open = False
                self._cancel(lease.connection)
        self.objects.clear()
        self.inbox.cut(0)

    def later(self, delay_s: float, known: Object, act: Callable[..., None], *args: Any) -> None:
        """Does something about an object later, if it is still there and loading."""

        def happen() -> None:
            if not self.gone and self.objects.get(known.model) is known and known.state == "loading":
                act(self, known, *args)

        self.world.clock.after(delay_s, happen)


def _object_report(known: dict[str, Any]) -> events.ObjectReport:
    return events.ObjectReport(
        model=known["model"],
        state=known["state"],
        since=known["since"],
        load_s=known["loadS"],
        last_used=known["lastUsed"],
    )


def _lease_report(known: dict[str, Any]) -> events.LeaseReport:
    return events.LeaseReport(
        lease=known["lease"],
        token=known["token"],
        model=known["model"],
        holder=known["holder"],
        granted=known["granted"],
        presented=known["presented"],
        called=known["called"],
        in_flight=known["inFlight"],
        hold_until=known["holdUntil"],
        parent=known["parent"],
    )
