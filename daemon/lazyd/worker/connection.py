"""One client's data connection; `lazyd.wire.frames` knows what its frames look like.

    greeting ── token ──▶ open ── revoked, refused ──▶ leaving ── all written ──▶ closed
        └──────────────────┴────────── end of file ────────┴──────────────────────▶ closed

Everything here runs in the I/O loop but the ``put_`` methods, which object threads call: these take the loop's turn
if it sleeps, so that an answer is on its way without another thread.
"""

from __future__ import annotations

import enum
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

from ..errors import LazydError, NoSuchLease, ProtocolError, Revoked
from ..wire.frames import Frame, FrameReader, frame_parts, roomy
from .calls import Call, error_header
from .outbox import Outbox, Piece

if TYPE_CHECKING:
    import socket
    from collections.abc import Sequence
    from typing import Protocol

    from ..wire.values import Buffer
    from .loop import Loop, Timer
    from .records import Lease

    class Desk(Protocol):
        """Decides for connections; the worker."""

        def present(self, token: str, connection: Connection) -> Lease | None: ...
        def admit(self, lease: Lease) -> bool: ...
        def submit(self, call: Call) -> None: ...
        def ended(self, call: Call, *, ok: bool) -> None: ...
        def disconnected(self, connection: Connection) -> None: ...


VERSION = 1
GREETING_S = 10.0
"""A connection must have shown its token after this time."""
LEAVING_S = 5.0
"""What a client that was told to leave has not read by then is dropped."""
STALLED_S = 60.0
"""A client that takes no byte for so long of what waits for it has stopped: its calls are cancelled and it
is dropped, as others wait for the model behind it."""
HELD_S = 0.002
"""A stream's piece waits so long for the one after it: the last one is marked as such if it can be."""
MAX_CALLS = 1000
"""A connection with so many calls under way is not read until some have ended."""
_SMALL = 64 * 1024
_READ_AT_ONCE = 4 * 1024 * 1024


class State(enum.Enum):
    """See the drawing above."""

    GREETING = "greeting"
    OPEN = "open"
    LEAVING = "leaving"
    CLOSED = "closed"


