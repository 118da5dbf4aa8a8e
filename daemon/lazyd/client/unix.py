"""Non-blocking Unix sockets: what both kinds of client do with them."""

from __future__ import annotations

import math
import select
import socket
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ..wire.varlink import Splitter
from .steps import Dropped

if TYPE_CHECKING:
    from collections.abc import Sequence

_CHUNK_BYTES = 64 * 1024
_LONGEST_POLL_S = 1e6
_SEND_FLAGS = int(socket.MSG_NOSIGNAL | socket.MSG_DONTWAIT)


class ControlSocket:
    """A connection to the control socket: all of `steps.Control` but the waiting."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._splitter = Splitter()
        self._replies: deque[dict[str, Any]] = deque()

    def stale(self) -> bool:
        return self._sock.fileno() < 0 or bool(self._replies) or readable(self._sock)

    def wake(self) -> None:
        """Ends the connection under whoever waits for a reply; that one closes it."""
        with suppress(OSError):  # it has ended already
            self._sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._sock.close()

    def _receive(self) -> None:
        """Takes in what has arrived, if anything has. Raises `Dropped`, `ProtocolError`."""
        try:
            data = self._sock.recv(_CHUNK_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            raise Dropped(error.strerror or str(error), delivered=True) from None
        if not data:
            raise Dropped("the daemon closed it", delivered=True)
        self._replies += self._splitter.feed(data)


def new_socket() -> socket.socket:
    """A stream socket that programs started by the caller do not inherit."""
    return socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)


def send(sock: socket.socket, parts: Sequence[bytes | memoryview]) -> int:
    """Writes what the kernel takes now: the number of bytes, perhaps 0. Raises `OSError`.

    Never SIGPIPE: a program may have set that back to killing it.
    """
    try:
        return sock.sendmsg(parts, (), _SEND_FLAGS)
    except BlockingIOError:
        return 0


def readable(sock: socket.socket) -> bool:
    """Something has arrived, or the other side has closed the connection."""
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(0))


def deadline_of(timeout_s: float | None) -> float | None:
    """When a time limit that begins now ends; None: never."""
    return None if timeout_s is None or timeout_s == math.inf else time.monotonic() + timeout_s


def left_s(deadline: float | None) -> float | None:
    """Seconds until a deadline, at least 0; None: for ever."""
    return None if deadline is None else max(0.0, deadline - time.monotonic())


def left_ms(deadline: float | None) -> int | None:
    """The same in milliseconds, for `select.poll`: rounded up, and never more than it takes."""
    left = left_s(deadline)
    return None if left is None else int(min(left, _LONGEST_POLL_S) * 1000) + 1
