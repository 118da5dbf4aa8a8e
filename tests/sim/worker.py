"""A simulated worker: it obeys the core's effects in order, and answers by its own state.

Its rules are those of the real worker: a token serves one connection; before an unknown token
is turned away the manager's channel is read dry; a drain that is not to wait is answered at
once; one that waits lets in only nested calls and those of leases that are fresh or held, and
is over when nothing is in flight, fresh or held; everything is one step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from lazyd.core import effects, events
from lazyd.core.spec import ModelSpec

from .channel import Channel
from .clock import Future, Process, Script
from .truth import FRESH_S, LeaseTruth, ObjectTruth, Stage

if TYPE_CHECKING:
    from .world import World

DRAINS = (Stage.DRAINING, Stage.DRAINED)


class SimWorker:
    """Exists from the order to start it until its process is gone."""

    def __init__(self, world: World, order: effects.StartWorker, spec: ModelSpec) -> None:
        self.world = world
        self.id = order.worker
        self.key = order.model
        self.spec = spec
        self.memo = order.memo
        self.booked: dict[str, int] = world.booked_in(order.memo)
        self.pid = 0
        self.started = 0.0
        self.runs = False
        self.gone = False
        self.ordered_to_stop = False
        self.orders = 0
        self.objects: dict[str, ObjectTruth] = {}
        self.leases: dict[str, LeaseTruth] = {}
        """Granted by the core and not ended, whether the grant has reached the worker or not."""
        self.by_token: dict[str, LeaseTruth] = {}
        self.inbox = Channel(world.clock, world.delay, self._obey)
        self.inbox.is_open = False
        self.outbox = Channel(world.clock, world.delay, world.manager.tell)

    def __repr__(self) -> str:
        inside = " ".join(f"{o.model}={o.stage.value}/{o.in_flight}" for o in self.objects.values())
        return f"<{self.id} {self.key} {'runs' if self.runs else 'gone' if self.gone else 'starts'} {inside}>"

    def say(self, event: events.Event) -> None:
        if self.world.manager.attached:
            self.outbox.send(event)

    # What the manager orders.

    def _obey(self, order: effects.Effect | tuple[effects.Grant, LeaseTruth]) -> None:
        if self.gone:
            return
        self.orders += 1
        match order:
            case (effects.Grant(), LeaseTruth() as granted):
                self._grant(granted)
            case effects.Withdraw(lease=name):
                if (lease := self.leases.get(name)) is not None:
                    self._end(lease)
                    if (known := self.objects.get(lease.model)) is not None:
                        self._perhaps_drained(known)
            case effects.LoadObject(model=model):
                self._load(model)
            case effects.UnloadObject(model=model):
                self._unload(model)
            case effects.Drain(model=model, drain=number, finish=finish):
                self._drain(self._object(model, order), number, finish)
            case effects.Resume(model=model):
                self._resume(self._object(model, order))
            case _:
                self.world.fail("names_what_exists", f"{self} was told {order}")

    def _object(self, model: str, order: object) -> ObjectTruth:
        known = self.objects.get(model)
        if known is None:
            self.world.fail("names_what_exists", f"{self} has no {model}, and was told {order}")
        return known

    def _grant(self, lease: LeaseTruth) -> None:
        known = self.objects.get(lease.model)
        if known is None or known.stage not in (Stage.READY, *DRAINS):
            self.world.fail("granted_is_valid", f"{lease.lease} on {lease.model} reached {self}")
        if known.stage in DRAINS and lease.parent is None:
            self.world.fail("granted_is_valid", f"{lease.lease} is not nested and reached a draining {self}")
        lease.reached = True
        lease.received = self.world.clock.now
        lease.order = self.orders
        self.by_token[lease.token] = lease

    def _load(self, model: str) -> None:
        known = self.objects.get(model)
        if known is not None and known.stage is not Stage.UNLOADING:
            self.world.fail("one_load", f"{self} was told to load {model} again")
        fresh = self.objects[model] = ObjectTruth(model, Stage.LOADING, self.world.clock.now)
        self.world.host.begin_load(self, fresh)

    def _unload(self, model: str) -> None:
        known = self.objects.get(model)
        if known is None:  # its load failed while the order was on its way
            self.say(events.ObjectUnloaded(worker=self.id, model=model))
            return
        self.cut_connections(known)
        known.stage = Stage.UNLOADING
        self.world.clock.after(self.world.release_s(self.key) / 4, self._unloaded, known)

    def _unloaded(self, known: ObjectTruth) -> None:
        if self.gone:
            return
        if self.objects.get(known.model) is known:
            del self.objects[known.model]
        self.say(events.ObjectUnloaded(worker=self.id, model=known.model))

    def _drain(self, known: ObjectTruth, number: int, finish: bool) -> None:
        if known.stage not in (Stage.READY, *DRAINS):
            self.world.fail("names_what_exists", f"{self} was told to drain {known.model}")
        known.drain = number
        if known.stage is Stage.DRAINED:
            self.say(events.Drained(worker=self.id, model=known.model, drain=number))
        elif finish:
            if known.stage is not Stage.DRAINING:
                known.stage = Stage.DRAINING
                known.drained_from = self.orders
            self._perhaps_drained(known)
        elif self._is_in_use(known):
            self.say(events.StillBusy(worker=self.id, model=known.model, drain=number))
        else:
            self._revoke_all(known)

    def _resume(self, known: ObjectTruth) -> None:
        if known.stage in DRAINS:
            known.stage = Stage.READY
        elif known.stage is not Stage.READY:
            self.world.fail("names_what_exists", f"{self} was told to resume {known.model}")

    # What the worker decides alone.

    def _leases_of(self, known: ObjectTruth) -> list[LeaseTruth]:
        return [lease for lease in self.leases.values() if lease.model == known.model and lease.reached]

    def _is_protected(self, lease: LeaseTruth) -> bool:
        return self._protected_until(lease) > self.world.clock.now

    @staticmethod
    def _protected_until(lease: LeaseTruth) -> float:
        return lease.hold_until if lease.called else max(lease.hold_until, lease.received + FRESH_S)

    def _is_in_use(self, known: ObjectTruth) -> bool:
        return known.in_flight > 0 or any(self._is_protected(lease) for lease in self._leases_of(known))

    def _perhaps_drained(self, known: ObjectTruth) -> None:
        """A drain that waits is over when nothing is in flight, fresh or held; time alone may bring that about."""
        if known.stage is not Stage.DRAINING or self.gone or self.objects.get(known.model) is not known:
            return
        if not self._is_in_use(known):
            self._revoke_all(known)
        elif not known.in_flight:
            until = min(self._protected_until(lease) for lease in self._leases_of(known) if self._is_protected(lease))
            self.world.clock.at(until, self._perhaps_drained, known)

    def _revoke_all(self, known: ObjectTruth) -> None:
        now = self.world.clock.now
        for lease in self._leases_of(known):
            if (lease.is_fresh(now) or lease.is_held(now)) and not self.world.may_end_calls(self, known.model):
                self.world.fail("busy_is_protected", f"{lease.lease} of {known.model} is fresh or held, and is revoked")
            was_connected = lease.presented
            self._end(lease)
            if was_connected and self.world.tells_of_revoked:
                self.say(events.LeaseClosed(worker=self.id, lease=lease.lease))
        known.stage = Stage.DRAINED
        self.say(events.Drained(worker=self.id, model=known.model, drain=known.drain))

    def cut_connections(self, known: ObjectTruth) -> None:
        for lease in self._leases_of(known):
            self._end(lease)

    def _end(self, lease: LeaseTruth) -> None:
        """The lease is over at the worker; calls under it end with an end of file."""
        lease.ended = True
        self.leases.pop(lease.lease, None)
        self.by_token.pop(lease.token, None)
        self._end_calls(lease)

    def _end_calls(self, lease: LeaseTruth) -> None:
        calls, lease.calls = lease.calls, []
        known = self.objects.get(lease.model)
        for process, future in calls:
            process.kill()
            future.set("end of file")
            if known is not None:
                known.in_flight -= 1
        lease.in_flight = 0

    # What clients do on the data socket.

    def present(self, token: str) -> LeaseTruth | None:
        """A connection shows its token. None: turned away."""
        if not self.runs:
            return None
        if token not in self.by_token:
            self.inbox.read_dry()
        lease = self.by_token.get(token)
        if lease is None or lease.presented:
            return None
        lease.presented = True
        self.say(events.LeasePresented(worker=self.id, lease=lease.lease))
        return lease

    def call(self, lease: LeaseTruth, script: Script) -> Future:
        """A call on a connection. Its future says how it ended: done, revoked, or end of file."""
        future = Future(self.world.clock)
        known = self.objects.get(lease.model)
        if lease.ended or not self.runs or known is None:
            future.set("end of file")
            return future
        is_nested = lease.parent is not None and lease.order > known.drained_from
        may_enter = known.stage is Stage.DRAINING and (is_nested or self._is_protected(lease))
        if known.stage in DRAINS and not may_enter:
            future.set("revoked")
            return future
        lease.called = True
        known.in_flight += 1
        lease.in_flight += 1
        known.last_used = self.world.clock.now
        if lease.in_flight == 1:
            self.say(events.LeaseBusy(worker=self.id, lease=lease.lease))
        process = Process(self.world.clock, script, lambda _: self._call_ends(lease, process, future))
        lease.calls.append((process, future))
        return future

    def _call_ends(self, lease: LeaseTruth, process: Process, future: Future) -> None:
        lease.calls.remove((process, future))
        lease.in_flight -= 1
        future.set("done")
        known = self.objects[lease.model]
        known.in_flight -= 1
        known.last_used = self.world.clock.now
        if lease.in_flight == 0 and not lease.ended:
            self.say(events.LeaseIdle(worker=self.id, lease=lease.lease))
        self._perhaps_drained(known)

    def close(self, lease: LeaseTruth) -> None:
        """The client closes its connection, perhaps in the middle of a call."""
        if lease.ended or not self.runs:
            return
        was_busy = lease.in_flight > 0
        self._end(lease)
        if was_busy:
            self.say(events.LeaseIdle(worker=self.id, lease=lease.lease))
        self.say(events.LeaseClosed(worker=self.id, lease=lease.lease))
        if (known := self.objects.get(lease.model)) is not None:
            self._perhaps_drained(known)

    # How it begins and ends.

    def run(self) -> None:
        self.runs = True
        self.started = self.world.clock.now
        self.inbox.open()

    def die(self) -> None:
        """The process is gone, and with it every connection."""
        self.runs = False
        self.gone = True
        for lease in list(self.leases.values()):
            self._end(lease)
        self.objects.clear()
        self.inbox.cut(0)

    def report(self) -> events.WorkerReport:
        stages = {Stage.LOADING: "loading", Stage.READY: "ready", Stage.DRAINING: "draining", Stage.DRAINED: "draining"}
        return events.WorkerReport(
            worker=self.id,
            pid=self.pid,
            started=self.started,
            endpoint=f"/run/lazyd/host/w/{self.id}.sock",
            memo=self.memo,
            objects=tuple(
                events.ObjectReport(
                    model=o.model, state=stages[o.stage], since=o.since, load_s=o.load_s, last_used=o.last_used
                )
                for o in self.objects.values()
                if o.stage in stages
            ),
            leases=tuple(
                events.LeaseReport(
                    lease=lease.lease,
                    token=lease.token,
                    model=lease.model,
                    holder=lease.holder,
                    granted=lease.received,
                    presented=lease.presented,
                    called=lease.called,
                    in_flight=lease.in_flight,
                    hold_until=lease.hold_until,
                    parent=lease.parent,
                )
                for lease in self.leases.values()
                if lease.reached
            ),
        )

    def later(self, delay_s: float, known: ObjectTruth, act: Callable[..., None], *args: Any) -> None:
        """Does something about an object later, if it is still there and loading."""

        def happen() -> None:
            if not self.gone and self.objects.get(known.model) is known and known.stage is Stage.LOADING:
                act(self, known, *args)

        self.world.clock.after(delay_s, happen)
