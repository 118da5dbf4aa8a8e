"""One call, from its frame to its last answer.

The I/O loop makes a call and may cancel it; an object's thread runs it. Whether it has been
started is decided once, by `claim`: the thread runs what it claims, and the loop answers at once
what it claims back from the queue.
"""

from __future__ import annotations

import contextlib
import threading
import time
import traceback
from typing import TYPE_CHECKING, Any

from ..errors import CallFailed, Cancelled, LazydError, NotSendable, ProtocolError, TooLarge
from ..runtimes import Cancellation
from ..wire import values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ..wire.values import Buffer
    from .connection import Connection
    from .loop import Timer
    from .outbox import Piece
    from .records import Lease
    from .shadows import Repeat

MAX_TRACEBACK = 16 * 1024
MAX_REASON = 4 * 1024
MAX_TIMEOUT_S = 1e9
"""A longer time limit is none."""


class Call:
    """A call under a lease, and the way its results take back."""

    def __init__(self, connection: Connection, lease: Lease, header: dict[str, Any], buffers: Sequence[Buffer]) -> None:
        self.connection = connection
        self.lease = lease
        self.number: int = header["id"]
        self.method = str(header.get("method"))
        self.stream = bool(header.get("stream"))
        self.deadline = _deadline(header.get("timeoutSec"))
        """When its client stops waiting (monotonic), if it has said so."""
        self.cancelled = Cancellation()
        self.held: Piece | None = None
        """The newest piece of its stream, held back a moment because it may be the last."""
        self.held_for: Timer | None = None
        self.repeat: Repeat | None = None
        """It is repeated on another model once it is answered."""
        self._packed = (header.get("args") or [], header.get("kwargs") or {})
        self._buffers = buffers
        self._claim = threading.Lock()

    def claim(self) -> bool:
        """Whether the caller is the first to ask: it alone runs the call, or answers it unrun."""
        return self._claim.acquire(blocking=False)

    def as_received(self) -> tuple[tuple[Any, Any], Sequence[Buffer]]:
        """The arguments, and the buffers that they refer to."""
        return self._packed, self._buffers

    def arguments(self) -> tuple[list[Any], dict[str, Any]]:
        """Positional and keyword arguments; arrays are views of what was received. Raises `ProtocolError`."""
        args, kwargs = self._packed
        if not isinstance(args, list) or not isinstance(kwargs, dict):
            raise ProtocolError(reason="args is not a list, or kwargs not an object")
        args = values.unpack(args, self._buffers)
        kwargs = {name: values.unpack(value, self._buffers) for name, value in kwargs.items()}
        self._packed, self._buffers = ([], {}), ()
        return args, kwargs

    # Answers, from the object's thread.

    def piece(self, value: Any) -> None:
        """One piece of a stream, of which there may be more. Waits while the client is slow."""
        result, buffers = values.pack(value)
        # The model may reuse the memory for the next piece, and a piece may be held back a moment.
        owned = [bytes(data) if not isinstance(data, bytes) else data for data in buffers]
        with _a_result():
            self.connection.put_piece(self, {"id": self.number, "result": result}, owned)

    def last_piece(self, value: Any) -> None:
        """The end of a stream; None if there is nothing to add to the pieces."""
        if value is None:
            self.connection.put_end(self)
        else:
            self.result(value)

    def result(self, value: Any) -> None:
        """The only result, or the last piece."""
        result, buffers = values.pack(value)
        with _a_result():
            self.connection.put_answer(self, {"id": self.number, "result": result}, buffers)
        if self.repeat is not None:
            self.repeat.answered(value)

    def error(self, error: LazydError) -> None:
        """The call has failed, or was cancelled."""
        self.connection.put_answer(self, error_header(error, self.number), ())

    def failed(self, error: BaseException) -> None:
        """Model code raised: its reason in one line, and where it was."""
        self.error(
            CallFailed(
                model=self.lease.named,
                method=self.method,
                reason=one_line(error),
                traceback=traceback_of(error),
            )
        )

    def cancelled_error(self) -> Cancelled:
        return Cancelled(model=self.lease.named)


@contextlib.contextmanager
def _a_result() -> Iterator[None]:
    """What is too large is the model's own result, and no message that its code sent elsewhere."""
    try:
        yield
    except TooLarge as error:
        raise TooLarge(reason=f"the result cannot be sent, {error.reason}") from None


def error_header(error: LazydError, number: int | None = None) -> dict[str, Any]:
    """An error as the header of a frame; its name there is the class's, not varlink's."""
    header = {"error": type(error).__name__, "parameters": error.to_parameters()}
    return header if number is None else {"id": number, **header}


def _deadline(timeout_s: Any) -> float | None:
    """Of whatever a client has sent as its time limit."""
    is_limit = type(timeout_s) in (int, float) and 0 <= timeout_s <= MAX_TIMEOUT_S
    return time.monotonic() + timeout_s if is_limit else None


def one_line(error: BaseException) -> str:
    """What an exception says, with its kind unless the message alone is meant for people."""
    text = " ".join(_said(lambda: str(error)).split())
    text = text if len(text) <= MAX_REASON else f"{text[:MAX_REASON]}…"
    if isinstance(error, (NotSendable, ProtocolError)):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def traceback_of(error: BaseException) -> str:
    """Its traceback, the newest part of it if it is long."""
    text = _said(lambda: "".join(traceback.format_exception(type(error), error, error.__traceback__)))
    return text if len(text) <= MAX_TRACEBACK else f"…{text[-MAX_TRACEBACK:]}"


def _said(say: Callable[[], str]) -> str:
    """What an exception says of itself, as text that can be sent. It is the user's code, and may fail in its turn."""
    try:
        text = say()
    except BaseException as failed:
        text = f"(it cannot be shown: {type(failed).__name__})"
    return text.encode("utf-8", "backslashreplace").decode()
