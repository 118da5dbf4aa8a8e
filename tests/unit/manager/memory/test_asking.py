"""Questions that may take for ever to answer."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from lazyd.manager.memory import asking
from lazyd.manager.memory.asking import Repeated

from ..conftest import until


class Oracle:
    """Answers with the number of the question, unless a test has it do something else."""

    def __init__(self) -> None:
        self.asked: list[float] = []
        self.heard: list[int] = []
        self.notes: list[tuple[str, str]] = []
        self.pause_s = 0.0
        self.free = threading.Event()
        self.free.set()
        self.error: Exception | None = None
        self.repeated: Repeated[int] = Repeated(
            "oracle",
            lambda: self.answer,
            self.heard.append,
            lambda: self.pause_s,
            lambda *note: self.notes.append(note),
        )

    def answer(self) -> int:
        self.asked.append(time.monotonic())
        self.free.wait()
        if self.error is not None:
            raise self.error
        return len(self.asked)


@pytest.fixture
async def oracles() -> Iterator[Callable[[], Oracle]]:
    made: list[Oracle] = []

    def make() -> Oracle:
        made.append(Oracle())
        return made[-1]

    yield make
    for oracle in made:
        oracle.repeated.close()
        oracle.free.set()


async def test_a_question_is_asked_again_after_each_answer(oracles: Callable[[], Oracle]) -> None:
    oracle = oracles()
    oracle.repeated.now()
    await until(lambda: oracle.heard[:3] == [1, 2, 3])
    assert oracle.notes == []


async def test_between_two_questions_it_rests_unless_somebody_wants_an_answer_now(
    oracles: Callable[[], Oracle],
) -> None:
    oracle = oracles()
    oracle.pause_s = 1000.0
    oracle.repeated.now()
    await until(lambda: oracle.heard == [1])
    oracle.repeated.now()
    await until(lambda: oracle.heard == [1, 2])


async def test_an_answer_that_is_wanted_now_is_not_that_to_an_earlier_question(oracles: Callable[[], Oracle]) -> None:
    oracle = oracles()
    oracle.pause_s = 1000.0
    oracle.free.clear()
    oracle.repeated.now()
    await until(lambda: oracle.asked)
    wanted = time.monotonic()
    oracle.repeated.now()
    oracle.repeated.now()
    oracle.free.set()
    await until(lambda: oracle.heard == [1, 2])
    assert oracle.asked[1] > wanted


async def test_a_pause_that_has_become_too_long_is_cut_short(oracles: Callable[[], Oracle]) -> None:
    oracle = oracles()
    oracle.pause_s = 1000.0
    oracle.repeated.now()
    await until(lambda: oracle.heard == [1])
    oracle.repeated.sooner()
    oracle.pause_s = 0.01
    oracle.repeated.sooner()
    await until(lambda: len(oracle.heard) > 1)


async def test_one_that_hangs_is_named_once_and_once_when_it_is_back_and_stops_no_other(
    oracles: Callable[[], Oracle], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "NO_ANSWER_S", 0.05)
    hangs, other = oracles(), oracles()
    hangs.free.clear()
    hangs.repeated.now()
    other.repeated.now()
    await until(lambda: hangs.notes)
    assert hangs.notes == [("silent", "no answer for 0.05 s")]
    so_far = len(other.heard)
    await until(lambda: len(other.heard) > so_far + 10)
    assert hangs.repeated.is_silent
    hangs.free.set()
    await until(lambda: len(hangs.heard) > 3)
    assert [kind for kind, _ in hangs.notes] == ["silent", "answers again"]
    assert not hangs.repeated.is_silent
    assert other.notes == []


@pytest.mark.parametrize("error", [OSError("the wire is cut"), ValueError("a bug")])
async def test_one_that_fails_is_named_once_and_asked_again_after_a_while(
    oracles: Callable[[], Oracle], monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    monkeypatch.setattr(asking, "RETRY_S", 0.02)
    oracle = oracles()
    oracle.error = error
    oracle.repeated.now()
    await until(lambda: len(oracle.asked) > 3)
    assert all(later - earlier >= 0.02 for earlier, later in zip(oracle.asked, oracle.asked[1:], strict=False))
    assert oracle.heard == []
    oracle.error = None
    await until(lambda: len(oracle.heard) > 1)
    (first, reason), (last, _) = oracle.notes
    assert (first, last) == ("silent", "answers again")
    assert str(error) in reason


async def test_what_comes_first_is_done_before_each_question() -> None:
    done: list[str] = []

    async def first() -> None:
        await asyncio.sleep(0)
        done.append("first")

    repeated: Repeated[None] = Repeated(
        "asked", lambda: lambda: done.append("question"), lambda _: None, lambda: 0.0, lambda *_: None, first
    )
    repeated.now()
    await until(lambda: len(done) > 4)
    repeated.close()
    assert done[:4] == ["first", "question", "first", "question"]


async def test_after_it_was_closed_nothing_is_heard(oracles: Callable[[], Oracle]) -> None:
    oracle = oracles()
    oracle.free.clear()
    oracle.repeated.now()
    await until(lambda: oracle.asked)
    oracle.repeated.close()
    oracle.free.set()
    oracle.repeated.now()
    oracle.repeated.sooner()
    next_one = oracles()
    next_one.repeated.now()
    await until(lambda: next_one.heard)
    assert (oracle.heard, len(oracle.asked)) == ([], 1)


def test_a_question_that_never_ends_does_not_keep_the_process() -> None:
    program = (
        "import asyncio, threading\n"
        "from lazyd.manager.memory.asking import Repeated\n"
        "async def main():\n"
        "    Repeated('x', lambda: threading.Event().wait, print, lambda: 0, print).now()\n"
        "    await asyncio.sleep(0.05)\n"
        "asyncio.run(main())\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=30)
