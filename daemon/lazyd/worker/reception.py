"""Lets clients in: the listening data socket and all connections of a worker."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from .connection import Connection

if TYPE_CHECKING:
    import socket

    from .connection import Desk
    from .loop import Loop

PAUSE_S = 0.2
"""When no descriptor is left, asking again at once would only keep a processor busy."""
_SHORTAGES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Reception:
    """Accepts connections until `close`, and knows those that are open."""

    def __init__(self, loop: Loop, listener: socket.socket, desk: Desk) -> None:
        self.connections: set[Connection] = set()
        self._loop = loop
        self._listener: socket.socket | None = listener
        self._desk = desk
        self.listen_at(listener)

    @property
    def is_flushed(self) -> bool:
        """Whether clients have been sent all that they are to get."""
        return all(connection.is_flushed for connection in self.connections)

    def cancel_calls(self, model: str) -> None:
        """Cancels all calls of one model."""
        for connection in list(self.connections):
            if connection.lease is not None and connection.lease.model == model:
                connection.cancel_all()

    def listen_at(self, listener: socket.socket) -> None:
        """Lets clients in there, and no more where it did before."""
        if self._listener is None:
            listener.close()
            return
        if self._listener is not listener:
            self.close()
        listener.setblocking(False)
        self._listener = listener
        self._listen()

    def close(self) -> None:
        """Lets nobody in any more. Open connections stay."""
        if self._listener is not None:
            self._loop.watch(self._listener)
            self._listener.close()
            self._listener = None

    def _listen(self) -> None:
        if self._listener is not None:
            self._loop.watch(self._listener, read=self._accept)

    def _accept(self) -> None:
        while self._listener is not None:
            try:
                client, _ = self._listener.accept()
            except OSError as error:  # nobody waits any more, or has gone again
                if error.errno in _SHORTAGES:
                    self._loop.watch(self._listener)
                    self._loop.after(PAUSE_S, self._listen)
                return
            self.connections.add(Connection(self._loop, client, self._desk))
