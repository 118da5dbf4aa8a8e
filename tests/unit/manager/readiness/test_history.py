"""Which models were used when: kept, bounded, and told in pages."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lazyd.core.effects import Used
from lazyd.manager.readiness import history
from lazyd.manager.readiness.history import History
from lazyd.manager.readiness.uses import Use, Uses
from lazyd.manager.state import clerk
from lazyd.manager.tasks import Background


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "history.db")


@pytest.fixture
async def kept(path: str) -> AsyncIterator[History]:
    background = Background()
    yield History(path, lambda: 100, background, lambda reason: pytest.fail(reason))
    await background.stop()
    assert not background.deaths


async def every(kept: History) -> list[Use]:
    return [use async for page in kept.pages() for use in page]


async def test_uses_are_told_by_the_time_of_day_and_in_pages(kept: History, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "PAGE", 3)
    for number in range(10):
        kept.used(Used(model=f"m{number}", began=time.monotonic() - 60, busy_s=0.5))
    await kept.settled()
    uses = await every(kept)
    assert [use.model for use in uses] == [f"m{number}" for number in range(10)]
    assert uses[0].began == pytest.approx(time.time() - 60, abs=5.0)


async def test_what_is_not_written_yet_is_told_too(kept: History, path: str) -> None:
    kept.used(Used(model="a", began=0.0, busy_s=0.5))
    await kept.settled()
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    kept.used(Used(model="b", began=0.0, busy_s=0.5))
    assert [use.model for use in await every(kept)] == ["a", "b"]
    other.execute("ROLLBACK")


async def test_a_disk_that_does_not_answer_is_an_error_and_no_empty_history(
    kept: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept.used(Used(model="a", began=0.0, busy_s=0.5))
    await kept.settled()
    monkeypatch.setattr(clerk, "READ_S", 0.05)
    answers = threading.Event()
    monkeypatch.setattr(Uses, "page", lambda *_: answers.wait(60))
    try:
        for _ in range(2):  # the second one does not even ask
            with pytest.raises(TimeoutError, match="the disk with the history does not answer"):
                await every(kept)
    finally:
        answers.set()


async def test_without_a_file_there_are_none_and_none_is_made(kept: History, tmp_path: Path) -> None:
    assert await every(kept) == []
    assert os.listdir(tmp_path) == []


def test_only_the_last_are_kept(path: str) -> None:
    file = Uses(path, lambda: 5)
    for number in range(4):
        file.learn([Use(float(number), "a", 0.0), Use(number + 0.5, "b", 0.0)])
    assert [use.began for _, use in file.page(0, 100)] == [1.5, 2.0, 2.5, 3.0, 3.5]


def test_a_damaged_history_begins_afresh(path: str) -> None:
    with open(path, "wb") as file:
        file.write(b"no database at all" * 100)
    damaged = Uses(path, lambda: 5)
    assert damaged.page(0, 10) == []
    assert damaged.problem is not None
    assert "the history begins afresh" in damaged.problem
    damaged.learn([Use(1.0, "a", 0.0)])
    assert len(Uses(path, lambda: 5).page(0, 10)) == 1


def test_a_row_that_makes_no_sense_is_left_out(path: str) -> None:
    Uses(path, lambda: 5).learn([Use(1.0, "a", 0.0), Use(2.0, "b", 0.0)])
    with sqlite3.connect(path) as other:
        other.execute("UPDATE uses SET began = 'soon' WHERE model = 'a'")
    assert [use.model for _, use in Uses(path, lambda: 5).page(0, 10)] == ["b"]
