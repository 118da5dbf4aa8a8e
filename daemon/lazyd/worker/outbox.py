"""What waits to be written to one client.

Object threads make frames and may have to wait; the I/O loop alone writes. A result's arrays are
the model's own memory: they are written from where they lie if the client takes them quickly, and
copied if it does not, so that a slow client does not hold up the model for others. A stream
waits for its reader (backpressure): its pieces would fill the memory otherwise. `moved` tells the
connection of a reader that has stopped: it does not hold the model without limit.
"""

from __future__ import annotations

import collections
import threading
import time
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Sequence

    from ..wire.values import Buffer

STREAM_BACKLOG = 256 * 1024
"""Bytes that a stream may be ahead of its reader."""
SLOW_CLIENT_S = 0.2
"""A client that has taken nothing for so long is slow: arrays are copied, and the model waits no more."""
LONGEST_S = 2.0
"""So is one that has not taken all in this time."""
_PARTS = 64


class Piece(NamedTuple):
    """A piece of a stream: its frame if more follow, and what it takes to make the last one's."""

    header: dict[str, Any]
    buffers: Sequence[Buffer]
    parts: list[Buffer]


class _Entry:
    def __init__(self, data: Buffer, done: Callable[[], None] | None, taken: threading.Event | None) -> None:
        self.data = memoryview(data)
        self.done = done
        self.taken = taken


class Outbox:
    """Pieces of frames in order. `reserve` and `wait_for_room` may be called by any thread."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._entries: collections.deque[_Entry] = collections.deque()
        self._backlog = 0
        self._room = threading.Condition()
        self._closed = False
        self._taken_bytes = 0
        self.moved = 0.0
        """When the client last took something, or what waits now began to wait (monotonic)."""

    def __bool__(self) -> bool:
        return bool(self._entries)

    def reserve(self, parts: Sequence[Buffer]) -> None:
        """These are about to be put."""
        with self._room:
            self._backlog += sum(map(len, parts))

    def unreserve(self, parts: Sequence[Buffer]) -> None:
        """These will not be put after all."""
        with self._room:
            self._backlog -= sum(map(len, parts))

    def wait_for_room(self, stop: Callable[[], bool]) -> None:
        """Until the client is not far behind any more, or `stop`, which is looked at after a `nudge`."""
        with self._room:
            while self._backlog > STREAM_BACKLOG and not self._closed and not stop():
                self._room.wait()

    def nudge(self) -> None:
        """Lets waiting threads look at their `stop`."""
        with self._room:
            self._room.notify_all()

    def is_slow(self, taken: threading.Event) -> bool:
        """Waits until `taken` is set (False), or the client turns out to be slow."""
        began = time.monotonic()
        while not taken.is_set():
            before = self._taken_bytes
            if taken.wait(SLOW_CLIENT_S):
                break
            if self._taken_bytes == before or time.monotonic() - began > LONGEST_S:
                return True
        return False

    def put(
        self,
        parts: Sequence[Buffer],
        done: Callable[[], None] | None = None,
        taken: threading.Event | None = None,
    ) -> None:
        """Appends reserved parts. `done` is called when the last byte is written, or never will be;
        `taken` is set when the parts' memory is not needed any more."""
        if not self._entries:
            self.moved = time.monotonic()
        for part in parts[:-1]:
            self._entries.append(_Entry(part, None, None))
        self._entries.append(_Entry(parts[-1], done, taken))

    def flush(self) -> bool:
        """Writes what the client takes now; whether all is written. Raises `OSError` if it has gone."""
        while self._entries:
            views = [self._entries[i].data for i in range(min(_PARTS, len(self._entries)))]
            try:
                count = self._socket.sendmsg(views)
            except (BlockingIOError, InterruptedError):
                return False
            self._written(count)
        return True

    def copy_mutable(self) -> None:
        """Makes what is not written yet independent of the models' memory."""
        waiting = [entry for entry in self._entries if entry.taken is not None]
        if not waiting:
            return
        for entry in self._entries:
            if not entry.data.readonly:
                entry.data = memoryview(bytes(entry.data))
        for entry in waiting:
            assert entry.taken is not None
            entry.taken.set()

    def close(self) -> None:
        """Drops everything. All threads that wait go on."""
        entries, self._entries = list(self._entries), collections.deque()
        with self._room:
            self._closed = True
            self._room.notify_all()
        for entry in entries:
            self._finish(entry)

    def _written(self, count: int) -> None:
        self._taken_bytes += count
        self.moved = time.monotonic()
        with self._room:
            was_full = self._backlog > STREAM_BACKLOG
            self._backlog -= count
            if was_full and self._backlog <= STREAM_BACKLOG:
                self._room.notify_all()
        while self._entries and count >= len(self._entries[0].data):
            entry = self._entries.popleft()
            count -= len(entry.data)
            self._finish(entry)
        if count:
            self._entries[0].data = self._entries[0].data[count:]

    @staticmethod
    def _finish(entry: _Entry) -> None:
        if entry.taken is not None:
            entry.taken.set()
        if entry.done is not None:
            entry.done()
