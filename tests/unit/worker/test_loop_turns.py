"""Other threads ask the loop for something, and carry it out themselves while it sleeps."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from lazyd.worker.loop import Loop

LIMIT_S = 60.0


@pytest.fixture
def loop() -> Iterator[Loop]:
    loop = Loop()
    yield loop
    loop.close()


def started(loop: Loop) -> threading.Thread:
    """Its thread, which soon sleeps: nothing is to be done."""
    thread = threading.Thread(target=loop.run)
    thread.start()
    return thread


def until_asleep(loop: Loop) -> None:
    """Until it has carried out all that it was asked for. It may be a moment before it sleeps."""
    heard = threading.Event()
    loop.soon(heard.set)
    assert heard.wait(LIMIT_S)


def stopped(loop: Loop, thread: threading.Thread) -> None:
    loop.soon(loop.stop)
    thread.join(LIMIT_S)
    assert not thread.is_alive()


def test_while_the_loop_sleeps_who_asks_does_it(loop: Loop) -> None:
    thread = started(loop)
    until_asleep(loop)
    done_by: list[int] = []
    give_up = time.monotonic() + LIMIT_S
    while threading.get_ident() not in done_by and time.monotonic() < give_up:
        asked = len(done_by)
        loop.at_once(lambda: done_by.append(threading.get_ident()))
        while len(done_by) == asked and time.monotonic() < give_up:
            time.sleep(0)
    assert set(done_by) <= {threading.get_ident(), thread.ident}
    assert threading.get_ident() in done_by
    stopped(loop, thread)


def test_while_the_loop_is_busy_it_does_it_when_its_turn_comes(loop: Loop) -> None:
    thread = started(loop)
    inside, go, done = threading.Event(), threading.Event(), threading.Event()
    done_by: list[int] = []

    def callback() -> None:
        inside.set()
        assert go.wait(LIMIT_S)

    loop.soon(callback)
    assert inside.wait(LIMIT_S)
    loop.at_once(lambda: (done_by.append(threading.get_ident()), done.set()))  # type: ignore[func-returns-value]
    assert done_by == []
    go.set()
    assert done.wait(LIMIT_S)
    assert done_by == [thread.ident]
    stopped(loop, thread)


def test_what_was_asked_for_before_comes_before(loop: Loop) -> None:
    """The loop does not run yet, as it may not have come to what it was asked for."""
    order: list[str] = []
    loop.soon(lambda: order.append("first"))
    loop.at_once(lambda: order.append("second"))
    assert order == ["first", "second"]


def test_a_sleeping_loop_learns_of_an_earlier_time(loop: Loop) -> None:
    thread = started(loop)
    until_asleep(loop)
    rang = threading.Event()
    loop.at_once(lambda: loop.after(0.01, rang.set) and None)
    assert rang.wait(LIMIT_S)
    stopped(loop, thread)


def test_what_a_callback_asks_for_is_done_although_the_loop_sleeps(loop: Loop) -> None:
    thread = started(loop)
    until_asleep(loop)
    done = threading.Event()
    loop.at_once(lambda: loop.soon(done.set))
    assert done.wait(LIMIT_S)
    stopped(loop, thread)


def test_callbacks_of_many_threads_never_meet(loop: Loop) -> None:
    thread = started(loop)
    inside, most, count = 0, 0, 0

    def callback() -> None:
        nonlocal inside, most, count
        inside += 1
        most = max(most, inside)
        time.sleep(0)
        count += 1
        inside -= 1

    def ask() -> None:
        for _ in range(200):
            loop.at_once(callback)
            loop.soon(callback)

    asking = [threading.Thread(target=ask) for _ in range(3)]
    for each in asking:
        each.start()
    for each in asking:
        each.join(LIMIT_S)
    until_asleep(loop)
    assert (most, count) == (1, 1200)
    stopped(loop, thread)


def test_a_mistake_ends_the_loop_and_not_who_asked(loop: Loop) -> None:
    loop.at_once(lambda: 1 // 0)  # type: ignore[arg-type, return-value]
    with pytest.raises(ZeroDivisionError):
        loop.run()
