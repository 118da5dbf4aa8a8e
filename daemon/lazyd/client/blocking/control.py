"""A connection to the control socket, used by one thread at a time."""

from __future__ import annotations

import contextlib
import select
import socket
from collections import deque
from typing import Any

from ...wire.varlink import Splitter
from ..steps import Dropped, Late
from ..unix import left_ms, readable, send
from .connecting import connected

_CHUNK = 64 * 1024


class BlockingControl:
    """See `steps.Control`."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._splitter = Splitter()
        self._replies: deque[dict[str, Any]] = deque()

    @classmethod
    def connect(cls, path: str, deadline: float | None) -> BlockingControl:
        """Raises `OSError`, `Late`."""
        return cls(connected(path, deadline))

    def talk(self, message: bytes | None, deadline: float | None) -> dict[str, Any]:
        """Sends a message, if there is one, and returns a reply. Raises `Dropped`, `Late`, `ProtocolError`."""
        if message is not None:
            self._send(message, deadline)
        while not self._replies:
            self._wait(select.POLLIN, deadline)
            try:
                data = self._sock.recv(_CHUNK)
            except BlockingIOError:
                continue
            except OSError as error:
                raise Dropped(error.strerror or str(error), delivered=True) from None
            if not data:
                raise Dropped("the daemon closed it", delivered=True)
            self._replies += self._splitter.feed(data)
        return self._replies.popleft()

    def stale(self) -> bool:
        return self._sock.fileno() < 0 or bool(self._replies) or readable(self._sock)

    def wake(self) -> None:
        """Ends the connection under a thread that waits for a reply; that thread closes it."""
        with contextlib.suppress(OSError):  # it has ended already
            self._sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._sock.close()

    def _send(self, message: bytes, deadline: float | None) -> None:
        rest = memoryview(message)
        try:
            while True:
                rest = rest[send(self._sock, [rest]) :]
                if not rest:
                    return
                self._wait(select.POLLOUT, deadline)
        except OSError as error:  # part of a message is no message
            raise Dropped(error.strerror or str(error), delivered=False) from None

    def _wait(self, events: int, deadline: float | None) -> None:
        poll = select.poll()
        poll.register(self._sock, events)
        if not poll.poll(left_ms(deadline)):
            raise Late
