"""What becomes of a connection that speaks another protocol, such as a websocket's: bytes both ways.

It may stay open for days and say nothing. So it keeps its service in use only while something passes, and for
`QUIET_S` after; pings of a websocket, which pass for ever, are nothing. A service that parks meanwhile keeps its
connections; one that is freed closes them, and so this ends.
"""

from __future__ import annotations

import asyncio

from ..errors import LazydError
from .hold import Hold
from .streams import Stream

QUIET_S = 5.0
_CONTROL = (0x89, 0x8A)
"""The first byte of a websocket's ping and pong."""
_MASKED = 0x80
_SHORT = 125
"""Such frames have at most so many bytes of their own."""


class Tunnel:
    """Between a client and a service, which is held when this begins and let go of at its end by the caller."""

    def __init__(self, client: Stream, service: Stream, hold: Hold, url: str, quiet_s: float = QUIET_S) -> None:
        self._client = client
        self._service = service
        self._hold = hold
        self._url = url
        self._quiet_s = quiet_s
        self._last = 0.0
        self._lock = asyncio.Lock()

    async def run(self, from_client: bytes, from_service: bytes) -> None:
        """Until either side ends it. The bytes have come already."""
        self._last = asyncio.get_running_loop().time()
        tasks = [
            asyncio.create_task(self._pump(self._client, self._service, from_client)),
            asyncio.create_task(self._pump(self._service, self._client, from_service)),
            asyncio.create_task(self._rest()),
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _pump(self, source: Stream, sink: Stream, data: bytes) -> None:
        while True:
            if data and not is_only_pings(data):
                await self._busy()
            if data:
                await sink.write(data)
            data = await source.read()
            if not data:
                return

    async def _busy(self) -> None:
        """Something passes. Raises `LazydError`, `ConnectionError` if the service is not there any more."""
        self._last = asyncio.get_running_loop().time()
        async with self._lock:
            if not self._hold.is_taken and await self._hold.take() != self._url:
                raise ConnectionResetError("the service was loaded anew")

    async def _rest(self) -> None:
        """Lets go of the service when nothing passes."""
        while True:
            quiet_s = asyncio.get_running_loop().time() - self._last
            if quiet_s < self._quiet_s:
                await asyncio.sleep(self._quiet_s - quiet_s)
                continue
            async with self._lock:
                await self._hold.let_go()
            await asyncio.sleep(self._quiet_s)


ENDS = (LazydError, OSError)
"""What ends a tunnel."""


def is_only_pings(data: bytes) -> bool:
    """Whether these bytes are whole pings and pongs of a websocket, and nothing else."""
    at = 0
    while at < len(data):
        if data[at] not in _CONTROL or at + 1 >= len(data):
            return False
        size = data[at + 1] & ~_MASKED
        if size > _SHORT:
            return False
        at += 2 + size + (4 if data[at + 1] & _MASKED else 0)
    return at == len(data) and at > 0
