"""Answers in pieces, through both clients."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from typing import Any

import numpy
import pytest

import lazyd
from lazyd import errors

from .fakes import CallInWorker, FakeDaemon, FakeWorker, Hangup, eventually


def count(call: CallInWorker) -> Iterator[Any]:
    """Pieces for ever, until the call is cancelled."""
    number = 0
    while not call.cancelled.is_set():
        yield number
        number += 1
    raise errors.Cancelled(model="gemma")


def test_pieces_come_in_order(client: Any, worker: FakeWorker) -> None:
    worker.on["complete"] = lambda call: iter(call.args[0].split())
    assert list(client.model("gemma").stream.complete("Once upon a time")) == ["Once", "upon", "a", "time"]


def test_a_stream_may_be_empty(client: Any, worker: FakeWorker) -> None:
    worker.on["complete"] = lambda _: iter(())
    assert list(client.model("gemma").stream.complete()) == []


def test_a_single_result_is_one_piece_even_if_it_is_nothing(client: Any, worker: FakeWorker) -> None:
    worker.on["complete"] = lambda _: None
    assert list(client.model("gemma").stream.complete()) == [None]


def test_the_last_frame_may_bring_a_piece(client: Any, worker: FakeWorker) -> None:
    def run(call: CallInWorker) -> None:
        worker._send(call.connection, {"id": call.id, "more": True}, "a")
        worker._send(call.connection, {"id": call.id}, "b")
        raise Hangup

    worker.on["run"] = run
    assert list(client.model("gemma").stream.run()) == ["a", "b"]


def test_pieces_may_be_arrays(client: Any, worker: FakeWorker) -> None:
    worker.on["frames"] = lambda _: iter([numpy.full(100_000, i) for i in range(3)])
    assert [int(piece[0]) for piece in client.model("tts").stream.frames()] == [0, 1, 2]


def test_nothing_begins_before_the_first_piece_is_wanted(client: Any, daemon: FakeDaemon, worker: FakeWorker) -> None:
    worker.on["count"] = count
    pieces = client.model("gemma").stream.count()
    assert daemon.asked == []
    assert next(pieces) == 0
    pieces.close()


def test_leaving_a_stream_cancels_it_and_keeps_the_connection(client: Any, worker: FakeWorker) -> None:
    worker.on["count"] = count
    model = client.model("gemma")
    for piece in model.stream.count():
        if piece == 3:
            break
    del piece
    gc.collect()
    eventually(lambda: worker.cancels == [1])
    assert model.echo("still here") == "still here"
    assert worker.accepted == 1


def test_calls_go_on_beside_a_stream(client: Any, worker: FakeWorker) -> None:
    worker.on["count"] = count
    model = client.model("gemma")
    pieces = model.stream.count()
    assert next(pieces) == 0
    assert [model.echo(i) for i in range(5)] == list(range(5))
    assert next(pieces) == 1
    pieces.close()
    assert worker.accepted == 1


def test_an_error_after_some_pieces_is_raised(client: Any, worker: FakeWorker) -> None:
    def run(_: CallInWorker) -> Iterator[int]:
        yield 1
        raise errors.CallFailed(model="gemma", method="run", reason="broke", traceback="")

    worker.on["run"] = run
    pieces = client.model("gemma").stream.run()
    assert next(pieces) == 1
    with pytest.raises(lazyd.CallFailed):
        next(pieces)


def test_death_in_the_middle_of_a_stream_is_reported_and_never_repeated(
    client: Any, daemon: FakeDaemon, worker: FakeWorker
) -> None:
    def run(call: CallInWorker) -> Iterator[int]:
        yield 1
        worker.hang_up(call.connection)
        raise Hangup

    def bury(_: dict[str, Any]) -> dict[str, Any]:
        raise errors.WorkerDied(model="gemma", status=3)

    worker.on["run"] = run
    daemon.on["Release"] = bury
    pieces = client.model("gemma", idempotent=["run"]).stream.run()
    assert next(pieces) == 1
    with pytest.raises(lazyd.WorkerDied, match="status 3"):
        next(pieces)
    assert worker.called == ["run"]


def test_a_deadline_spans_the_whole_stream(client: Any, worker: FakeWorker) -> None:
    def run(call: CallInWorker) -> Iterator[int]:
        yield 1
        call.cancelled.wait(10)
        raise errors.Cancelled(model="gemma")

    worker.on["run"] = run
    pieces = client.model("gemma").stream.call("run", timeout=0.2)
    assert next(pieces) == 1
    with pytest.raises(lazyd.Timeout):
        next(pieces)
    eventually(lambda: worker.cancels == [1])


def test_a_revoked_stream_that_has_not_begun_begins_anew(client: Any, daemon: FakeDaemon, worker: FakeWorker) -> None:
    worker.on["complete"] = lambda _: iter("abc")
    model = client.model("gemma")
    model.echo(1)
    worker.revoke()
    assert list(model.stream.complete()) == ["a", "b", "c"]
    assert daemon.methods() == ["Get", "Get"]


@pytest.mark.filterwarnings("ignore::lazyd.Degraded")
def test_a_surplus_connection_is_closed_when_its_stream_is_left(
    client: Any, daemon: FakeDaemon, worker: FakeWorker
) -> None:
    daemon.on["Get"] = lambda _: worker.grant(degraded="a stand-in")
    worker.on["count"] = count
    pieces = client.model("gemma").stream.count()
    assert next(pieces) == 0
    pieces.close()
    eventually(lambda: not worker.connections)


def test_an_unread_stream_does_not_hold_up_a_large_argument(client: Any, worker: FakeWorker) -> None:
    """The worker sends what nobody reads yet and reads nothing meanwhile; we send what it does not read."""
    release = threading.Event()

    def flood(_: CallInWorker) -> Iterator[Any]:
        yield 0
        yield from (numpy.zeros(100_000) for _ in range(20))

    worker.on["flood"] = flood
    worker.on["size"] = lambda call: call.args[0].nbytes
    model = client.model("gemma")
    pieces = model.stream.flood()
    assert next(pieces) == 0
    release.set()
    assert model.size(numpy.zeros(1_000_000)) == 8_000_000
    assert len(list(pieces)) == 20
