"""Packets between processes, and the loop that carries them."""

from __future__ import annotations

import os
import threading
import time
from typing import Any

import pytest

from lazyd.wire import packets
from lazyd.worker.link import Link
from lazyd.worker.loop import Loop


class Ends:
    """Two connected links in one loop."""

    def __init__(self) -> None:
        self.loop = Loop()
        a, b = packets.pair()
        self.heard: list[Any] = []
        self.fds: list[int] = []
        self.ended = 0
        self.a = Link(self.loop, a, self._hear, self._end)
        self.b = Link(self.loop, b, self._hear, self._end)

    def _hear(self, message: dict[str, Any], fds: list[int]) -> None:
        self.heard.append(message)
        self.fds += fds

    def _end(self) -> None:
        self.ended += 1

    def run_until(self, condition: Any) -> None:
        limit = self.loop.after(10, self.loop.stop)
        deadline = time.monotonic() + 10
        while not condition():
            assert time.monotonic() < deadline
            self.loop.step()
        limit.cancel()


@pytest.fixture
def ends() -> Ends:
    return Ends()


def test_messages_arrive_whole_and_in_order(ends: Ends) -> None:
    for i in range(100):
        ends.a.send({"n": i})
    ends.run_until(lambda: len(ends.heard) == 100)
    assert ends.heard == [{"n": i} for i in range(100)]


def test_descriptors_come_along(ends: Ends) -> None:
    reads, writes = os.pipe()
    ends.a.send({"with": "pipe"}, [writes])
    os.close(writes)
    ends.run_until(lambda: ends.fds)
    os.write(ends.fds[0], b"hello")
    assert os.read(reads, 5) == b"hello"
    assert not os.get_inheritable(ends.fds[0])


def test_what_is_too_long_for_a_packet_arrives_all_the_same(ends: Ends) -> None:
    reads, writes = os.pipe()
    message = {"text": "x" * 3_000_000}
    ends.a.send(message, [writes])
    ends.run_until(lambda: ends.heard)
    assert ends.heard == [message]
    assert len(ends.fds) == 1
    os.close(reads)


def test_a_reader_that_is_slow_loses_nothing(ends: Ends) -> None:
    """More than the socket holds is kept back until there is room."""
    for i in range(5000):
        ends.a.send({"n": i, "pad": "x" * 1000})
    ends.run_until(lambda: len(ends.heard) == 5000)
    assert [message["n"] for message in ends.heard] == list(range(5000))


def test_the_end_is_told_once(ends: Ends) -> None:
    ends.a.send({"last": True})
    ends.a.close()
    ends.run_until(lambda: ends.ended)
    assert ends.heard == [{"last": True}]
    ends.b.send({"to": "nobody"})
    ends.b.close()
    assert ends.ended == 1


def test_what_is_no_json_ends_the_link(ends: Ends) -> None:
    ends.a.socket.send(b"nonsense")
    ends.run_until(lambda: ends.ended)
    assert not ends.b.is_open


def test_a_released_link_goes_on_elsewhere(ends: Ends) -> None:
    import socket

    for i in range(1000):
        ends.a.send({"n": i, "pad": "x" * 1000})
    fd, unsent = ends.a.release()
    assert unsent
    again = Link(ends.loop, socket.socket(fileno=fd), lambda *_: None, lambda: None)
    again.resume(unsent)
    again.send({"n": 1000})
    ends.run_until(lambda: len(ends.heard) == 1001)
    assert [message["n"] for message in ends.heard] == list(range(1001))


def test_other_threads_can_call_into_the_loop() -> None:
    loop = Loop()
    here = threading.get_ident()
    seen: list[bool] = []

    def call() -> None:
        for _ in range(1000):
            loop.soon(lambda: seen.append(threading.get_ident() == here))
        loop.soon(loop.stop)

    thread = threading.Thread(target=call)
    thread.start()
    loop.run()
    thread.join()
    assert seen == [True] * 1000


def test_timers_fire_in_the_order_of_their_times_unless_cancelled() -> None:
    loop = Loop()
    fired: list[int] = []
    now = time.monotonic()
    for place in (3, 1, 2):
        timer = loop.at(now + place / 1000, lambda place=place: fired.append(place))  # type: ignore[misc]
        if place == 2:
            timer.cancel()
    loop.after(0.01, loop.stop)
    loop.run()
    assert fired == [1, 3]


def test_a_watch_that_a_callback_ended_is_not_called() -> None:
    loop = Loop()
    a, b = os.pipe()
    called: list[str] = []

    def read() -> None:
        called.append("read")
        loop.watch(b)

    loop.watch(b, write=lambda: called.append("write"))
    loop.watch(a, read=read)
    os.write(b, b"x")
    loop.step()
    loop.step() if not called else None
    loop.watch(a)
    loop.after(0, loop.stop)
    loop.run()
    assert "read" in called
    assert called.count("write") <= 1
