"""A data connection that several threads use at once.

There is no thread of its own: of the threads that wait for an answer, one reads the socket, for
all of them, and when it has its own answer another one takes over. Writing goes the same way:
what the kernel does not take at once is written by whoever waits. So a thread that is alone pays
for no hand-over, and a fork or an exit finds no thread in the middle of something.
"""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from collections import deque
from typing import TYPE_CHECKING

from ...errors import Closed
from ...wire.frames import roomy
from ..dataline import DataLine, LineState
from ..steps import Late
from ..unix import left_ms, left_s, send
from .connecting import connected

if TYPE_CHECKING:
    from ..answer import Piece
    from ..call import Call, PackedCall
    from ..steps import Dial

_PATIENCE_S = 0.05
"""Longer than any other thread keeps the lock."""


class BlockingLine:
    """See `steps.Line`."""

    def __init__(self, sock: socket.socket, line: DataLine) -> None:
        self._sock = sock
        self._line = line
        self._changed = threading.Condition(threading.Lock())
        """Guards everything here; notified when a call got something, or a thread stopped reading."""
        self._polls: list[int] = []
        """What each thread that polls the socket just now does so for."""
        self._unwanted: deque[Call] = deque()
        """Calls whose cancellation is still to be written."""

    @classmethod
    def dial(cls, dial: Dial) -> BlockingLine:
        """Connects and presents the token. Raises `OSError`, `Dropped`, `Late`, the worker's error."""
        sock = connected(dial.endpoint, dial.deadline)
        roomy(sock)
        line = cls(sock, DataLine(dial.lease, dial.token))
        try:
            line.wait(line._line.hello, dial.deadline)
            line.take(line._line.hello)
        except BaseException:
            line.close()
            raise
        return line

    def __repr__(self) -> str:
        return repr(self._line)

    @property
    def lease(self) -> str:
        return self._line.lease

    def begin(self, packed: PackedCall) -> Call:
        with self._changed:
            call = self._line.begin(packed)
            self._flush()
            return call

    def take(self, call: Call) -> Piece:
        return call.take()

    def cancel(self, call: Call) -> None:
        # The garbage collector may close an iterator, and so come here, in a thread that holds the
        # lock already. Then it is that thread's next step that writes the cancellation.
        call.abandoned = True
        self._unwanted.append(call)
        if self._changed.acquire(timeout=_PATIENCE_S):
            try:
                self._flush()
            finally:
                self._changed.release()

    def wait(self, call: Call, deadline: float | None) -> None:
        """Returns when something has arrived for the call. Raises `Late`."""
        with self._changed:
            try:
                while not call.ready:
                    self._flush()
                    if self._line.outgoing and not any(events & select.POLLOUT for events in self._polls):
                        # Reads too: the worker may be waiting for that before it reads more from us.
                        in_time = self._pump(select.POLLIN | select.POLLOUT, deadline)
                    elif not self._polls:
                        in_time = self._pump(select.POLLIN, deadline)
                    else:
                        in_time = self._changed.wait(left_s(deadline))
                    if not in_time and not call.ready:
                        raise Late
            finally:
                self._changed.notify_all()  # somebody else reads from now on

    def close(self) -> None:
        with contextlib.suppress(OSError):  # the other side may have been quicker
            self._sock.shutdown(socket.SHUT_RDWR)  # wakes those who poll; the last of them closes it
        if self._changed.acquire(timeout=_PATIENCE_S):  # see `cancel`
            try:
                self._end()
            finally:
                self._changed.release()

    def close_if_idle(self) -> bool:
        if not self._changed.acquire(timeout=_PATIENCE_S):  # see `cancel`; the next call will ask again
            return False
        try:
            if self._line.idle:
                self._end()
            return self._line.state is LineState.ENDED
        finally:
            self._changed.release()

    def forget(self) -> None:
        """After a fork: the connection is the parent's. Says nothing on it, leaves its threads' lock alone."""
        self._changed = threading.Condition(threading.Lock())
        self._polls = []
        self._line.end(lambda _: Closed())
        self._sock.close()

    def _end(self) -> None:
        self._line.end(lambda _: Closed())
        self._changed.notify_all()
        if not self._polls:
            self._sock.close()

    def _pump(self, events: int, deadline: float | None) -> bool:
        """Waits for the socket without the lock, then reads what is there; False: nothing was, in time."""
        self._polls.append(events)
        try:
            self._changed.release()
            try:
                poll = select.poll()
                poll.register(self._sock, events)
                found = poll.poll(left_ms(deadline))
            finally:
                self._changed.acquire()
            if found and found[0][1] & ~select.POLLOUT:
                self._receive()
            return bool(found)
        finally:
            self._polls.remove(events)
            if self._line.state is LineState.ENDED and not self._polls:
                self._sock.close()

    def _receive(self) -> None:
        try:
            concerned = self._line.received(self._sock.recv_into(self._line.space()))
        except BlockingIOError:
            return
        except OSError as error:
            concerned = self._line.lost(error.strerror or str(error))
        if concerned:
            self._changed.notify_all()

    def _flush(self) -> None:
        """Writes what the kernel takes now. Whoever waits writes the rest."""
        while self._unwanted:
            self._line.cancel(self._unwanted.popleft())
        try:
            while self._line.outgoing:
                count = send(self._sock, self._line.sendable())
                if not count:
                    return
                self._line.sent(count)
        except OSError:  # what it said before it closed is still to be read
            self._line.unsendable()
