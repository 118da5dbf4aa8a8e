"""A reservation that a program holds while it works in an ``async with`` block."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from .driver import Driver

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from ...errors import LazydError
    from ..reserving import Reserving


class AsyncReservation:
    """Memory of a device that is this program's as long as the block lasts.

    Entering waits for it and raises what the daemon answers. A task claims it again when the daemon
    was restarted; if that fails the program goes on, `lost` says why, and `on_lost` is told of it.
    """

    def __init__(self, rules: Reserving, timeout: float | None, on_lost: Callable[[LazydError], object] | None) -> None:
        self._rules = rules
        self._timeout = timeout
        self._on_lost = on_lost
        self._driver = Driver(rules.requests.socket)
        self._keeper: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return repr(self._rules)

    async def __aenter__(self) -> AsyncReservation:
        await self._driver.run(self._rules.begin(self._timeout))
        self._keeper = asyncio.create_task(self._keep(), name="lazyd reservation")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def id(self) -> str:
        """Its name in ``lazyctl status``; empty before it is held."""
        return self._rules.id

    @property
    def uuid(self) -> str | None:
        """Of the GPU, for ``CUDA_VISIBLE_DEVICES``; None: it is of RAM, or not held yet."""
        return self._rules.uuid

    @property
    def lost(self) -> LazydError | None:
        """Why it is not held any more, although nobody has ended it."""
        return self._rules.lost

    async def close(self) -> None:
        """Gives the memory back. Doing it twice does no harm."""
        self._rules.close()
        self._driver.wake()
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            keeper.cancel()
            await asyncio.wait([keeper])

    async def _keep(self) -> None:
        await self._driver.run(self._rules.keep())
        if self._rules.lost is not None and self._on_lost is not None:
            self._on_lost(self._rules.lost)
