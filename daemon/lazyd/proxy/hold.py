"""Keeps a service in use, or lets go of it, as often as one likes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ..errors import WorkerDied
from .streams import Stream

if TYPE_CHECKING:
    from ..client.aio.client import AsyncClient
    from ..client.aio.proxy import AsyncLease


TRIES = 2
AGAIN_S = 0.2
"""A service that dies while it is asked for is loaded anew after so long: the request has not reached it yet."""


class Hold:
    """Of one service. It is loaded, or wakes, when it is taken. Let go of at the end of an ``async with`` block."""

    def __init__(self, client: AsyncClient, model: str) -> None:
        self.model = model
        self._client = client
        self._lease: AsyncLease | None = None

    async def __aenter__(self) -> Hold:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.let_go()

    @property
    def is_taken(self) -> bool:
        return self._lease is not None

    async def connect(self) -> tuple[Stream, str]:
        """Takes it: a connection to it, and its URL. Raises `LazydError`, and `OSError` if it cannot be reached."""
        for _ in range(TRIES - 1):
            try:
                return await self._connect()
            except (WorkerDied, OSError):
                await self.let_go()
                await asyncio.sleep(AGAIN_S)
        return await self._connect()

    async def _connect(self) -> tuple[Stream, str]:
        url = await self.take()
        host, _, port = url.removeprefix("http://").rpartition(":")
        return await Stream.connect(host, int(port)), url

    async def take(self) -> str:
        """Its URL, once it is ready. Raises `LazydError`."""
        lease = self._client.model(self.model).lease()
        await lease.__aenter__()
        self._lease = lease
        return lease.url

    async def let_go(self) -> None:
        """It may be freed from now on, unless it still works."""
        lease, self._lease = self._lease, None
        if lease is not None:
            await lease.__aexit__()
