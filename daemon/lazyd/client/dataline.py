"""The client's end of a data connection, without its I/O (docs/protocol.md: "The data socket").

Bytes that came in are told by `received`, bytes to go out stand in `outgoing`; both kinds of
client (`blocking.line`, `aio.line`) move them. Several calls may be under way:

    opening ── {"v": 1} ──▶ open ── revoked, closed, lost ──▶ ended
        └── error, lost ────────────────────────────────────────┘

Each call ends in exactly one way: its last result, its error, `Revoked` (never started: it may be
repeated), or `Dropped`, which knows whether its frame had left this process completely. A call
that nobody waits for any more is cancelled, and stays on the books until the worker has answered.
"""

from __future__ import annotations

import enum
from collections import deque
from typing import TYPE_CHECKING, Any

from ..errors import ProtocolError, Revoked, from_varlink
from ..wire.frames import FrameReader, frame_parts
from .call import Call
from .steps import Dropped

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..wire.frames import Frame
    from ..wire.values import Buffer
    from .call import PackedCall

VERSION = 1
_PARTS = 64
"""Pieces handed to the kernel at once; far below what ``sendmsg`` takes."""


class LineState(enum.Enum):
    """See the drawing above."""

    OPENING = "opening"
    OPEN = "open"
    ENDED = "ended"


class DataLine:
    """One connection: first the token, then calls."""

    def __init__(self, lease: str, token: str) -> None:
        self.lease = lease
        self.state = LineState.OPENING
        self.outgoing: deque[tuple[memoryview, Call | None]] = deque()
        """Each piece with the call whose frame it completes."""
        self.calls: dict[int, Call] = {}
        self.hello = Call(0)
        """Ready when the worker has answered the token; `Call.take` raises its refusal."""
        self._reader = FrameReader()
        self._last_number = 0
        self._queue({"v": VERSION, "token": token}, (), self.hello)

    def __repr__(self) -> str:
        return f"<DataLine {self.lease} {self.state.value}, {len(self.calls)} calls>"

    @property
    def idle(self) -> bool:
        """Nobody waits for anything on it."""
        return all(call.abandoned for call in list(self.calls.values()))

    # Calls.

    def begin(self, packed: PackedCall) -> Call:
        """Queues a call. Raises `Dropped` unless the line is open, `TooLarge`."""
        if self.state is not LineState.OPEN:
            raise Dropped("the connection had ended", delivered=False)
        call = Call(self._last_number + 1)
        self._queue({"id": call.number, **packed.head}, packed.buffers, call)
        self._last_number = call.number
        self.calls[call.number] = call
        return call

    def cancel(self, call: Call) -> None:
        """Queues the wish that the call end soon. Its answer will be dropped."""
        call.abandoned = True
        call.arrived.clear()
        if not call.over and self.state is LineState.OPEN:
            self._queue({"cancel": call.number}, (), None)

    # Output.

    def sendable(self) -> list[memoryview]:
        """The next pieces to be written; empty: there is nothing to send."""
        return [self.outgoing[i][0] for i in range(min(len(self.outgoing), _PARTS))]

    def sent(self, count: int) -> None:
        """`count` bytes of `sendable` are written."""
        while count:
            piece, call = self.outgoing[0]
            if count < len(piece):
                self.outgoing[0] = piece[count:], call
                return
            count -= len(piece)
            self.outgoing.popleft()
            if call is not None:
                call.sent = True

    def unsendable(self) -> None:
        """The other side reads no more. What it wrote before that is still to be read."""
        self.outgoing.clear()

    # Input.

    def space(self) -> memoryview:
        """Where the next bytes are to be received."""
        return self._reader.space()

    def received(self, count: int) -> list[Call]:
        """`count` bytes are in `space()` now, 0 at the end of file: the calls that this concerns."""
        if count == 0:
            return self.lost("the worker closed it")
        try:
            frames = self._reader.received(count)
        except ProtocolError as error:
            kind, reason = type(error), error.reason
            return self.end(lambda _: kind(reason=reason))
        return [call for frame in frames for call in self._heard(frame)]

    def lost(self, reason: str) -> list[Call]:
        """The connection broke."""
        return self.end(lambda call: Dropped(reason, delivered=call.sent))

    def end(self, error: Callable[[Call], Exception]) -> list[Call]:
        """The line is over; each call under way ends with its `error`."""
        if self.state is LineState.ENDED:
            return []
        ended = [*self.calls.values(), self.hello] if self.state is LineState.OPENING else [*self.calls.values()]
        self.state = LineState.ENDED
        self.outgoing.clear()
        self.calls.clear()
        for call in ended:
            call.push(error(call), last=True)
        return ended

    def _heard(self, frame: Frame) -> list[Call]:
        head = frame.header
        if self.state is LineState.ENDED:
            return []
        if head.get("revoked"):
            return self.end(lambda _: Revoked())
        if "id" in head:
            return self._answered(head["id"], frame)
        if "error" in head:  # about the connection as a whole
            return self.end(lambda _: from_varlink(head["error"], head.get("parameters")))
        if self.state is LineState.OPENING and head.get("v") == VERSION:
            self.state = LineState.OPEN
            self.hello.push(frame, last=True)
            return [self.hello]
        return self.end(lambda _: ProtocolError(reason=f"a frame with {sorted(head)} was not expected here"))

    def _answered(self, number: Any, frame: Frame) -> list[Call]:
        call = self.calls.get(number) if type(number) is int else None
        if call is None:
            return []
        head = frame.header
        error = from_varlink(head["error"], head.get("parameters")) if "error" in head else None
        last = error is not None or not head.get("more")
        if last:
            del self.calls[call.number]
        call.push(frame if error is None else error, last=last)
        return [call]

    def _queue(self, head: dict[str, Any], buffers: tuple[()] | list[Buffer], call: Call | None) -> None:
        parts = [memoryview(part) for part in frame_parts(head, buffers)]
        for part in parts[:-1]:
            self.outgoing.append((part, None))
        self.outgoing.append((parts[-1], call))
