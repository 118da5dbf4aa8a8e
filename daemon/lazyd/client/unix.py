"""Non-blocking Unix sockets: the few calls that both kinds of client make."""

from __future__ import annotations

import math
import select
import socket
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_LONGEST_POLL_S = 1e6


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
