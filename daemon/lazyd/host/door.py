"""The manager's way in: `host.sock`, where the newest manager wins."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Callable
from typing import Any

from ..worker.link import Link
from ..worker.loop import Loop
from .place import Place

PAUSE_S = 0.2
"""After a connection that could not be accepted."""
HELLO_S = 10.0
"""A connection that has not said hello by then is closed."""
_CREDENTIALS = struct.Struct("3i")


class Door:
    """Accepts managers, and passes on what the newest one says.

    `on_hello()` is called for a new manager, `on_order(message, fds)` for its orders, `on_lost()`
    when it has gone and no newer one is there. The receiver closes the descriptors.
    """

    def __init__(self, loop: Loop, listener: socket.socket, place: Place) -> None:
        listener.setblocking(False)
        self.listener = listener
        self.manager: Link | None = None
        self.on_hello: Callable[[], None] = lambda: None
        self.on_order: Callable[[dict[str, Any], list[int]], None] = lambda _message, _fds: None
        self.on_lost: Callable[[], None] = lambda: None
        self._loop = loop
        self._place = place
        loop.watch(listener, read=self._accept)

    def tell(self, message: dict[str, Any]) -> None:
        """To the manager, if there is one."""
        if self.manager is not None:
            self.manager.send(message)

    def adopt(self, sock: socket.socket) -> Link:
        """Goes on with a manager that an earlier self had let in."""
        self.manager = self._link(sock)
        return self.manager

    def reopen(self, listener: socket.socket) -> None:
        """Listens there instead."""
        self._loop.watch(self.listener)
        self.listener.close()
        listener.setblocking(False)
        self.listener = listener
        self._loop.watch(listener, read=self._accept)

    def close(self) -> None:
        self._loop.watch(self.listener)
        self.listener.close()
        if self.manager is not None:
            self.manager.close()

    def _accept(self) -> None:
        try:
            sock, _ = self.listener.accept()
        except OSError:  # gone again, or no descriptor is left: then asking again at once would help nobody
            self._loop.watch(self.listener)
            self._loop.after(PAUSE_S, lambda: self._loop.watch(self.listener, read=self._accept))
            return
        _, uid, _ = _CREDENTIALS.unpack(sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
        if not self._place.may_connect(uid):
            sock.close()
            return
        candidate = self._link(sock)
        self._loop.after(HELLO_S, lambda: candidate.close() if candidate is not self.manager else None)

    def _link(self, sock: socket.socket) -> Link:
        def said(message: dict[str, Any], fds: list[int]) -> None:
            if message.get("do") == "hello":
                self._welcome(link)
            elif link is self.manager:
                self.on_order(message, fds)
                return
            for fd in fds:
                os.close(fd)

        def ended() -> None:
            if link is self.manager:
                self.manager = None
                self.on_lost()

        link = Link(self._loop, sock, said, ended)
        return link

    def _welcome(self, link: Link) -> None:
        if self.manager is not None and self.manager is not link:
            self.manager.close()
        self.manager = link
        self.on_hello()
