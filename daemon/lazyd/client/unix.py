"""Non-blocking Unix sockets: the few calls that both kinds of client make."""

from __future__ import annotations

import select
import socket
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def new_socket() -> socket.socket:
    """A stream socket that programs started by the caller do not inherit."""
    return socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)


def send(sock: socket.socket, parts: Sequence[bytes | memoryview]) -> int:
    """Writes what the kernel takes now: the number of bytes, perhaps 0. Raises `OSError`.

    Never SIGPIPE: a program may have set that back to killing it.
    """
    try:
        return sock.sendmsg(parts, (), socket.MSG_NOSIGNAL | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return 0


def readable(sock: socket.socket) -> bool:
    """Something has arrived, or the other side has closed the connection."""
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(0))


def left_s(deadline: float | None) -> float | None:
    """Seconds until a deadline, at least 0; None: for ever."""
    return None if deadline is None else max(0.0, deadline - time.monotonic())
