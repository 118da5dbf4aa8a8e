"""Frames of a worker's data socket.

A frame is a 4-byte big-endian length, a JSON header of that length, and the raw buffers whose
sizes the header announces as ``"buffers": [n, …]``. `frame_parts` makes one; `FrameReader` takes
them from a stream. Neither copies a large buffer: the parts are the caller's memory, for
``sendmsg`` or ``writelines``, and the reader hands out the memory that is to be received into.
"""

from __future__ import annotations

import mmap
import socket
import struct
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import BadFrame, TooLarge
from .varlink import dumps, loads

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from .values import Buffer

MAX_HEADER_BYTES = 16 * 1024 * 1024
"""The largest header that is accepted."""
MAX_BUFFERS_BYTES = 16 * 1024 * 1024 * 1024
"""All buffers of one frame together."""
_LENGTH = struct.Struct(">I")
_STAGING_BYTES = 64 * 1024
_LARGE_BYTES = 4 * 1024 * 1024
"""From here on mapped memory is quicker than the C library's, measured."""


SEND_BYTES = 1024 * 1024
"""What a data socket asks the kernel to hold of what it sends, in place of 208 KiB: an array of a megabyte is then
one system call, and the reader need not keep pace with it (measured: a third of the time that it took)."""


class Frame(NamedTuple):
    """One frame. The buffers belong to whoever takes it; they are writable."""

    header: dict[str, Any]
    buffers: list[Buffer]


def frame_parts(header: Mapping[str, Any], buffers: Sequence[Buffer] = ()) -> list[Buffer]:
    """The frame as pieces to be written one after the other.

    `buffers` are flat (`lazyd.wire.values.pack` makes them so) and must not change until they are
    written. Raises `NotSendable` for a header that is not JSON, `TooLarge`.
    """
    sizes = [len(data) for data in buffers]
    head = dumps({**header, "buffers": sizes} if sizes else header)
    if len(head) > MAX_HEADER_BYTES:
        raise TooLarge(
            reason=f"its text has {len(head)} bytes, at most {MAX_HEADER_BYTES} are allowed; send bulk as arrays"
        )
    if sum(sizes) > MAX_BUFFERS_BYTES:
        raise TooLarge(reason=f"its arrays have {sum(sizes)} bytes, at most {MAX_BUFFERS_BYTES} are allowed")
    return [_LENGTH.pack(len(head)) + head, *(data for data in buffers if len(data))]


def roomy(sock: socket.socket) -> None:
    """Makes room for `SEND_BYTES` in a data socket, or as much as the machine allows (``net.core.wmem_max``)."""
    with suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SEND_BYTES)


class FrameReader:
    """Takes frames from a stream, reading ahead for small ones and copying no large buffer.

    Receive into `space()`, then tell `received(n)` how much came (`socket.recv_into`, or
    asyncio's ``BufferedProtocol``, which has the same two steps). Or `feed` it bytes. After an
    exception the stream has no recognisable boundaries any more: end the connection.
    """

    def __init__(self, max_header: int = MAX_HEADER_BYTES, max_buffers: int = MAX_BUFFERS_BYTES) -> None:
        self._staging = memoryview(bytearray(_STAGING_BYTES))
        self._done: list[Frame] = []
        self._targets = _assemble(self._done, max_header, max_buffers)
        self._target = next(self._targets)
        self._filled = 0

    def next_size(self) -> int:
        """Bytes that are missing before anything more can happen; at least 1."""
        return len(self._target) - self._filled

    def space(self) -> memoryview:
        """Where the next bytes are to be received; never empty, valid until `received`."""
        return self._target[self._filled :] if self.next_size() >= _STAGING_BYTES else self._staging

    def received(self, count: int) -> list[Frame]:
        """`count` bytes are in `space()` now: the frames that are complete with them.

        Raises `NotJson`, `BadFrame`, `TooLarge`.
        """
        if self.next_size() >= _STAGING_BYTES:
            self._filled += count
            self._advance()
        else:
            used = 0
            while used < count:
                step = min(self.next_size(), count - used)
                self._target[self._filled : self._filled + step] = self._staging[used : used + step]
                self._filled += step
                used += step
                self._advance()
        done = self._done[:]
        self._done.clear()
        return done

    def feed(self, data: Buffer) -> list[Frame]:
        """The frames that are complete with `data`, which is copied."""
        frames: list[Frame] = []
        rest = memoryview(data)
        while len(rest):
            space = self.space()
            count = min(len(space), len(rest))
            space[:count] = rest[:count]
            frames += self.received(count)
            rest = rest[count:]
        return frames

    def _advance(self) -> None:
        if self._filled == len(self._target):
            self._target = next(self._targets)
            self._filled = 0


def _assemble(done: list[Frame], max_header: int, max_buffers: int) -> Iterator[memoryview]:
    """The stream in the order it is read: yields what is to be filled next, and puts frames into `done`.

    While it waits for the next frame it keeps nothing of the last one, which may be a gigabyte.
    """
    length = bytearray(_LENGTH.size)
    while True:
        yield memoryview(length)
        (size,) = _LENGTH.unpack(length)
        if size > max_header:
            raise TooLarge(reason=f"a header of {size} bytes was announced, at most {max_header} are allowed")
        head = bytearray(size)
        if size:
            yield memoryview(head)
        header = loads(head)
        buffers: list[Buffer] = []
        for size in _sizes(header.pop("buffers", []), max_buffers):
            buffers.append(_new_buffer(size))
            if size:
                yield memoryview(buffers[-1])
        done.append(Frame(header, buffers))
        del head, header, buffers


def _sizes(sizes: Any, max_buffers: int) -> list[int]:
    if type(sizes) is not list or not all(type(size) is int and size >= 0 for size in sizes):
        raise BadFrame(reason="the sizes of a frame's buffers are not whole numbers")
    if sum(sizes) > max_buffers:
        raise TooLarge(reason=f"buffers of {sum(sizes)} bytes were announced, {max_buffers} are allowed")
    return sizes


def _new_buffer(size: int) -> Buffer:
    """Memory that is to be filled.

    Large memory is mapped: then only what really arrives is ever touched, and touching it in huge
    pages takes an eighth of the time that the C library's fresh memory takes (at 50 MB: 7 ms for 59).
    Of smaller memory numpy's, where there is numpy, needs not be zeroed first.
    """
    try:
        if size < _LARGE_BYTES:
            numpy = sys.modules.get("numpy") if size >= _STAGING_BYTES else None
            return bytearray(size) if numpy is None else numpy.empty(size, numpy.uint8).data
        mapped = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except (MemoryError, OSError):
        raise TooLarge(reason=f"there is no memory for a buffer of {size} bytes") from None
    with suppress(AttributeError, OSError):  # a system without huge pages
        mapped.madvise(mmap.MADV_HUGEPAGE)
    return memoryview(mapped)
