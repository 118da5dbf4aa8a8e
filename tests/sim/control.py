"""The control socket as clients see it: each request gets one answer, or is repeated to the next manager."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lazyd.core import answers, events

from .clock import Future, Script

if TYPE_CHECKING:
    from .world import World


class Pending:
    """One request of a client, under the number that the present manager knows it by."""

    __slots__ = (
        "arrived",
        "bound_s",
        "cancelled",
        "deadline",
        "fields",
        "future",
        "given_up",
        "kind",
        "number",
        "with_core",
    )

    def __init__(self, kind: type[Any], fields: dict[str, Any], future: Future) -> None:
        self.kind = kind
        self.fields = fields
        self.future = future
        self.deadline: float | None = fields.get("deadline")
        self.number = 0
        self.with_core = False
        """The present core has been told of it and owes an answer."""
        self.cancelled = False
        """The present core has been told that nobody waits."""
        self.given_up = False
        self.arrived = 0.0
        self.bound_s = 0.0
        """How long it may wait; 0: there is no such limit."""

    def __repr__(self) -> str:
        return f"<{self.kind.__name__} {self.number} {self.fields}>"


class Control:
    """All control connections."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.by_number: dict[int, Pending] = {}
        """Owed an answer by the present core."""
        self.parked: list[Pending] = []
        """Sent while no manager was there."""
        self.number = 0
        self.in_vain: dict[str, float] = {}
        """By model: when a fallback last answered in its place."""
        self.reserved_by: dict[str, int] = {}
        """By reservation: the manager that has granted it last, to whom its connection leads."""

    def request(self, kind: type[Any], **fields: Any) -> Script:
        """Sends a request and waits for its outcome. If the caller is killed, the request is cancelled."""
        pending = Pending(kind, fields, Future(self.world.clock))
        self._send(pending)
        try:
            outcome = yield pending.future
        finally:
            if not pending.future.done:
                self._give_up(pending)
        return outcome

    def tell(self, kind: type[Any], **fields: Any) -> None:
        """A request whose answer nobody reads."""
        self._send(Pending(kind, fields, Future(self.world.clock)))

    def _send(self, pending: Pending) -> None:
        arrives = self.world.clock.now + self.world.delay()
        caller = self.world.leases.get(pending.fields.get("parent") or "")
        if caller is not None:  # what its worker said of the call lies in the manager's socket already
            arrives = max(arrives, caller.worker.outbox.quiet_at)
        self.world.clock.at(arrives, self._arrives, pending)

    def _arrives(self, pending: Pending) -> None:
        if pending.given_up:
            return
        if not self.world.manager.up:
            self.parked.append(pending)
            return
        now = self.world.clock.now
        if pending.deadline is not None and pending.deadline <= now:
            pending.future.set(answers.Timeout(model="", phase="connecting", timeout_sec=0.0))
            return
        self.number += 1
        pending.number = self.number
        pending.with_core = True
        pending.arrived = now
        pending.cancelled = False
        self.by_number[pending.number] = pending
        self.world.manager.tell(pending.kind(request=pending.number, **pending.fields))

    def _give_up(self, pending: Pending) -> None:
        """The connection closes; the manager hears of it a moment later."""
        pending.given_up = True
        if pending.with_core:
            self.world.clock.after(self.world.delay(), self._cancel, pending, pending.number)

    def _cancel(self, pending: Pending, number: int) -> None:
        if pending.number == number and self.by_number.pop(number, None) is not None:
            pending.cancelled = True
            self.world.manager.tell(events.Cancel(request=number))

    def answered(self, answer: answers.Outcome, pending: Pending) -> None:
        """The core has answered. The client reads it a moment later, unless the manager dies first."""
        del self.by_number[pending.number]
        pending.with_core = False
        if isinstance(answer, answers.Granted | answers.Substituted) and answer.degraded is not None:
            key = self.world.manager.told.resolve(pending.fields["model"]) or ""
            self.in_vain[key] = self.world.clock.now
        if isinstance(answer, answers.Reserved):
            self.reserved_by[answer.reservation] = self.world.manager.epoch
        self.world.clock.after(self.world.delay(), self._reads, pending, answer, self.world.manager.epoch)

    def _reads(self, pending: Pending, answer: answers.Outcome, epoch: int) -> None:
        if pending.given_up and isinstance(answer, answers.Reserved):
            self.closed(answer.reservation, epoch)  # nobody has it
        elif epoch == self.world.manager.epoch or self.world.rng.random() < 0.5:
            pending.future.set(answer)
        elif not pending.given_up:
            self._send(pending)

    def closed(self, reservation: str, epoch: int) -> None:
        """The connection that held a reservation has ended, and the manager that it led to hears of it."""
        if epoch == self.world.manager.epoch:
            self.world.manager.tell(events.Unreserve(reservation=reservation))

    def manager_died(self) -> None:
        """What was under way is repeated, with the deadline it had."""
        pendings, self.by_number = list(self.by_number.values()), {}
        for pending in pendings:
            pending.with_core = False
            if not pending.given_up:
                self.parked.append(pending)

    def manager_is_back(self) -> None:
        parked, self.parked = self.parked, []
        for pending in parked:
            self._send(pending)
