"""One call of a model, from the request for a lease to the last piece of its answer.

    kept connection? ──no──▶ Get ──▶ dial ──┐
          └──────yes───────────────────────▶ send ──▶ pieces … ──▶ last piece, or error
              ▲                                │
              └── revoked, or never sent ──────┘   (begun anew: the worker has not seen the call)

A call that is on a kept connection never asks the daemon anything. If a connection is lost while a
call is under way, the daemon knows whether the worker died; only a method that the model's spec
lists as ``idempotent`` is then repeated, once.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from ..errors import (
    Closed,
    ConnectionLost,
    LazydError,
    NoSuchLease,
    ProtocolError,
    Revoked,
    Timeout,
    Unavailable,
    WorkerDied,
)
from ..wire.values import from_json
from .answer import Answer, Piece
from .reconnect import pauses
from .requests import Request, unavailable
from .steps import Dial, Dropped, Late, Pause, Wait
from .unix import deadline_of, left_s

if TYPE_CHECKING:
    from collections.abc import Collection

    from .call import Call, PackedCall
    from .lines import Key, Lines
    from .requests import Requests
    from .steps import Line, Steps

PATIENCE_S = 5.0
"""How long the daemon may take to notice that a worker died (it waits until the memory is back), and so
for how long it may send us to a worker that is gone."""


class Running:
    """A call under way: what the caller wants, and what is known of how it came about."""

    def __init__(
        self,
        packed: PackedCall,
        timeout_s: float | None,
        parent: str | None,
        idempotent: Collection[str],
        sticky: str | None = None,
    ) -> None:
        """Its time runs from now on. `idempotent`: methods that may be repeated, beside those that the spec lists.
        `sticky`: of a name that means several models the same one answers all calls with this key."""
        self.packed = packed
        self.timeout_s = timeout_s
        self.deadline = deadline_of(timeout_s)
        self.parent = parent
        self.sticky = sticky
        self.idempotent = idempotent
        self.line: Line | None = None
        self.call: Call | None = None
        self.unpresented: str | None = None
        """A lease that was granted, but its worker could not be reached: it is claimed again."""
        self.degraded: str | None = None
        self.cold_start = False
        self.waited_s = 0.0
        self.failing_since: float | None = None
        """When the call was first found not to have begun."""
        self.pauses = pauses()
        self.repeated = False

    @property
    def model(self) -> str:
        return self.packed.model

    @property
    def key(self) -> Key:
        return self.model, self.parent, self.sticky

    def left_s(self) -> float | None:
        return left_s(self.deadline)

    def late(self, phase: str) -> Timeout:
        return Timeout(model=self.model, phase=phase, timeout_sec=self.timeout_s or 0.0)

    def lost(self, reason: str) -> ConnectionLost:
        return ConnectionLost(model=self.model, method=self.packed.method, reason=reason)


class Calling:
    """All calls of one client."""

    def __init__(self, requests: Requests, lines: Lines) -> None:
        self._requests = requests
        self._lines = lines

    def answer(self, running: Running) -> Steps[Answer]:
        """A call with one result."""
        try:
            piece = yield from self.begin(running)
        finally:
            self.end(running)
        return Answer(piece.value, running.degraded, running.cold_start, running.waited_s)

    def begin(self, running: Running) -> Steps[Piece]:
        """The first piece of the answer. After it the call is never repeated."""
        piece = None
        while piece is None:
            piece = yield from self._try(running)
        return piece

    def next(self, running: Running) -> Steps[Piece]:
        """The next piece, after one that said there is more."""
        try:
            return (yield from self._piece(running))
        except Dropped as dropped:
            line = self._forget(running)
            raise (yield from self._cause(running, line, dropped)) from None

    def end(self, running: Running) -> None:
        """The call is over, or nobody wants more of it. Must be called in any case."""
        line, call = running.line, running.call
        running.line = running.call = None
        if line is not None:
            if call is not None and not call.over:
                line.cancel(call)
            self._lines.settle(line)

    def _try(self, running: Running) -> Steps[Piece | None]:
        """The first piece, or None if the call must be begun anew."""
        try:
            return (yield from self._find_line(running)) or (yield from self._start(running))
        except Revoked as error:
            self._forget(running)
            yield from self._again(running, error)
        except Dropped as dropped:
            line = self._forget(running)
            if line is None or not dropped.delivered:
                yield from self._again(running, Unavailable(socket=self._requests.socket, reason=dropped.reason))
            else:
                yield from self._mourn(running, line, dropped)
        return None

    def _find_line(self, running: Running) -> Steps[Piece | None]:
        """Puts a line into `running`, or returns the fallback value that stands in for the answer."""
        running.line = self._lines.kept(running.key)
        if running.line is not None:
            running.degraded = None
            return None
        request = Request(
            "Get",
            {
                "model": running.model,
                "parent": running.parent,
                "lease": running.unpresented,
                "sticky": running.sticky,
            },
            timeout_s=running.timeout_s,
            deadline=running.deadline,
        )
        grant = yield from self._requests.ask(request)
        running.degraded = grant.get("degraded")
        running.cold_start = running.cold_start or bool(grant.get("coldStart"))
        running.waited_s += grant.get("waitedSec") or 0.0
        if grant.get("lease") is None:
            return Piece(from_json(grant.get("value")), more=False)
        running.line = yield from self._dial(running, grant)
        return None

    def _dial(self, running: Running, grant: dict[str, Any]) -> Steps[Line]:
        endpoint, token = grant.get("endpoint"), grant.get("token")
        if not isinstance(endpoint, str) or not isinstance(token, str):
            raise ProtocolError(reason="a lease came without endpoint or token")
        try:
            line: Line = yield Dial(endpoint, grant["lease"], token, running.deadline)
        except Late:
            raise running.late("connecting to the worker") from None
        except NoSuchLease:
            running.unpresented = None
            raise Dropped("the worker did not know the lease", delivered=False) from None
        except OSError as error:
            if isinstance(error, PermissionError):
                raise unavailable(endpoint, error) from None
            running.unpresented = grant["lease"]
            raise Dropped(f"the worker's socket {endpoint}: {error.strerror}", delivered=False) from None
        self._lines.add(line)
        if self._requests.closed:  # meanwhile
            self._lines.close()
            raise Closed()
        if running.degraded is None and not grant.get("takesTurns"):  # else the next call asks anew
            self._lines.keep(running.key, line)
        return line

    def _start(self, running: Running) -> Steps[Piece]:
        if running.line is None:
            raise Dropped("there is no connection", delivered=False)
        running.call = running.line.begin(running.packed.within(running.left_s()))
        return (yield from self._piece(running))

    def _piece(self, running: Running) -> Steps[Piece]:
        line, call = running.line, running.call
        if line is None or call is None:
            raise Closed()
        if not call.ready:
            try:
                yield Wait(line, call, running.deadline)
            except Late:
                raise running.late(f"running {running.packed.method}") from None
        return line.take(call)

    def _forget(self, running: Running) -> Line | None:
        """The line of a call serves no other."""
        line, running.line, running.call = running.line, None, None
        if line is not None:
            self._lines.retire(line)
            self._lines.settle(line)
        return line

    def _again(self, running: Running, error: LazydError) -> Steps[None]:
        """Before a call that was never started is begun anew."""
        now = time.monotonic()
        if running.failing_since is None:
            running.failing_since = now  # once is usual, and no reason to pause
            return
        if now - running.failing_since > PATIENCE_S:
            raise error
        yield Pause(next(running.pauses))

    def _mourn(self, running: Running, line: Line, dropped: Dropped) -> Steps[None]:
        """After a call that may have been carried out: returns if it may be repeated, raises otherwise."""
        cause = yield from self._cause(running, line, dropped)
        if running.repeated or not (yield from self._is_idempotent(running)):
            raise cause from None
        running.repeated = True

    def _cause(self, running: Running, line: Line | None, dropped: Dropped) -> Steps[LazydError]:
        """Why a connection was lost in the middle of a call: the daemon knows if the worker died."""
        if line is None or self._requests.closed:
            return Closed()
        began = time.monotonic()
        for pause in pauses():
            try:
                yield from self._requests.ask(Request("Release", {"lease": line.lease}, timeout_s=running.left_s()))
            except WorkerDied as error:
                return error
            except LazydError:
                break
            if time.monotonic() - began > PATIENCE_S:
                break
            yield Pause(pause)  # the daemon takes the worker for alive: it has not noticed yet
        return running.lost(dropped.reason)

    def _is_idempotent(self, running: Running) -> Steps[bool]:
        method = running.packed.method
        if method in running.idempotent:
            return True
        try:
            described = yield from self._requests.ask(Request("Describe", {"model": running.model}))
        except LazydError:
            return False
        spec = described.get("spec")
        return isinstance(spec, dict) and method in (spec.get("idempotent") or ())
