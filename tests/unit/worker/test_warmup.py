"""The calls of a warm-up, and their failures in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from lazyd.runtimes import CallCancelled, Cancellation
from lazyd.worker.warmup import Order, Warmup, WarmupFailed


class Model:
    """Answers what it is told to, and remembers what it was called with."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.calls: list[tuple[str, list[Any], dict[str, Any]]] = []

    def methods(self) -> list[str]:
        return ["run"]

    def call(self, method: str, args: list[Any], kwargs: dict[str, Any], **_: Any) -> Any:
        self.calls.append((method, args, kwargs))
        answer = self.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def close(self) -> None:
        pass


class Own(Model):
    warms_itself, warmup_method = True, "warmup"


def run(model: Model, **table: Any) -> Warmup:
    warmup = Warmup(model, {"method": "run", "calls": len(model.answers), **table})
    while not warmup.is_over:
        warmup.call(Cancellation())
    return warmup


def test_all_calls_are_made_with_inputs_of_their_own() -> None:
    model = Model(1, 2, 3)
    run(model, args=[{"shape": [[1], [2]]}], kwargs={"n": 1})
    assert [(method, args[0].shape, kwargs) for method, args, kwargs in model.calls] == [
        ("run", (1,), {"n": 1}),
        ("run", (2,), {"n": 1}),
        ("run", (1,), {"n": 1}),
    ]


def test_a_failure_says_what_and_in_which_call() -> None:
    with pytest.raises(WarmupFailed, match=r"^warm-up: ValueError: the shape does not fit \(call 2 of 3\)$"):
        run(Model("ok", ValueError("the shape does not fit"), "ok"))


def test_an_output_is_looked_at_after_every_call() -> None:
    with pytest.raises(WarmupFailed, match=r"^warm-up: output is not finite \(call 2 of 3\)$"):
        run(Model([1.0], [float("nan")], [1.0]), expect={"finite": True})


def test_an_input_that_cannot_be_made_fails_it() -> None:
    with pytest.raises(WarmupFailed, match=r"No such file.*call 1 of 1"):
        run(Model(1), args=[{"file": "/nowhere/a.json"}])


def test_a_stream_is_read_to_its_end_and_is_one_output() -> None:
    run(Model(iter(["Pa", "ris"])), expect={"contains": "Paris"})


def test_a_stream_that_is_cancelled_ends() -> None:
    stop = Cancellation()

    def endless() -> Iterator[int]:
        yield 1
        stop.cancel()
        yield from iter(int, 1)

    with pytest.raises(CallCancelled):
        Warmup(Model(endless()), {"method": "run"}).call(stop)


def test_a_method_that_it_does_not_have_is_named() -> None:
    with pytest.raises(WarmupFailed, match="no method gone"):
        Warmup(Model(), {"method": "gone"})
    with pytest.raises(WarmupFailed, match=r"no warmup\(\)"):
        Warmup(Model(), {})


def test_without_a_table_only_what_the_model_brings_is_called_once() -> None:
    assert Order().plan(Model()) is None
    model = Own(None)
    warmup = Order().plan(model)
    assert warmup is not None
    warmup.call(Cancellation())
    assert warmup.is_over
    assert model.calls == [("warmup", [], {})]


def test_on_demand_only_a_known_version_of_the_runtime_needs_none() -> None:
    order = Order.of({"warmup": "on-demand", "table": {}, "warmed_by": ["1.0"]})
    assert order.is_known("1.0")
    assert not order.is_known("1.1")
    assert not Order("sync", {}, ("1.0",)).is_known("1.0")
