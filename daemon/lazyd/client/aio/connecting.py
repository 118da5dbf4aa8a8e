"""Connecting a socket with a deadline."""

from __future__ import annotations

import asyncio
import errno
import socket
import time

from ..reconnect import PATIENCE_S, pauses
from ..steps import Late
from ..unix import new_socket


async def connected(path: str, deadline: float | None) -> socket.socket:
    """A non-blocking socket connected to `path`. Raises `OSError`, `Late`.

    Connecting a Unix socket needs no waiting, but for one case that the event loop does not know
    of: the queue of a daemon that is being started by systemd may be full.
    """
    began = time.monotonic()
    for pause in pauses():
        sock = new_socket()
        sock.setblocking(False)
        try:
            sock.connect(path)
        except OSError as error:
            sock.close()
            now = time.monotonic()
            if error.errno != errno.EAGAIN or now - began > PATIENCE_S:
                raise
        else:
            return sock
        if deadline is not None and now >= deadline:
            raise Late
        await asyncio.sleep(pause if deadline is None else min(pause, deadline - now))
    raise AssertionError("the pauses never end")
