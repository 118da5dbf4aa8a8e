"""How a test waits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


async def until(condition: Callable[[], object], within_s: float = 20.0) -> None:
    """Lets the loop turn until something is so."""
    async with asyncio.timeout(within_s):
        while not condition():  # noqa: ASYNC110  # conditions of all kinds, and a deadline
            await asyncio.sleep(0.001)
