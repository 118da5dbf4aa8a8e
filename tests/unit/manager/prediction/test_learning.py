"""What was learned, asked and told from the loop."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lazyd.core.needs import Need
from lazyd.manager.prediction import learned
from lazyd.manager.prediction.learning import Learning
from lazyd.manager.prediction.lessons import DryRun, Known, Life, Peak, Subject
from lazyd.manager.tasks import Background

from ..waiting import until

GEMMA = Subject("gemma", "files", "llama_cpp")


class Notes(list[str]):
    """What was told to the journal."""


@pytest.fixture
def notes() -> Notes:
    return Notes()


@pytest.fixture
async def learning(tmp_path: Path, notes: Notes) -> AsyncIterator[Learning]:
    background = Background()
    learning = Learning(str(tmp_path / "learned.db"), background, notes.append)
    yield learning
    await background.stop()
    assert not background.deaths


def life(ram: int) -> Life:
    return Life(GEMMA, "ram", Need(ram), None)


async def test_what_was_learned_a_moment_ago_is_known(learning: Learning) -> None:
    for ram in (1, 2, 3):
        learning.learn(life(ram))
    known = await learning.known(GEMMA)
    assert known.ways["ram"].peak == Need(3)


async def test_lessons_that_gather_during_a_write_are_written_together(
    learning: Learning, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_go_on, begun = threading.Event(), threading.Event()
    batches: list[int] = []
    write = learned.Store.learn

    def slow(self: learned.Store, lessons: list[Life]) -> bool:
        batches.append(len(lessons))
        begun.set()
        assert may_go_on.wait(10)
        return write(self, lessons)

    monkeypatch.setattr(learned.Store, "learn", slow)
    learning.learn(life(1))
    await until(begun.is_set)
    for ram in range(2, 7):
        learning.learn(life(ram))
    may_go_on.set()
    await learning.settled()
    assert batches == [1, 5]
    assert (await learning.known(GEMMA)).ways["ram"].peak == Need(6)


async def test_a_disk_that_does_not_answer_holds_nobody_up_for_long(
    learning: Learning, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lazyd.manager.state.clerk.READ_S", 0.05)
    may_go_on = threading.Event()
    asked: list[Subject] = []

    def hangs(_: learned.Store, subject: Subject) -> Known:
        asked.append(subject)
        may_go_on.wait(10)
        return Known(factors={"ram": 1.0})

    monkeypatch.setattr(learned.Store, "known", hangs)
    assert await learning.known(GEMMA) == Known()
    assert await learning.known(GEMMA) == Known()
    assert len(asked) == 1  # it is not asked again until it answers
    may_go_on.set()
    async with asyncio.timeout(10):
        while await learning.known(GEMMA) == Known():  # noqa: ASYNC110  # nothing tells that it has answered
            await asyncio.sleep(0.001)


async def test_what_another_process_keeps_from_being_written_is_written_later(
    learning: Learning, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lazyd.manager.state.clerk.AGAIN_S", 0.001)
    answers = iter([False, False, True])
    written: list[list[Life]] = []

    def busy(_: learned.Store, lessons: list[Life]) -> bool:
        written.append(list(lessons))
        return next(answers)

    monkeypatch.setattr(learned.Store, "learn", busy)
    learning.learn(life(1))
    await learning.settled()
    assert written == [[life(1)]] * 3


async def test_who_asks_does_not_wait_for_what_is_being_written(
    learning: Learning, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process writes: it may be read all the while."""
    learning.learn(life(1000))
    await learning.settled()
    monkeypatch.setattr("lazyd.manager.state.clerk.AGAIN_S", 60.0)
    monkeypatch.setattr("lazyd.manager.state.clerk.READ_S", 60.0)
    other = sqlite3.connect(tmp_path / "learned.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    for ram in (2000, 1000):
        learning.learn(life(ram))
    learning.learn(DryRun(GEMMA, {"source": "dry run"}))
    learning.learn(Life(Subject("other", "files", "llama_cpp"), "ram", Need(9), None))
    known = await learning.known(GEMMA)
    assert known.ways == {"ram": Peak(Need(1900))}
    assert known.dry_run == {"source": "dry run"}
    assert not learning.all_written.is_set()
    other.execute("ROLLBACK")


async def test_each_lesson_counts_once_whether_it_is_written_yet_or_not(
    learning: Learning, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_go_on, begun = threading.Event(), threading.Event()
    write = learned.Store.learn

    def slow(self: learned.Store, lessons: list[Life]) -> bool:
        begun.set()
        assert may_go_on.wait(30)
        return write(self, lessons)

    learning.learn(life(1000))
    await learning.settled()
    monkeypatch.setattr(learned.Store, "learn", slow)
    learning.learn(life(0))
    await until(begun.is_set)
    learning.learn(life(0))
    asked = [asyncio.ensure_future(learning.known(GEMMA)) for _ in range(3)]  # before the write has ended
    await asyncio.sleep(0)
    may_go_on.set()
    answers = [(await known).ways["ram"].peak for known in asked]
    await learning.settled()
    assert [*answers, (await learning.known(GEMMA)).ways["ram"].peak] == [Need(810)] * 4


async def test_what_was_learned_a_moment_ago_is_known_though_the_disk_does_not_answer(
    learning: Learning, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lazyd.manager.state.clerk.READ_S", 0.05)
    may_go_on = threading.Event()
    monkeypatch.setattr(learned.Store, "learn", lambda *_: may_go_on.wait(30))
    learning.learn(life(5))
    for _ in range(2):
        assert (await learning.known(GEMMA)).ways == {"ram": Peak(Need(5))}
    may_go_on.set()
    await learning.settled()


async def test_what_waits_to_be_written_is_bounded(learning: Learning, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lazyd.manager.state.clerk.AGAIN_S", 0.001)
    monkeypatch.setattr("lazyd.manager.state.clerk.MOST_UNWRITTEN", 3)
    is_free = threading.Event()
    written: list[list[Life]] = []

    def write(_: learned.Store, lessons: list[Life]) -> bool:
        written.append(list(lessons))
        return is_free.is_set()

    monkeypatch.setattr(learned.Store, "learn", write)
    for ram in range(10):
        learning.learn(life(ram))
    await until(lambda: bool(written))
    is_free.set()
    await learning.settled()
    assert written[-1] == [life(7), life(8), life(9)]


async def test_what_goes_wrong_is_told_once_and_stays_a_problem(
    learning: Learning, notes: Notes, tmp_path: Path
) -> None:
    (tmp_path / "learned.db").write_bytes(b"nonsense" * 100)
    assert learning.problems == []
    for _ in range(2):
        assert await learning.known(GEMMA) == Known()
    assert len(notes) == 1
    assert "was damaged" in notes[0]
    assert learning.problems == list(notes)
