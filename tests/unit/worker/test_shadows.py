"""Calls that are repeated on another model, and how answers are compared."""

from __future__ import annotations

import math
import queue
from types import SimpleNamespace
from typing import Any

import pytest

from lazyd.client.answer import Answer
from lazyd.client.context import current_lease, parent_lease
from lazyd.errors import CallFailed, Unavailable
from lazyd.wire.values import Array
from lazyd.worker import shadows
from lazyd.worker.alike import alike
from lazyd.worker.shadows import Shadows

numpy = pytest.importorskip("numpy")


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (1.0, 1.0005, True),
        (1.0, 1.01, False),
        (1, 1.0, True),
        (0.0, 1e-6, True),
        (math.nan, math.nan, True),
        (math.nan, 1.0, False),
        (True, 1, False),
        ("a", "a", True),
        ("a", "b", False),
        (b"x", b"x", True),
        (None, None, True),
        (None, 0, False),
        ([1.0, "a"], (1.0001, "a"), True),
        ([1.0], [1.0, 2.0], False),
        ({"s": [0.5]}, {"s": [0.5001]}, True),
        ({"s": 1}, {"t": 1}, False),
    ],
)
def test_answers_are_the_same_if_their_numbers_hardly_differ(one: Any, other: Any, same: bool) -> None:
    assert alike(one, other) is same


@pytest.mark.parametrize(
    ("one", "other", "dtype", "same"),
    [
        ([1.0, 2.0], [1.0001, 2.0], "<f4", True),
        ([1.0, 2.0], [1.1, 2.0], "<f4", False),
        ([1.0, math.nan], [1.0, math.nan], "<f8", True),
        ([1, 2], [1, 3], "<i4", False),
        ([1, 2], [1, 2], "<i4", True),
    ],
)
def test_arrays_are_compared_alike_with_and_without_numpy(one: Any, other: Any, dtype: str, same: bool) -> None:
    first, second = numpy.array(one, dtype), numpy.array(other, dtype)
    assert alike(first, second) is same
    plain = [Array(array.tobytes(), dtype, array.shape) for array in (first, second)]
    assert alike(*plain) is same


def test_arrays_of_another_shape_or_kind_differ() -> None:
    assert not alike(numpy.zeros((2, 3)), numpy.zeros((3, 2)))
    assert not alike(numpy.zeros(2, "f4"), numpy.zeros(2, "i4"))
    assert not alike(numpy.zeros(1), None)


class Daemon:
    """Stands for the client of the daemon that the shadows call."""

    def __init__(self, answer: Any, ready: bool = True) -> None:
        self.answer_with = answer
        self.ready = ready
        self.calls: list[tuple[Any, ...]] = []

    def is_ready(self, _model: str) -> bool:
        return self.ready

    def answer(self, model: str, method: str, args: Any, kwargs: Any, *, timeout: float) -> Answer:
        assert timeout == shadows.LIMIT_S
        self.calls.append((model, method, args, kwargs, parent_lease()))
        if isinstance(self.answer_with, Exception):
            raise self.answer_with
        return Answer(self.answer_with, None, False, 0.0)


def call(*, stream: bool = False, shadow: str | None = "ocr:4") -> Any:
    """As far as it is looked at."""
    lease = SimpleNamespace(route="reader", shadow=shadow)
    return SimpleNamespace(lease=lease, stream=stream, method="run", as_received=lambda: (([1], {"x": 2}), ()))


def repeated(daemon: Daemon, answer: Any, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str, dict[str, int]]:
    told: queue.Queue[tuple[str, str, dict[str, int]]] = queue.Queue()
    found = Shadows(lambda *what: told.put(what))
    monkeypatch.setattr("lazyd.client.connect", lambda: daemon)
    repeat = found.repeat(call())
    assert repeat is not None
    repeat.answered(answer)
    return told.get(timeout=30)


@pytest.mark.parametrize(
    ("answer", "ready", "outcome"),
    [
        ([0.5], True, "equal"),
        ([0.7], True, "different"),
        (CallFailed(model="ocr:4", method="run", reason="no", traceback=""), True, "failed"),
        (Unavailable(socket="/s", reason="gone"), True, "skipped"),
        ([0.5], False, "skipped"),
    ],
)
def test_a_call_is_repeated_and_what_came_of_it_is_told(
    answer: Any, ready: bool, outcome: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon = Daemon(answer, ready)
    assert repeated(daemon, [0.5], monkeypatch) == ("reader", "ocr:4", {outcome: 1})
    assert daemon.calls == ([("ocr:4", "run", [1], {"x": 2}, None)] if ready else [])


def test_a_repeated_call_is_nobodys_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAZYD_LEASE", "of a call under way")
    assert parent_lease() == "of a call under way"
    daemon = Daemon([0.5])
    repeated(daemon, [0.5], monkeypatch)
    assert daemon.calls[0][-1] is None
    assert current_lease.get() is None


def test_streams_and_calls_without_a_shadow_are_not_repeated() -> None:
    found = Shadows(lambda *_: None)
    assert found.repeat(call(stream=True)) is None
    assert found.repeat(call(shadow=None)) is None


def test_what_is_too_much_is_skipped_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[dict[str, int]] = []
    found = Shadows(lambda _name, _shadow, counts: told.append(counts))
    monkeypatch.setattr(Shadows, "_live", lambda _: None)
    monkeypatch.setattr(shadows, "MOST_BYTES", 7)
    repeat = found.repeat(call())
    assert repeat is not None
    repeat.answered(b"12345678")
    assert told == [{"skipped": 1}]
    for _ in range(shadows.MOST_WAITING):
        repeat.answered(1)
    assert len(told) == 1
    repeat.answered(1)
    assert told == [{"skipped": 1}] * 2
