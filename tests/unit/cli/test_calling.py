"""`call` and `run`: a lease from the daemon, the call on the worker's own socket."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lazyd import errors

from ..client.fakes import CallInWorker, FakeWorker
from .conftest import Daemon, Lazyctl


@pytest.fixture
def echo(worker: FakeWorker) -> FakeWorker:
    """`run` answers its arguments."""
    worker.on["run"] = lambda call: {"args": call.args, "kwargs": call.kwargs}
    return worker


@pytest.mark.usefixtures("daemon", "echo")
@pytest.mark.parametrize(
    ("given", "args", "kwargs"),
    [
        ([], [], {}),
        (['{"x": 1}'], [], {"x": 1}),
        (["[1, null, true]"], [1, None, True], {}),
        (['{"model": "a", "timeout": 3, "method": "b"}'], [], {"model": "a", "timeout": 3, "method": "b"}),
    ],
)
def test_an_object_is_keyword_arguments_and_an_array_positional_ones(
    lazyctl: Lazyctl, given: list[str], args: list[Any], kwargs: dict[str, Any]
) -> None:
    assert lazyctl("call", "gemma", "run", *given).json == {"args": args, "kwargs": kwargs}


@pytest.mark.usefixtures("daemon", "echo")
def test_arguments_may_stand_in_a_file_or_on_standard_input(lazyctl: Lazyctl, tmp_path: Path) -> None:
    (tmp_path / "in.json").write_text('["from a file"]')
    assert lazyctl("call", "gemma", "run", f"@{tmp_path}/in.json").json["args"] == ["from a file"]
    assert lazyctl("call", "gemma", "run", "-", stdin='["typed"]').json["args"] == ["typed"]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("{", "not JSON"),
        ("[" * 50_000 + "]" * 50_000, "the arguments: nested too deeply to be read"),
        ("17", "neither an object (keyword arguments) nor an array"),
        ('"text"', "neither an object"),
        ("@/nonexistent/in.json", "/nonexistent/in.json cannot be read: No such file or directory"),
        ('[{"$bytes": "not base64!"}]', "not JSON"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_is_loaded(
    daemon: Daemon, lazyctl: Lazyctl, given: str, told: str
) -> None:
    result = lazyctl("call", "gemma", "run", given)
    assert result.status == 2
    assert told in result.error
    assert daemon.asked == []


@pytest.mark.usefixtures("daemon")
def test_a_result_that_is_text_is_printed_as_text(lazyctl: Lazyctl, worker: FakeWorker) -> None:
    worker.on["complete"] = lambda _: "Paris"
    assert lazyctl("call", "gemma", "complete") == (0, "Paris\n", "")


@pytest.mark.usefixtures("daemon")
def test_bytes_are_printed_and_read_as_base64(lazyctl: Lazyctl, worker: FakeWorker) -> None:
    worker.on["reverse"] = lambda call: bytes(reversed(call.args[0]))
    result = lazyctl("call", "gemma", "reverse", '[{"$bytes": "YWJj"}]')
    assert result.json == {"$bytes": "Y2Jh"}


def test_json_tells_how_the_answer_came_about(daemon: Daemon, lazyctl: Lazyctl, worker: FakeWorker) -> None:
    daemon.on["Get"] = lambda _: worker.grant(coldStart=True, waitedSec=0.7)
    worker.on["complete"] = lambda _: "Paris"
    reply = {"result": "Paris", "coldStart": True, "waitedSec": 0.7}
    assert lazyctl("--json", "call", "gemma", "complete").json == reply
    assert lazyctl("--json", "run", "gemma", "The capital of France is").json == reply


def test_a_fallback_s_answer_is_marked_beside_the_result(daemon: Daemon, lazyctl: Lazyctl, worker: FakeWorker) -> None:
    why = "gemma is not ready after 5.0 s (loading: weights 40 %)"
    daemon.on["Get"] = lambda _: worker.grant(model="gemma-small", degraded=why, waitedSec=5.0)
    worker.on["complete"] = lambda call: iter(["Par", "is"]) if call.stream else "Paris"
    for line in (["call", "gemma", "complete"], ["run", "gemma", "The capital of France is"]):
        result = lazyctl(*line)
        assert (result.status, result.out.strip(), result.err) == (0, "Paris", f"degraded: {why}\n")
        result = lazyctl("--json", *line)
        assert result.json == {"result": "Paris", "coldStart": False, "waitedSec": 5.0, "degraded": why}
        assert result.err == f"degraded: {why}\n"


def test_a_fallback_s_value_is_the_result(daemon: Daemon, lazyctl: Lazyctl) -> None:
    reply = {"model": "gemma", "version": "", "coldStart": False, "waitedSec": 5.0, "degraded": "loading"}
    daemon.on["Get"] = lambda _: {**reply, "value": {"text": None}}
    assert lazyctl("call", "gemma", "complete").out == '{"text":null}\n'
    assert lazyctl("run", "gemma", "Hello").out == '{"text":null}\n'
    daemon.on["Get"] = lambda _: {**reply, "value": "sorry"}
    assert lazyctl("run", "gemma", "Hello") == (0, "sorry\n", "degraded: loading\n")


def test_a_time_limit_spans_the_load(daemon: Daemon, lazyctl: Lazyctl, echo: FakeWorker) -> None:
    assert lazyctl("call", "gemma", "run", "--timeout", "2min").status == 0
    assert daemon.last("Get") == {"model": "gemma", "timeoutSec": pytest.approx(120, abs=2)}
    assert echo.called == ["run"]


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.ModelNotFound(model="gema", nearest="gemma"), 4),
        (errors.NoRoom(model="gemma", device="ram", reason="full"), 75),
        (errors.Timeout(model="gemma", phase="loading", timeout_sec=5.0), 124),
    ],
)
@pytest.mark.parametrize("line", [["call", "gemma", "run"], ["run", "gemma", "Hello"]], ids=["call", "run"])
def test_a_refused_lease_is_the_commands_error(
    daemon: Daemon, lazyctl: Lazyctl, line: list[str], error: errors.LazydError, status: int
) -> None:
    daemon.answer("Get", error)
    result = lazyctl(*line)
    assert result.status == status
    assert result.error == str(error)


@pytest.mark.usefixtures("daemon")
def test_a_method_that_does_not_exist_is_wrong_usage(lazyctl: Lazyctl, worker: FakeWorker) -> None:
    def refuse(_: CallInWorker) -> None:
        raise errors.NoSuchMethod(model="gemma", method="sing")

    worker.on["sing"] = refuse
    assert lazyctl("call", "gemma", "sing").status == 2


def pieces(call: CallInWorker) -> Iterator[str]:
    assert call.stream
    yield from [" Paris", ", of", " course"]


@pytest.mark.usefixtures("daemon")
def test_run_streams_the_text_and_ends_the_line(lazyctl: Lazyctl, worker: FakeWorker) -> None:
    seen: list[CallInWorker] = []

    def complete(call: CallInWorker) -> Iterator[str]:
        seen.append(call)
        return pieces(call)

    worker.on["complete"] = complete
    assert lazyctl("run", "gemma", "The capital of France is", "--max-tokens", "8") == (0, " Paris, of course\n", "")
    assert (seen[0].args, seen[0].kwargs) == (["The capital of France is"], {"max_tokens": 8})


@pytest.mark.usefixtures("daemon")
def test_run_reads_a_long_prompt_from_standard_input(lazyctl: Lazyctl, worker: FakeWorker) -> None:
    worker.on["complete"] = lambda call: iter([call.args[0]])
    assert lazyctl("run", "gemma", "-", stdin="two\nlines\n").out == "two\nlines\n"


@pytest.mark.usefixtures("daemon")
def test_what_was_said_before_an_error_stays(lazyctl: Lazyctl, worker: FakeWorker) -> None:
    def fail(_: CallInWorker) -> Iterator[str]:
        yield "half a "
        raise errors.CallFailed(model="gemma", method="complete", reason="RuntimeError: no")

    worker.on["complete"] = fail
    result = lazyctl("run", "gemma", "Hello")
    assert result.status == 1
    assert result.out == "half a \n"
    assert result.err.count("\n") == 1
