"""The manager and the process that fetches: it is started, it does not start, it does not answer."""

from __future__ import annotations

import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from lazyd import places
from lazyd.manager.fetching import fetcher
from lazyd.manager.fetching.fetcher import Fetcher, NoFetcher

REMOVE = {"do": "remove", "keys": [], "kept": []}


@pytest.fixture
def root() -> Iterator[Path]:
    """A short path: a socket is in it."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "run").mkdir()
        (Path(folder) / "state").mkdir()
        yield Path(folder)


def made(root: Path) -> Fetcher:
    return Fetcher(str(root / "run"), str(root / "state"), starts=True)


async def test_one_that_cannot_work_is_started_once_and_says_why(root: Path) -> None:
    (root / "state" / "fetched").write_text("no folder")
    with pytest.raises(NoFetcher, match=r"ends at once: lazyd-fetch: .* cannot be written to: File exists"):
        async with made(root).ask(REMOVE):
            pass
    with open(places.fetch_log(str(root / "run"))) as log:  # noqa: ASYNC230
        assert len(log.readlines()) == 1


async def test_one_that_hangs_is_not_waited_for_without_an_end(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = made(root)
    async with one.ask(REMOVE) as conversation:
        assert await conversation.hear(60) == {"on": "removed", "bytes": 0}
    assert one._process is not None
    os.kill(one._process.pid, signal.SIGSTOP)
    monkeypatch.setattr(fetcher, "START_S", 0.3)
    try:
        with pytest.raises(NoFetcher, match="has not answered for"):
            async with one.ask(REMOVE):
                pass
    finally:
        os.kill(one._process.pid, signal.SIGCONT)
    await one.quit()
    assert one._process.wait(60) == 0
