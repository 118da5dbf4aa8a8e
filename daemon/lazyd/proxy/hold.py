"""Keeps a service in use, or lets go of it: a call of its worker's `hold` that lasts as long (docs/runtimes.md)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, cast

from ..errors import ProtocolError

if TYPE_CHECKING:
    from ..client.aio.client import AsyncClient


class Hold:
    """Of one service. It is loaded, or wakes, when it is taken."""

    def __init__(self, client: AsyncClient, model: str) -> None:
        self.model = model
        self._client = client
        self._call: AsyncIterator[Any] | None = None

    async def __aenter__(self) -> str:
        return await self.take()

    async def __aexit__(self, *_: object) -> None:
        await self.let_go()

    @property
    def is_taken(self) -> bool:
        return self._call is not None

    async def take(self) -> str:
        """Its URL, once it is ready. Raises `LazydError`."""
        call = self._call = self._client.pieces(self.model, "hold")
        try:
            said = await anext(call, None)
        except BaseException:
            await self.let_go()
            raise
        if not isinstance(said, dict) or not isinstance(said.get("url"), str):
            await self.let_go()
            raise ProtocolError(reason=f"{self.model} is no service: it has answered with something else than a URL")
        return cast("str", said["url"])

    async def let_go(self) -> None:
        """It may be freed from now on, unless it still works."""
        call, self._call = self._call, None
        if call is not None:
            await call.aclose()  # type: ignore[attr-defined]
