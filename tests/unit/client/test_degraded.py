"""What a program sees when a fallback has answered."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest

import lazyd

from .fakes import FakeDaemon, FakeWorker, eventually


@pytest.fixture
def shown() -> Iterator[list[warnings.WarningMessage]]:
    """The warnings that a program shows: one for each place and text."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        warnings.simplefilter("ignore", ResourceWarning)  # of what other tests have left, whenever it is collected
        yield caught


def test_a_bare_result_comes_with_one_warning_at_the_place_of_the_call(
    daemon: FakeDaemon, worker: FakeWorker, shown: list[warnings.WarningMessage]
) -> None:
    daemon.on["Get"] = lambda _: worker.grant(model="ocr-small", degraded="ocr is not ready after 5.0 s")
    with lazyd.connect(str(daemon.path)) as client:
        ocr = client.model("ocr")
        for n in range(3):
            assert ocr.echo(n) == n
        assert client.call("ocr", "echo", 4) == 4
    assert [each.category for each in shown] == [lazyd.Degraded] * 2  # two places
    assert {each.filename for each in shown} == {__file__}
    assert str(shown[0].message).startswith("ocr was not ready, and its fallback has answered")


async def test_an_asyncio_program_is_warned_at_the_place_of_its_call(
    daemon: FakeDaemon, worker: FakeWorker, shown: list[warnings.WarningMessage]
) -> None:
    daemon.on["Get"] = lambda _: worker.grant(degraded="loading")
    worker.on["count"] = lambda _: iter(range(2))
    async with await lazyd.connect_async(str(daemon.path)) as client:
        assert await client.model("ocr").echo(1) == 1
        assert [piece async for piece in client.model("ocr").stream.count()] == [0, 1]
    assert [(each.category, each.filename) for each in shown] == [(lazyd.Degraded, __file__)] * 2


def test_who_asks_for_the_answer_is_not_warned(
    client: Any, daemon: FakeDaemon, worker: FakeWorker, shown: list[warnings.WarningMessage]
) -> None:
    daemon.on["Get"] = lambda _: worker.grant(degraded="loading")
    assert client.model("ocr").call("echo", 1, meta=True).degraded == "loading"
    assert client.call("ocr", "echo", 1, meta=True).degraded == "loading"
    worker.on["complete"] = lambda _: iter("ab")
    told: list[str] = []
    assert list(client.pieces("ocr", "complete", on_degraded=told.append)) == ["a", "b"]
    assert told == ["loading"]
    assert not shown


def test_a_warning_may_be_made_an_error(daemon: FakeDaemon, worker: FakeWorker) -> None:
    daemon.on["Get"] = lambda _: worker.grant(degraded="loading")
    with warnings.catch_warnings(), lazyd.connect(str(daemon.path)) as client:
        warnings.simplefilter("error", lazyd.Degraded)
        with pytest.raises(lazyd.Degraded):
            client.model("ocr").echo(1)


@pytest.mark.usefixtures("shown")
def test_the_wanted_model_is_asked_for_again_until_it_answers_itself(
    client: Any, daemon: FakeDaemon, worker: FakeWorker
) -> None:
    daemon.on["Get"] = lambda _: worker.grant(model="ocr-small", degraded="loading")
    ocr = client.model("ocr")
    assert [ocr.echo(n) for n in range(2)] == [0, 1]
    eventually(lambda: not worker.connections)
    daemon.on["Get"] = worker.grant
    assert [ocr.call("echo", n, meta=True).degraded for n in range(3)] == [None] * 3
    assert daemon.methods() == ["Get"] * 3


def test_a_call_that_is_begun_anew_with_the_wanted_model_is_not_degraded(
    client: Any, daemon: FakeDaemon, worker: FakeWorker
) -> None:
    """The fallback drains before the call has begun."""

    def grant(_: dict[str, Any]) -> dict[str, Any]:
        worker.draining = not worker.draining
        return worker.grant(degraded="loading") if worker.draining else worker.grant()

    daemon.on["Get"] = grant
    answer = client.model("ocr").call("echo", 1, meta=True)
    assert (answer.result, answer.degraded) == (1, None)
    assert daemon.methods() == ["Get"] * 2
