"""One end of a packet socket (`lazyd.wire.packets`) in the loop of a host or a worker.

`encode` and `decode` are for whoever has a loop of his own.
"""

from __future__ import annotations

import array
import collections
import json
import os
import socket
from typing import TYPE_CHECKING, Any

from ..wire import packets

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .loop import Loop

_BUFFER = bytearray(packets.MAX_PACKET_BYTES)
"""Shared by all links of a process: a packet is decoded before anything else can be read."""


def encode(message: dict[str, Any], fds: Sequence[int] = ()) -> tuple[bytes, list[int], int | None]:
    """The packet, its descriptors, and the one of these that is to be closed once it is sent."""
    data = json.dumps(message, separators=(",", ":")).encode()
    if len(data) <= packets.MAX_INLINE_BYTES:
        return data, list(fds), None
    fd = packets.memory_file(data)
    return json.dumps({"memfd": len(data)}).encode(), [*fds, fd], fd


def decode(data: bytes | bytearray | memoryview, fds: list[int]) -> tuple[dict[str, Any], list[int]]:
    """The message of a packet and the descriptors that belong to it. Raises `ValueError`."""
    message = json.loads(bytes(data))
    if not isinstance(message, dict):
        raise ValueError("a packet is not a JSON object")
    if set(message) == {"memfd"} and fds:
        *fds, fd = fds
        try:
            message = json.loads(packets.contents(fd))
        finally:
            os.close(fd)
    return message, fds


class Link:
    """One end of a connection, read and written by a loop.

    `on_message(message, fds)` gets each packet; the descriptors are the receiver's to close.
    `on_end()` is called once, when the other side has gone or broke the protocol. What is sent
    to a link that has ended is lost, as it would be on its way.
    """

    def __init__(
        self,
        loop: Loop,
        sock: socket.socket,
        on_message: Callable[[dict[str, Any], list[int]], None],
        on_end: Callable[[], None],
    ) -> None:
        sock.setblocking(False)
        self.socket = sock
        self.is_open = True
        self._loop = loop
        self._on_message = on_message
        self._on_end = on_end
        self._unsent: collections.deque[tuple[bytes, list[int]]] = collections.deque()
        self._watch()

    def send(self, message: dict[str, Any], fds: Sequence[int] = ()) -> None:
        """Sends now or as soon as there is room. The caller keeps, and may close, `fds`."""
        if not self.is_open:
            return
        data, all_fds, ours = encode(message, fds)
        try:
            if self._unsent or not self._try(data, all_fds):
                self._unsent.append((data, [os.dup(fd) for fd in all_fds]))
                self._watch()
        finally:
            if ours is not None:
                os.close(ours)

    def read(self) -> None:
        """Takes in all that has arrived."""
        while self.is_open:
            try:
                size, ancillary, flags, _ = self.socket.recvmsg_into(
                    [_BUFFER], packets.ANCILLARY, packets.CLOSE_ON_EXEC
                )
            except (BlockingIOError, InterruptedError):
                return None
            except OSError:
                size, ancillary, flags = 0, [], 0
            fds = packets.received(ancillary)
            if size == 0 or flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
                return self._end(fds)
            try:
                message, fds = decode(memoryview(_BUFFER)[:size], fds)
            except (ValueError, OSError):
                return self._end(fds)
            self._on_message(message, fds)
        return None

    def close(self) -> None:
        """Ends it from this side; `on_end` is not called."""
        if self.is_open:
            self._loop.watch(self.socket)
            self.is_open = False
            self.socket.close()
            self._drop_unsent()

    def release(self) -> tuple[int, list[tuple[bytes, list[int]]]]:
        """Lets go of the socket without closing it: its descriptor, and what is not sent yet."""
        self._loop.watch(self.socket)
        self.is_open = False
        return self.socket.detach(), list(self._unsent)

    def resume(self, unsent: Sequence[tuple[bytes, list[int]]]) -> None:
        """Goes on with what a link that was released had not sent."""
        self._unsent.extend(unsent)
        self._watch()

    def _try(self, data: bytes, fds: Sequence[int]) -> bool:
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        try:
            self.socket.sendmsg([data], rights)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            pass  # the other side has gone: reading will tell
        return True

    def _flush(self) -> None:
        while self._unsent and self._try(*self._unsent[0]):
            packets.close(self._unsent.popleft()[1])
        self._watch()

    def _watch(self) -> None:
        self._loop.watch(self.socket, read=self.read, write=self._flush if self._unsent else None)

    def _end(self, fds: list[int]) -> None:
        packets.close(fds)
        self.close()
        self._on_end()

    def _drop_unsent(self) -> None:
        for _, fds in self._unsent:
            packets.close(fds)
        self._unsent.clear()