class Connection:
    """From accept to close."""

    def __init__(self, loop: Loop, sock: socket.socket, desk: Desk) -> None:
        sock.setblocking(False)
        roomy(sock)
        self.state = State.GREETING
        self.lease: Lease | None = None
        self.calls: dict[int, Call] = {}
        self._loop = loop
        self._socket = sock
        self._desk = desk
        self._reader = FrameReader()
        self._outbox = Outbox(sock)
        self._limit = loop.after(GREETING_S, self.drop)
        self._patience: Timer | None = None
        self._watch()

    def __repr__(self) -> str:
        lease = self.lease.id if self.lease else "no lease"
        return f"<Connection {self.state.value}, {lease}, {len(self.calls)} calls>"

    @property
    def is_flushed(self) -> bool:
        return not self._outbox

    def revoke(self) -> None:
        """Says that nothing more is admitted, and closes once that is written."""
        self._part({"revoked": True})

    def drop(self) -> None:
        """Closes at once. Calls under way are cancelled; they end when they really do."""
        if self.state is State.CLOSED:
            return
        self.state = State.CLOSED
        self._limit.cancel()
        if self._patience is not None:
            self._patience.cancel()
        self._loop.watch(self._socket)
        self._socket.close()
        self.cancel_all()
        self._outbox.close()
        self._desk.disconnected(self)

    def cancel_all(self) -> None:
        """Cancels all calls."""
        for call in list(self.calls.values()):
            self._cancel(call)

    # From object threads.

    def put_piece(self, call: Call, header: dict[str, Any], buffers: Sequence[Buffer]) -> None:
        """A piece of a stream. Waits while the client is far behind."""
        piece = Piece(header, buffers, frame_parts({**header, "more": True}, buffers))
        self._outbox.reserve(piece.parts)
        self._loop.at_once(lambda: self._piece(call, piece))
        self._outbox.wait_for_room(call.cancelled)

    def put_end(self, call: Call) -> None:
        """A stream has ended without a last piece."""
        self._loop.at_once(lambda: self._end_stream(call))

    def put_answer(self, call: Call, header: dict[str, Any], buffers: Sequence[Buffer]) -> None:
        """The last answer of a call. Returns when the buffers' memory may be used again."""
        parts = frame_parts(header, buffers)
        self._outbox.reserve(parts)
        lent = any(not isinstance(data, bytes) for data in buffers)
        taken = threading.Event() if lent else None
        self._loop.at_once(lambda: self._answer(call, parts, ok="error" not in header, taken=taken))
        if taken is not None and self._outbox.is_slow(taken):
            self._loop.at_once(self._outbox.copy_mutable)
            taken.wait()

    # Input.

    def _read(self) -> None:
        budget = _READ_AT_ONCE
        while budget > 0 and self.state in (State.GREETING, State.OPEN) and len(self.calls) < MAX_CALLS:
            try:
                count = self._socket.recv_into(self._reader.space())
                frames = self._reader.received(count) if count else []
            except (BlockingIOError, InterruptedError):
                return None
            except OSError:
                return self.drop()
            except LazydError as error:
                return self._part(error_header(error))
            if not count:
                return self.drop()
            budget -= count
            for frame in frames:
                self._heard(frame)
            if frames:
                break  # the loop comes back if there is more; meanwhile the model's thread may have its turn
        self._watch()
        return None

    def _heard(self, frame: Frame) -> None:
        header = frame.header
        if self.state is State.GREETING:
            self._greet(header)
        elif self.state is not State.OPEN:
            pass  # crossed a revocation: never started
        elif type(header.get("cancel")) is int:
            call = self.calls.get(header["cancel"])
            if call is not None:
                self._cancel(call)
        elif type(header.get("id")) is int and "method" in header and header["id"] not in self.calls:
            self._call(frame)
        else:
            self._part(error_header(ProtocolError(reason=f"a frame with {sorted(header)} was not expected here")))

    def _greet(self, header: dict[str, Any]) -> None:
        if header.get("v") != VERSION:
            return self._part(error_header(ProtocolError(reason=f"version {VERSION} is spoken here")))
        lease = self._desk.present(str(header.get("token")), self)
        if lease is None:
            return self._part(error_header(NoSuchLease(lease="")))
        if self.state is State.GREETING:
            self.lease, self.state = lease, State.OPEN
            self._limit.cancel()
            self._write({"v": VERSION})
        return None

    def _call(self, frame: Frame) -> None:
        assert self.lease is not None
        if not self._desk.admit(self.lease):
            return self._write(error_header(Revoked(model=self.lease.named), frame.header["id"]))
        call = Call(self, self.lease, frame.header, frame.buffers)
        self.calls[call.number] = call
        return self._desk.submit(call)

    def _cancel(self, call: Call) -> None:
        call.cancelled.cancel()
        self._outbox.nudge()
        if call.claim():
            parts = frame_parts(error_header(call.cancelled_error(), call.number))
            self._outbox.reserve(parts)
            self._answer(call, parts, ok=True)

    # Output.

    def _piece(self, call: Call, piece: Piece) -> None:
        self._let_go(call)
        if self.state is not State.CLOSED:
            call.held = piece
            call.held_for = self._loop.after(HELD_S, lambda: self._let_go(call))

    def _let_go(self, call: Call) -> None:
        if call.held_for is not None:
            call.held_for.cancel()
        if call.held is not None:
            piece, call.held = call.held, None
            self._put(piece.parts)

    def _end_stream(self, call: Call) -> None:
        last, call.held = call.held, None
        if last is not None:
            self._outbox.unreserve(last.parts)
            parts = frame_parts(last.header, last.buffers)
        else:
            # The last piece has left already: this frame holds none.
            parts = frame_parts({"id": call.number, "result": None, "end": True})
        self._outbox.reserve(parts)
        self._answer(call, parts, ok=True)

    def _answer(self, call: Call, parts: list[Buffer], *, ok: bool, taken: threading.Event | None = None) -> None:
        self._let_go(call)
        del self.calls[call.number]
        if self.state is State.CLOSED:
            if taken is not None:
                taken.set()
            return self._desk.ended(call, ok=False)
        if self._outbox or sum(map(len, parts)) > _SMALL:
            # Its end is when the client has it: a model that leaves now would take the rest along.
            return self._put(parts, lambda: self._desk.ended(call, ok=ok), taken)
        self._outbox.put(parts, None, taken)
        self._desk.ended(call, ok=ok)
        return self._flush()

    def _write(self, header: dict[str, Any]) -> None:
        parts = frame_parts(header)
        self._outbox.reserve(parts)
        self._put(parts)

    def _put(self, parts: list[Buffer], done: Any = None, taken: threading.Event | None = None) -> None:
        if self.state is State.CLOSED:
            return
        self._outbox.put(parts, done, taken)
        self._flush()

    def _part(self, header: dict[str, Any]) -> None:
        if self.state not in (State.GREETING, State.OPEN):
            return
        self.state = State.LEAVING
        self._limit.cancel()
        self._limit = self._loop.after(LEAVING_S, self.drop)
        self._write(header)

    def _flush(self) -> None:
        if self.state is State.CLOSED:
            return None
        try:
            all_written = self._outbox.flush()
        except OSError:
            return self.drop()
        if all_written and self.state is State.LEAVING:
            return self.drop()
        return self._watch()

    def _watch(self) -> None:
        if self.state is State.CLOSED:
            return
        reads = self.state in (State.GREETING, State.OPEN) and len(self.calls) < MAX_CALLS
        self._loop.watch(
            self._socket,
            read=self._read if reads else None,
            write=self._flush if self._outbox else None,
        )
        if self._outbox and self._patience is None:
            self._patience = self._loop.after(STALLED_S, self._look_at_reader)

    def _look_at_reader(self) -> None:
        self._patience = None
        if not self._outbox:
            return
        left_s = self._outbox.moved + STALLED_S - time.monotonic()
        if left_s > 0:
            self._patience = self._loop.after(left_s, self._look_at_reader)
        else:
            model = self.lease.model if self.lease else "this worker"
            print(
                f"a client of {model} has read nothing for {STALLED_S:g} s and is dropped", file=sys.stderr, flush=True
            )
            self.drop()
