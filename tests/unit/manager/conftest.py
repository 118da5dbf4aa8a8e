"""What the tests of the manager's parts share."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Callable, Iterator

import pytest


@pytest.fixture
def directory() -> Iterator[str]:
    """A directory whose path is short enough for a socket's."""
    path = tempfile.mkdtemp(prefix="lz-", dir="/tmp")
    yield path
    shutil.rmtree(path, ignore_errors=True)


async def until(condition: Callable[[], object], within_s: float = 5.0) -> None:
    """Lets the loop turn until something is so."""
    async with asyncio.timeout(within_s):
        while not condition():  # noqa: ASYNC110  # conditions of all kinds, and a deadline
            await asyncio.sleep(0.001)
