"""One connection as bytes that come and go, which tells at once when the other side has gone."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any, cast

MOST_BYTES = 256 * 1024
"""So much that nobody has read yet is taken in."""


class Stream(asyncio.Protocol):
    """What is read comes as it came."""

    def __init__(self) -> None:
        self.gone = asyncio.Event()
        """The other side sends no more, or is not there any more."""
        self._transport: asyncio.Transport | None = None
        self._come: bytearray = bytearray()
        self._changed = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        self._is_lost = False

    @classmethod
    async def connect(cls, host: str, port: int) -> Stream:
        """Raises `OSError`."""
        _, stream = await asyncio.get_running_loop().create_connection(cls, host, port)
        return stream

    async def read(self) -> bytes:
        """What has come, at least a byte; nothing at the end."""
        while not self._come and not self.gone.is_set():
            self._changed.clear()
            await self._changed.wait()
        data = bytes(self._come)
        self._come.clear()
        if self._transport is not None and not self._is_lost:
            self._transport.resume_reading()
        return data

    async def write(self, data: bytes) -> None:
        """Waits while the other side is far behind. Raises `ConnectionError` once it has gone."""
        if self._is_lost or self._transport is None:
            raise ConnectionResetError("the connection has ended")
        if data:
            self._transport.write(data)
        await self._writable.wait()
        if self._is_lost:
            raise ConnectionResetError("the connection has ended")

    async def linger(self, limit_s: float) -> None:
        """Sends no more, and throws away what comes until the other side has gone, or time is over."""
        if self._transport is None or self._transport.is_closing():
            return
        with contextlib.suppress(OSError, TimeoutError):
            self._transport.write_eof()
            async with asyncio.timeout(limit_s):
                while await self.read():
                    pass

    def close(self) -> None:
        """After what was written."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """At once, so that the other side sees that it is incomplete."""
        if self._transport is not None:
            self._transport.abort()

    # What the transport calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._come += data
        self._changed.set()
        if len(self._come) > MOST_BYTES and self._transport is not None:
            self._transport.pause_reading()

    def eof_received(self) -> bool:
        self._end()
        return True  # what is on its way out still goes

    def connection_lost(self, _error: Exception | None) -> None:
        self._is_lost = True
        self._writable.set()
        self._end()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def _end(self) -> None:
        self.gone.set()
        self._changed.set()


async def unless_gone(stream: Stream, work: asyncio.Task[Any], grace_s: Callable[[], float] = lambda: 0.0) -> bool:
    """Waits for work that is for nobody once a stream has gone: whether it was done. It is cancelled then; `grace_s`
    says how much later, as what came before the end may still be on its way."""
    gone = asyncio.create_task(stream.gone.wait())
    try:
        await asyncio.wait({work, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not work.done() and grace_s():
            await asyncio.wait({work}, timeout=grace_s())
        return work.done()
    finally:
        gone.cancel()
        if not work.done():
            work.cancel()
            await asyncio.wait({work})
