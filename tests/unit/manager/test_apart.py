"""Questions that may never be answered."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from lazyd.manager.apart import MOST_HANGING, Apart, NoAnswer

from .waiting import until


@pytest.fixture
def free() -> Iterator[threading.Event]:
    """What hangs goes on when this is set."""
    free = threading.Event()
    yield free
    free.set()


def fails() -> None:
    raise ValueError("damaged")


async def test_the_answer_or_what_is_wrong_comes_back() -> None:
    assert await Apart().ask("m", lambda: 5) == 5
    with pytest.raises(ValueError, match="damaged"):
        await Apart().ask("m", fails)


async def test_what_hangs_is_given_up_and_its_late_answer_is_nobodys(
    free: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lazyd.manager.apart.ANSWER_S", 0.05)
    unhandled: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: unhandled.append(context))
    apart = Apart()

    def hangs() -> None:
        free.wait(60)
        raise OSError("the disk is gone")

    with pytest.raises(NoAnswer, match="nothing came for"):
        await apart.ask("m", hangs)
    monkeypatch.setattr("lazyd.manager.apart.ANSWER_S", 30.0)
    assert await apart.ask("m", lambda: 5) == 5
    free.set()
    await until(lambda: not apart._hanging)
    assert unhandled == []


async def test_a_thing_that_hangs_takes_only_so_many_threads_until_it_answers(
    free: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lazyd.manager.apart.ANSWER_S", 0.01)
    apart = Apart()
    for _ in range(MOST_HANGING):
        with pytest.raises(NoAnswer):
            await apart.ask("m", lambda: free.wait(60))
    monkeypatch.setattr("lazyd.manager.apart.ANSWER_S", 30.0)
    with pytest.raises(NoAnswer, match="the last questions still wait"):
        await apart.ask("m", lambda: 5)
    assert await apart.ask("another", lambda: 5) == 5
    free.set()
    await until(lambda: not apart._hanging)
    assert await apart.ask("m", lambda: 5) == 5


async def test_who_does_not_wait_any_more_leaves_nothing_behind(free: threading.Event) -> None:
    apart = Apart()
    asked = asyncio.create_task(apart.ask("m", lambda: free.wait(60)))
    await asyncio.sleep(0)
    asked.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asked
    free.set()
    assert await apart.ask("m", lambda: 5) == 5
