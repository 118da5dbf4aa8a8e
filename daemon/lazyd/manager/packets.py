"""One end of a SEQPACKET socket in the loop: whole JSON messages, in order, never blocking.

A message that is too long for a packet travels as a file in memory: the packet is
``{"memfd": bytes}`` and the file its last descriptor (as `lazyd.worker.link` does it).
"""

from __future__ import annotations

import array
import asyncio
import contextlib
import logging
import os
import socket
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

log = logging.getLogger("lazyd.packets")

MAX_INLINE = 96 * 1024
"""Bytes of the longest message that travels in the packet itself."""
_LARGEST = 512 * 1024
_BATCH = 64
"""Packets that are taken before the loop looks after its other sockets."""
_MEMFD = b'{"memfd":'
_ANCILLARY = socket.CMSG_SPACE(16 * array.array("i").itemsize)

_inbox = memoryview(bytearray(_LARGEST))
"""Shared by all: a packet is decoded before anything else is read."""
_encode = msgspec.json.Encoder().encode


class PacketSocket:
    """Sends and receives packets.

    `on_packet` gets each message, whose memory is only valid during the call; `on_end` is called
    once when the other side has gone. Descriptors given to `send` are closed once they are sent.
    """

    def __init__(
        self, sock: socket.socket, on_packet: Callable[[memoryview], None], on_end: Callable[[], None]
    ) -> None:
        sock.setblocking(False)
        self._loop = asyncio.get_running_loop()
        self._sock = sock
        self._on_packet = on_packet
        self._on_end = on_end
        self._waiting: deque[tuple[bytes, Sequence[int]]] = deque()
        self.closed = False
        self._loop.add_reader(sock.fileno(), self.read)

    def send(self, message: Any, fds: Sequence[int] = ()) -> None:
        """Sends one message, after those that still wait. To an end that has gone nothing is sent."""
        data = _encode(message)
        if len(data) > MAX_INLINE:
            fds = [*fds, _memory_file(data)]
            data = _encode({"memfd": len(data)})
        if self.closed:
            close(fds)
        elif self._waiting or not self._try(data, fds):
            if not self._waiting:
                self._loop.add_writer(self._sock.fileno(), self._flush)
            self._waiting.append((data, fds))

    def read(self, batch: int = _BATCH) -> None:
        """Takes the packets that have arrived, at most so many."""
        for _ in range(batch):
            if self.closed:
                return
            try:
                size, ancillary, _, _ = self._sock.recvmsg_into([_inbox], _ANCILLARY, socket.MSG_CMSG_CLOEXEC)
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                log.debug("a packet socket has failed: %s", error)
                size, ancillary = 0, []
            fds = _received(ancillary) if ancillary else ()
            if size == 0:
                self.close()
                self._on_end()
            elif fds and _inbox[: len(_MEMFD)] == _MEMFD:
                self._on_packet(memoryview(_contents(fds[-1])))
            else:
                self._on_packet(_inbox[:size])
            close(fds)

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        self._loop.remove_reader(self._sock.fileno())
        if self._waiting:
            self._loop.remove_writer(self._sock.fileno())
        for _, fds in self._waiting:
            close(fds)
        self._waiting.clear()
        self._sock.close()

    def _flush(self) -> None:
        while self._waiting and self._try(*self._waiting[0]):
            self._waiting.popleft()
        if not self._waiting and not self.closed:
            self._loop.remove_writer(self._sock.fileno())

    def _try(self, data: bytes, fds: Sequence[int]) -> bool:
        """Whether the packet is out of the way: sent, or not sendable at all."""
        try:
            if fds:
                socket.send_fds(self._sock, [data], fds)
            else:
                self._sock.send(data)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError as error:
            log.debug("a packet could not be sent: %s", error)  # reading will see the end
        close(fds)
        return True


def pair() -> tuple[socket.socket, socket.socket]:
    """Two connected ends: ours, and one to be passed on."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def close(fds: Sequence[int]) -> None:
    for fd in fds:
        with contextlib.suppress(OSError):
            os.close(fd)


def _memory_file(data: bytes) -> int:
    fd = os.memfd_create("packet")
    with open(fd, "wb", closefd=False) as file:
        file.write(data)
    return fd


def _contents(fd: int) -> bytes:
    with open(fd, "rb", closefd=False) as file:
        file.seek(0)
        return file.read()


def _received(ancillary: Sequence[tuple[int, int, bytes]]) -> list[int]:
    """The descriptors that came with a packet."""
    fds = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
    return list(fds)
