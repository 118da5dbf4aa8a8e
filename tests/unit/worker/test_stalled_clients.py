"""A client that stops reading in the middle of an answer."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from lazyd.wire.frames import frame_parts
from lazyd.worker import connection, outbox
from lazyd.worker.calls import Call
from lazyd.worker.connection import Connection, State
from lazyd.worker.loop import Timer
from lazyd.worker.records import Lease

PIECE = b"x" * 100_000


class Stage:
    """A loop whose time is the test's, and the worker's decisions."""

    def __init__(self, clock: SimpleNamespace) -> None:
        self.clock = clock
        self.timers: list[Timer] = []
        self.read: Callable[[], None] | None = None
        self.write: Callable[[], None] | None = None
        self.calls: list[Call] = []
        self.how_ended: list[bool] = []
        ours, self.client = socket.socketpair()
        self.client.setblocking(False)
        self.connection = Connection(self, ours, self)  # type: ignore[arg-type]
        for header in ({"v": 1, "token": "t"}, {"id": 1, "method": "m", "stream": True}):
            for part in frame_parts(header):
                self.client.send(part)
        assert self.read is not None
        self.read()
        self.take()

    # The loop.

    def watch(self, _: Any, *, read: Callable[[], None] | None = None, write: Callable[[], None] | None = None) -> None:
        self.read, self.write = read, write

    def at_once(self, callback: Callable[[], None]) -> None:
        callback()

    def after(self, delay_s: float, callback: Callable[[], None]) -> Timer:
        timer = Timer(self.clock.now + delay_s, callback)
        self.timers.append(timer)
        return timer

    # The worker.

    def present(self, token: str, client: Connection) -> Lease:
        return Lease(
            id="l",
            token=token,
            model="gemma",
            holder=0,
            granted=self.clock.now,
            hold_until=0,
            parent=None,
            connection=client,
        )

    def admit(self, _: Lease) -> bool:
        return True

    def submit(self, call: Call) -> None:
        assert call.claim()
        self.calls.append(call)

    def ended(self, _: Call, *, ok: bool) -> None:
        self.how_ended.append(ok)

    def disconnected(self, _: Connection) -> None:
        pass

    # The test.

    def pass_time(self, seconds: float) -> None:
        end = self.clock.now + seconds
        while due := [timer for timer in self.timers if timer.when <= end]:
            timer = min(due, key=lambda each: each.when)
            self.timers.remove(timer)
            self.clock.now = timer.when
            if timer.callback is not None:
                timer.callback()
        self.clock.now = end

    def fill(self) -> None:
        """Answers until the client has not taken all."""
        (call,) = self.calls
        while self.write is None:
            self.connection.put_piece(call, {"id": 1, "result": {"$bytes": 0}}, [PIECE])
            self.pass_time(connection.HELD_S)

    def take(self) -> int:
        """The client reads what is there; how much that is."""
        with contextlib.suppress(BlockingIOError):
            return len(self.client.recv(1 << 20))
        return 0


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    clock = SimpleNamespace(now=1000.0, monotonic=lambda: clock.now)
    monkeypatch.setattr(connection, "time", clock)
    monkeypatch.setattr(outbox, "time", clock)
    monkeypatch.setattr(outbox, "STREAM_BACKLOG", 1 << 40)  # this thread plays both parts, and may not wait
    stage = Stage(clock)
    yield stage
    stage.connection.drop()
    stage.client.close()


def test_a_client_that_stops_reading_is_dropped_and_its_call_cancelled(stage: Stage) -> None:
    stage.fill()
    (call,) = stage.calls
    stage.pass_time(connection.STALLED_S - 1)
    assert stage.connection.state is State.OPEN
    stage.pass_time(2)
    assert stage.connection.state is State.CLOSED
    assert call.cancelled()
    call.error(call.cancelled_error())  # as its thread does
    assert stage.how_ended == [False]


def test_a_client_that_reads_slowly_is_served_as_long_as_it_reads(stage: Stage) -> None:
    stage.fill()
    for _ in range(10):
        stage.pass_time(connection.STALLED_S - 1)
        assert stage.take()
        if stage.write is not None:
            stage.write()
        stage.fill()
    assert stage.connection.state is State.OPEN


def test_a_client_that_has_read_all_may_be_silent_for_ever(stage: Stage) -> None:
    stage.fill()
    while stage.write is not None:
        assert stage.take()
        stage.write()
    stage.pass_time(10 * connection.STALLED_S)
    assert stage.connection.state is State.OPEN
