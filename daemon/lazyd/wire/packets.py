"""Packets between manager, host, zygote and worker: what both loops that send and take them agree on.

A packet is a JSON object on an ``AF_UNIX`` ``SOCK_SEQPACKET`` socket: it stays whole and in order, and
carries descriptors. A message that is too long for the kernel's send buffer travels as a file in
memory: the packet is ``{"memfd": bytes}``, and the file its last descriptor.
"""

from __future__ import annotations

import array
import os
import socket
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_INLINE_BYTES = 96 * 1024
"""The longest message that travels in the packet itself; the default send buffer holds 208 KiB."""
MAX_PACKET_BYTES = 512 * 1024
MAX_FDS = 16
ANCILLARY = socket.CMSG_SPACE(MAX_FDS * array.array("i").itemsize)
CLOSE_ON_EXEC = getattr(socket, "MSG_CMSG_CLOEXEC", 0)


def pair() -> tuple[socket.socket, socket.socket]:
    """Two connected ends: ours, and one to be passed on."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def received(ancillary: Iterable[tuple[int, int, bytes]]) -> list[int]:
    """The descriptors that came with a packet."""
    fds = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
    return list(fds)


def close(fds: Iterable[int]) -> None:
    for fd in fds:
        with suppress(OSError):
            os.close(fd)


def memory_file(data: bytes) -> int:
    """A file that holds `data`, as a descriptor."""
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("packet")
    else:  # PyPy
        from tempfile import TemporaryFile

        with TemporaryFile() as unnamed:
            fd = os.dup(unnamed.fileno())
    with open(fd, "wb", closefd=False) as file:
        file.write(data)
    return fd


def contents(fd: int) -> bytes:
    """What a file in memory holds."""
    with open(fd, "rb", closefd=False) as file:
        file.seek(0)
        return file.read()
