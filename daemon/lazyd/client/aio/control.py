"""A connection to the control socket, used by one task at a time."""

from __future__ import annotations

import contextlib
import socket
from collections import deque
from typing import Any

from ...wire.varlink import Splitter
from ..steps import Dropped
from ..unix import readable as is_readable
from ..unix import send
from .connecting import connected
from .waiting import readable, writable

_CHUNK = 64 * 1024


class AsyncControl:
    """See `steps.Control`."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._splitter = Splitter()
        self._replies: deque[dict[str, Any]] = deque()

    @classmethod
    async def connect(cls, path: str, deadline: float | None) -> AsyncControl:
        """Raises `OSError`, `Late`."""
        return cls(await connected(path, deadline))

    async def talk(self, message: bytes | None, deadline: float | None) -> dict[str, Any]:
        """Sends a message, if there is one, and returns a reply. Raises `Dropped`, `Late`, `ProtocolError`."""
        if message is not None:
            await self._send(message, deadline)
        while not self._replies:
            await readable(self._sock, deadline)  # no reading ahead: a slow reader is to be seen as one
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
        return self._sock.fileno() < 0 or bool(self._replies) or is_readable(self._sock)

    def wake(self) -> None:
        """Ends the connection under a task that waits for a reply; that task closes it."""
        with contextlib.suppress(OSError):  # it has ended already
            self._sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._sock.close()

    async def _send(self, message: bytes, deadline: float | None) -> None:
        rest = memoryview(message)
        try:
            while True:
                rest = rest[send(self._sock, [rest]) :]
                if not rest:
                    return
                await writable(self._sock, deadline)
        except OSError as error:  # part of a message is no message
            raise Dropped(error.strerror or str(error), delivered=False) from None
