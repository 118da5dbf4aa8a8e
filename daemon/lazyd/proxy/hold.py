"""Keeps a service in use, or lets go of it, as often as one likes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..client.aio.client import AsyncClient
    from ..client.aio.proxy import AsyncLease


class Hold:
    """Of one service. It is loaded, or wakes, when it is taken."""

    def __init__(self, client: AsyncClient, model: str) -> None:
        self.model = model
        self._client = client
        self._lease: AsyncLease | None = None

    async def __aenter__(self) -> str:
        return await self.take()

    async def __aexit__(self, *_: object) -> None:
        await self.let_go()

    @property
    def is_taken(self) -> bool:
        return self._lease is not None

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
