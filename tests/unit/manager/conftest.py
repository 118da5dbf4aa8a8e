"""What the tests of the manager's parts share."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator

import pytest

from .fake_host import FakeHost
from .half import Manager
from .waiting import until as until


@pytest.fixture
def directory() -> Iterator[str]:
    """A directory whose path is short enough for a socket's."""
    path = tempfile.mkdtemp(prefix="lz-", dir="/tmp")
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
async def host(directory: str) -> FakeHost:
    return FakeHost(directory)


@pytest.fixture
async def manager(directory: str) -> AsyncIterator[Manager]:
    manager = Manager(directory)
    yield manager
    await manager.background.stop()
