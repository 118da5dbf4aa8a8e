"""The data socket of a simulated worker: connections, their calls, and whose turn it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazyd.worker.records import Lease

from .clock import Future, Process, Script
from .truth import FRESH_S, LeaseTruth

if TYPE_CHECKING:
    from .worker import SimWorker

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
    """A client's connection, from the moment at which its token was accepted."""

    __slots__ = ("calls", "is_open", "known", "truth")

    def __init__(self, truth: LeaseTruth, known: Lease) -> None:
        self.truth = truth
        self.known = known
        self.is_open = True
        self.calls: list[Call] = []


class Desk:
    """What a worker does for clients. The rules (`worker.admission`) say who may."""

    def __init__(self, worker: SimWorker) -> None:
        self.worker = worker
        self.world = worker.world
        self.lines: dict[str, list[Call]] = {}
        """The calls of each model, which runs one at a time: the first one runs."""

    # What clients do.

    def connect(self, token: str) -> Connection | None:
        """A connection shows its token. None: turned away."""
        worker = self.worker
        if not worker.runs or worker.silent_until is not None:
            return None
        if all(lease.token != token for lease in worker.admission.leases.values()):
            worker.inbox.read_dry()
        truth = next((lease for lease in worker.leases.values() if lease.token == token), None)
        if truth is None or truth.known is None:
            return None
        connection = Connection(truth, truth.known)
        lease, actions = worker.admission.present(token, connection)
        worker.act(actions)
        return connection if lease is not None else None

    def call(self, connection: Connection, script: Script) -> Future:
        """A call on a connection. Its future says how it ended: done, revoked, or end of file."""
        future = Future(self.world.clock)
        if not (connection.is_open and self.worker.runs):
            future.set("end of file")
            return future
        admitted, actions = self.worker.admission.begin(connection.known, self.world.clock.now)
        self.worker.act(actions)
        if not admitted:
            future.set("revoked")
            return future
        call = Call(connection, script, future)
        connection.calls.append(call)
        line = self.lines.setdefault(connection.truth.model, [])
        line.append(call)
        if len(line) == 1:
            self._begin(call)
        return future

    def hang_up(self, connection: Connection) -> None:
        """The client closes its connection, perhaps in the middle of a call."""
        connection.truth.given_back = True
        if not self.worker.gone:
            self.disconnect(connection)

    # What the rules want done with a connection.

    def revoke(self, connection: Connection) -> None:
        """The rules have ended this lease. If its owner had a right to it, they were wrong.

        An order to unload was looked at when it was given.
        """
        truth, known, now = connection.truth, connection.known, self.world.clock.now
        connection.is_open = False
        protected = connection.calls or now < truth.hold_until or (not known.called and now < truth.granted + FRESH_S)
        if truth.given_back or not protected or self.worker.objects[truth.model].state != "ready":
            return
        if not self.world.may_end_calls(self.worker, truth.model):
            self.world.fail("busy_is_protected", f"{truth.lease} of {truth.model} is protected, and is revoked")

    def disconnect(self, connection: Connection) -> None:
        """The connection ends, from either side; calls under way are cancelled."""
        if not connection.is_open:
            return
        connection.is_open = False
        self._cancel(connection)
        self.worker.act(self.worker.admission.closed(connection.known, self.world.clock.now))

    def cancel_calls(self, model: str) -> None:
        for lease in list(self.worker.objects[model].leases.values()):
            if lease.connection is not None:
                self._cancel(lease.connection)

    def everybody_out(self) -> None:
        """The process is gone."""
        for lease in list(self.worker.admission.leases.values()):
            if lease.connection is not None:
                lease.connection.is_open = False
                self._cancel(lease.connection)

    def _cancel(self, connection: Connection) -> None:
        """Calls are told to end: one that runs does so some time later, one that has not begun at once."""
        calls, connection.calls = connection.calls, []
        for call in calls:
            call.future.set("end of file")
            if call.process is None:
                self.lines[connection.truth.model].remove(call)
                self.world.clock.after(0.0, self._is_over, call, False)
            else:
                call.process.kill()
                self.world.clock.after(self.world.rng.uniform(0.0, CANCEL_S), self._is_over, call, False)

    # Turns.

    def _begin(self, call: Call) -> None:
        if not self.worker.has_memory(call.connection.truth.model):
            call.process = Process(self.world.clock, _nothing(), lambda _: self._ends(call, ok=False))
        else:
            call.process = Process(self.world.clock, call.script, lambda _: self._ends(call, ok=True))

    def _ends(self, call: Call, *, ok: bool) -> None:
        call.connection.calls.remove(call)
        call.future.set("done")
        self._is_over(call, ok)

    def _is_over(self, call: Call, ok: bool) -> None:
        """The call has really ended; the next one of its model has its turn."""
        if self.worker.gone:
            return
        self.worker.act(self.worker.admission.end(call.connection.known, self.world.clock.now, ok=ok))
        line = self.lines.get(call.connection.truth.model, [])
        if line and line[0] is call:
            del line[0]
            if line:
                self._begin(line[0])


def _nothing() -> Script:
    """A call that fails at once."""
    return
    yield
