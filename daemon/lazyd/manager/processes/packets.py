"""One end of a packet socket (`lazyd.wire.packets`) in the manager's loop: in order, never blocking."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from lazyd.wire import packets

log = logging.getLogger("lazyd.packets")

_BATCH = 64
"""Packets that are taken before the loop looks after its other sockets."""
_MEMFD = b'{"memfd":'

_inbox = memoryview(bytearray(packets.MAX_PACKET_BYTES))
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
        if len(data) > packets.MAX_INLINE_BYTES:
            fds = [*fds, packets.memory_file(data)]
            data = _encode({"memfd": len(data)})
        if self.closed:
            packets.close(fds)
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
                size, ancillary, _, _ = self._sock.recvmsg_into([_inbox], packets.ANCILLARY, packets.CLOSE_ON_EXEC)
            except (BlockingIOError, InterruptedError):
                return
            except OSError as error:
                log.debug("a packet socket has failed: %s", error)
                size, ancillary = 0, []
            fds = packets.received(ancillary) if ancillary else ()
            if size == 0:
                self.close()
                self._on_end()
            elif fds and _inbox[: len(_MEMFD)] == _MEMFD:
                self._on_packet(memoryview(packets.contents(fds[-1])))
            else:
                self._on_packet(_inbox[:size])
            packets.close(fds)

    def close(self) -> None:
        if self.closed:
            return
        self.closed = True
        self._loop.remove_reader(self._sock.fileno())
        if self._waiting:
            self._loop.remove_writer(self._sock.fileno())
        for _, fds in self._waiting:
            packets.close(fds)
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
        packets.close(fds)
        return True
