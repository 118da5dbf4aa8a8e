"""Connecting a socket with a deadline."""

from __future__ import annotations

import errno
import math
import socket
import struct
import time

from ..reconnect import PATIENCE_S
from ..steps import Late
from ..unix import left_s, new_socket


def connected(path: str, deadline: float | None) -> socket.socket:
    """A non-blocking socket connected to `path`. Raises `OSError`, `Late`.

    A daemon that is being started by systemd has a queue of connections; when that is full the
    kernel waits, for at most the socket's send time-out.
    """
    sock = new_socket()
    try:
        left = left_s(deadline)
        patience = PATIENCE_S if left is None else min(left, PATIENCE_S)
        fraction, whole = math.modf(max(patience, 0.001))
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", int(whole), int(fraction * 1e6)))
        sock.connect(path)
        sock.setblocking(False)
    except OSError as error:
        sock.close()
        if error.errno == errno.EAGAIN and deadline is not None and time.monotonic() >= deadline:
            raise Late from None
        raise
    except BaseException:
        sock.close()
        raise
    return sock
