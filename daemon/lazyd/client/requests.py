"""Requests on the control socket: connections kept for the next one, and what is repeated.

One varlink connection carries one request at a time, so a client has as many connections as it
has requests under way, and keeps a few for later.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ..errors import INTERFACE, Closed, ConnectionLost, ShuttingDown, SocketDenied, Timeout, Unavailable, from_varlink
from ..wire.varlink import encode
from .reconnect import PASSING, SAFE, Reconnect, pauses
from .steps import Connect, Dropped, Late, Pause, Talk
from .unix import deadline_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from .steps import Control, Steps

    Reply = dict[str, Any]

MAX_IDLE = 4
"""Connections kept for later."""
TIMED = frozenset({"Load", "Get", "Unload", "Warm", "Reserve"})
"""Methods that the daemon itself ends at ``timeoutSec``; others have a limit on our side alone."""
GRACE_S = 2.0
"""The daemon answers `Timeout` itself, and says more than we can; only if it does not, we do."""


class Request:
    """One request. `timeout_s` bounds it over all repetitions, from now on or until `deadline`."""

    def __init__(
        self,
        method: str,
        parameters: dict[str, Any],
        *,
        timeout_s: float | None = None,
        deadline: float | None = None,
        more: bool = False,
    ) -> None:
        """`method` is one of io.lazyd, or has its interface before it."""
        self.method = method
        self.parameters = {name: value for name, value in parameters.items() if value is not None}
        self.timeout_s = timeout_s
        self.deadline = deadline_of(timeout_s) if deadline is None else deadline
        self.more = more
        self.repeated = False
        self.pauses = pauses()

    def __repr__(self) -> str:
        return f"<Request {self.method} {self.parameters}>"

    def message(self) -> bytes:
        """What is sent, with the time that is left. Raises `NotSendable`, `TooLarge`."""
        message: dict[str, Any] = {
            "method": self.method if "." in self.method else f"{INTERFACE}.{self.method}",
            "parameters": self.parameters,
        }
        if self.deadline is not None and self.method in TIMED:
            left = max(0.0, self.deadline - time.monotonic())
            message["parameters"] = {**self.parameters, "timeoutSec": round(left, 6)}
        if self.more:
            message["more"] = True
        return encode(message)

    def patience_until(self) -> float | None:
        """When we give up waiting for a reply: later than the daemon, where it watches the limit too."""
        if self.deadline is None:
            return None
        return self.deadline + GRACE_S if self.method in TIMED else self.deadline

    def late(self, phase: str) -> Timeout:
        return Timeout(model=str(self.parameters.get("model", "lazyd")), phase=phase, timeout_sec=self.timeout_s or 0.0)


class Requests:
    """All requests of one client."""

    def __init__(self, socket: str) -> None:
        self.socket = socket
        self.reconnect = Reconnect()
        self.closed = False
        self._idle: list[Control] = []

    def __repr__(self) -> str:
        return f"<Requests to {self.socket}, {self.reconnect.contact.value}, {len(self._idle)} idle>"

    def connect(self) -> Steps[None]:
        """Makes a first connection, so that a daemon that is not there is noticed early."""
        try:
            self._keep((yield Connect(None)))
        except OSError as error:
            raise unavailable(self.socket, error) from None
        self.reconnect.connected()

    def ask(self, request: Request, on_reply: Callable[[Reply], object] | None = None) -> Steps[Reply]:
        """Carries out a request, repeating it if that is safe. Returns the parameters of the last reply.

        Those of earlier ones go to `on_reply`. Raises the daemon's error, `Unavailable`,
        `ConnectionLost`, `Timeout`.
        """
        while True:
            control, reply = yield from self.begin(request)
            try:
                while reply.get("continues"):
                    if on_reply is not None:
                        on_reply(reply.get("parameters") or {})
                    reply = yield from self._talk(control, request, None)
            except Dropped as dropped:
                yield from self._repeat(request, dropped)
                continue
            except BaseException:
                control.close()
                raise
            self._keep(control)
            return reply.get("parameters") or {}

    def begin(self, request: Request) -> Steps[tuple[Control, Reply]]:
        """Carries out a request up to its first reply, for those who read on with `more`, then `end`."""
        while True:
            control = self._kept()
            try:
                if control is None:
                    control = yield Connect(request.deadline)
                    self.reconnect.connected()
                reply = yield from self._talk(control, request, request.message())
            except Dropped as dropped:
                yield from self._repeat(request, dropped)
            except OSError as error:
                yield from self._repeat(request, error)
            except Late:
                raise request.late("connecting") from None
            else:
                return control, reply

    def more(self, control: Control, request: Request) -> Steps[Reply]:
        """The next reply of a request that has begun to answer, and is not repeated any more."""
        try:
            return (yield from self._talk(control, request, None))
        except Dropped as dropped:
            raise self._lost(request, dropped.reason) from None

    def end(self, control: Control, *, over: bool) -> None:
        """The caller of `begin` wants no more. `over`: it has seen the last reply."""
        if over:
            self._keep(control)
        else:
            control.close()

    def close(self) -> None:
        """Ends the connections that are kept; one in use ends with its request."""
        self.closed = True
        with suppress(IndexError):
            while True:
                self._idle.pop().close()

    def _talk(self, control: Control, request: Request, message: bytes | None) -> Steps[Reply]:
        """One reply that is no error. The connection is closed if it cannot be used any more."""
        try:
            reply: Reply = yield Talk(control, message, request.patience_until())
        except Late:
            control.close()
            raise request.late("waiting for the daemon's answer") from None
        except BaseException:
            control.close()
            raise
        if "error" not in reply:
            self.reconnect.answered()
            return reply
        error = from_varlink(reply["error"], reply.get("parameters"))
        if isinstance(error, ShuttingDown):
            control.close()
            self.reconnect.stopped()
            raise Unavailable(socket=self.socket, reason="it is being stopped") from None
        self.reconnect.answered()
        self._keep(control)
        if isinstance(error, Timeout) and request.timeout_s is not None:
            error.timeout_sec = request.timeout_s  # the daemon was told what was left of it
        raise error

    def _repeat(self, request: Request, cause: Dropped | OSError) -> Steps[None]:
        """Pauses before the request is repeated, or raises why it is not."""
        now = time.monotonic()
        self.reconnect.lost(now)
        patience_s = self.reconnect.patience_s(now)
        if self.closed:
            raise Closed() from None
        if isinstance(cause, OSError):
            if cause.errno not in PASSING or not patience_s:
                raise unavailable(self.socket, cause) from None
        elif cause.delivered and request.method not in SAFE:
            raise self._lost(request, cause.reason) from None
        elif not patience_s:
            raise Unavailable(socket=self.socket, reason=f"the connection was lost ({cause.reason})") from None
        if request.deadline is not None:
            patience_s = min(patience_s, request.deadline - now)
            if patience_s <= 0:
                raise request.late("reconnecting to the daemon") from None
        request.repeated = True
        yield Pause(min(next(request.pauses), patience_s))

    def _lost(self, request: Request, reason: str) -> Closed | ConnectionLost:
        self.reconnect.lost(time.monotonic())
        if self.closed:
            return Closed()
        return ConnectionLost(model=str(request.parameters.get("model", "")), method=request.method, reason=reason)

    def _kept(self) -> Control | None:
        if self.closed:
            raise Closed()
        while self._idle:
            try:
                control = self._idle.pop()
            except IndexError:  # another thread was quicker
                break
            if not control.stale():
                return control
            control.close()
        return None

    def _keep(self, control: Control) -> None:
        if len(self._idle) >= MAX_IDLE:
            control.close()
            return
        self._idle.append(control)
        if self.closed:  # perhaps by another thread, just now
            self.close()


def unavailable(socket: str, error: OSError) -> Unavailable:
    """What a failure to connect means to the user."""
    reason = error.strerror or str(error)
    if isinstance(error, PermissionError):
        return SocketDenied(socket=socket, reason=reason)
    return Unavailable(socket=socket, reason=reason)
