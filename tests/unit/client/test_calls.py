"""Calls of a model, through both clients."""

from __future__ import annotations

import math
import threading
import time
from typing import Any

import numpy
import pytest

import lazyd
from lazyd import errors
from lazyd.client.context import current_deadline, current_lease

from .fakes import DEADLINE_S, CallInWorker, FakeDaemon, FakeWorker, Hangup, eventually, open_sockets


def test_nothing_is_asked_before_the_first_call(client: Any, daemon: FakeDaemon) -> None:
    model = client.model("gemma")
    assert model.name == "gemma"
    assert daemon.asked == []
    assert model.echo("hello") == "hello"
    assert daemon.asked == [("Get", {"model": "gemma"})]


def test_a_hot_call_never_asks_the_daemon(client: Any, daemon: FakeDaemon) -> None:
    model = client.model("gemma")
    model.echo(1)
    daemon.kill()
    assert [model.echo(i) for i in range(20)] == list(range(20))
    assert daemon.methods() == ["Get"]


def test_proxies_of_one_model_share_one_connection(client: Any, worker: FakeWorker) -> None:
    client.model("gemma").echo(1)
    client.model("gemma").echo(2)
    assert worker.accepted == 1


def test_arguments_and_results_arrive(client: Any, worker: FakeWorker) -> None:
    worker.on["all"] = lambda call: {"args": call.args, "kwargs": call.kwargs}
    result = client.model("gemma").all(1, "深", [None, True], key={"n": math.inf}, data=b"\0\1", timeout=3, self=4)
    assert result == {
        "args": [1, "深", [None, True]],
        "kwargs": {"key": {"n": math.inf}, "data": b"\0\1", "timeout": 3, "self": 4},
    }


def test_arrays_cross_both_ways(client: Any, worker: FakeWorker) -> None:
    worker.on["run"] = lambda call: {"y": call.args[0]["x"] * 2}
    x = numpy.arange(300_000, dtype="<f4").reshape(3, 100, 1000)
    y = client.model("ocr").run({"x": x})["y"]
    assert y.dtype == x.dtype
    assert (y == x * 2).all()
    assert y.flags.writeable


def test_a_received_array_is_a_view_of_the_memory_that_was_received_into(client: Any) -> None:
    array = client.model("ocr").echo(numpy.arange(300_000, dtype="<i4"))
    assert array.base is not None
    base = array
    while isinstance(base, numpy.ndarray):
        base = base.base
    assert isinstance(base, (bytearray, memoryview))
    assert len(base) == array.nbytes


def test_what_cannot_be_sent_loads_nothing(client: Any, daemon: FakeDaemon) -> None:
    with pytest.raises(errors.NotSendable):
        client.model("gemma").echo(object())
    assert daemon.asked == []


def test_meta_tells_how_the_answer_came_about(client: Any, daemon: FakeDaemon, worker: FakeWorker) -> None:
    daemon.on["Get"] = lambda _: worker.grant(coldStart=True, waitedSec=1.5)
    model = client.model("gemma")
    assert model.call("echo", "Hi", meta=True) == lazyd.client.Answer("Hi", None, True, 1.5)
    assert model.call("echo", "Hi", meta=True) == lazyd.client.Answer("Hi", None, False, 0.0)
    assert model.call("echo", "Hi") == "Hi"


def test_an_error_of_the_daemon_is_raised(client: Any, daemon: FakeDaemon) -> None:
    def refuse(_: dict[str, Any]) -> Any:
        raise errors.LoadFailed(model="gemma", reason="truncated", retry_after_sec=8.0)

    daemon.on["Get"] = refuse
    with pytest.raises(lazyd.LoadFailed, match="truncated") as caught:
        client.model("gemma").echo(1)
    assert caught.value.retry_after_sec == 8.0


def test_an_error_of_the_model_is_raised_and_the_connection_kept(client: Any, worker: FakeWorker) -> None:
    def fail(_: CallInWorker) -> None:
        raise errors.CallFailed(model="gemma", method="fail", reason="ValueError: no", traceback="Traceback…\nline")

    worker.on["fail"] = fail
    model = client.model("gemma")
    with pytest.raises(lazyd.CallFailed, match="ValueError: no") as caught:
        model.fail()
    assert caught.value.traceback == "Traceback…\nline"
    assert model.echo(1) == 1
    assert worker.accepted == 1


def test_private_names_are_no_methods(client: Any) -> None:
    with pytest.raises(AttributeError):
        _ = client.model("gemma")._private


# Fallbacks.


@pytest.mark.filterwarnings("ignore::lazyd.Degraded")
def test_a_fallback_value_is_the_answer_and_is_asked_for_anew(client: Any, daemon: FakeDaemon) -> None:
    daemon.on["Get"] = lambda _: {
        "model": "ocr",
        "version": "",
        "coldStart": False,
        "waitedSec": 5.0,
        "degraded": "no room",
        "value": {"$bytes": "eHl6"},
    }
    model = client.model("ocr")
    assert model.call("run", 1, meta=True) == lazyd.client.Answer(b"xyz", "no room", False, 5.0)
    assert list(model.stream.run(1)) == [b"xyz"]
    assert daemon.methods() == ["Get", "Get"]


def test_a_stand_in_serves_one_call_alone(client: Any, daemon: FakeDaemon, worker: FakeWorker) -> None:
    daemon.on["Get"] = lambda _: worker.grant(model="ocr-small", degraded="loading")
    assert client.model("ocr").call("echo", 1, meta=True).degraded == "loading"
    eventually(lambda: not worker.connections)
    daemon.on["Get"] = worker.grant
    assert client.model("ocr").call("echo", 1, meta=True).degraded is None
    assert daemon.methods() == ["Get", "Get"]


# Revoking.


def test_a_revoked_lease_is_renewed_unnoticed(client: Any, daemon: FakeDaemon, worker: FakeWorker) -> None:
    model = client.model("gemma")
    model.echo(1)
    for i in range(3):
        worker.revoke()
        assert model.echo(i) == i
    assert daemon.methods() == ["Get"] * 4


def test_a_call_that_crossed_a_revocation_is_repeated(client: Any, worker: FakeWorker, daemon: FakeDaemon) -> None:
    def revoke_first(_: CallInWorker) -> str:
        if len(worker.called) == 1:
            worker.revoke()
            raise Hangup
        return "done"

    worker.on["run"] = revoke_first
    assert client.model("gemma").run() == "done"
    assert daemon.methods() == ["Get", "Get"]


def test_a_call_refused_by_a_draining_worker_is_repeated_elsewhere(
    client: Any, worker: FakeWorker, daemon: FakeDaemon
) -> None:
    model = client.model("gemma")
    model.echo(1)
    worker.draining = True

    def grant(_: dict[str, Any]) -> dict[str, Any]:
        worker.draining = False
        return worker.grant()

    daemon.on["Get"] = grant
    assert model.echo(2) == 2
    assert worker.called == ["echo", "echo"]


def test_a_lease_that_is_revoked_again_and_again_ends_in_an_error(
    client: Any, worker: FakeWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lazyd.client.calling.PATIENCE_S", 0.1)
    worker.draining = True
    with pytest.raises(errors.Revoked):
        client.model("gemma").echo(1)


def test_a_token_that_the_worker_does_not_know_is_replaced(client: Any, daemon: FakeDaemon, worker: FakeWorker) -> None:
    def grant(_: dict[str, Any]) -> dict[str, Any]:
        daemon.on["Get"] = worker.grant
        return worker.grant(token="wrong")

    daemon.on["Get"] = grant
    assert client.model("gemma").echo(1) == 1
    assert daemon.methods() == ["Get", "Get"]


def test_a_worker_that_left_before_it_was_reached_is_replaced(
    client: Any, daemon: FakeDaemon, worker: FakeWorker
) -> None:
    def grant(_: dict[str, Any]) -> dict[str, Any]:
        daemon.on["Get"] = worker.grant
        return worker.grant(endpoint=str(worker.path) + ".gone")

    daemon.on["Get"] = grant
    assert client.model("gemma").echo(1) == 1
    assert daemon.asked == [("Get", {"model": "gemma"}), ("Get", {"model": "gemma", "lease": "lease-1"})]


def test_a_worker_that_is_gone_is_asked_for_until_the_daemon_notices(
    client: Any, daemon: FakeDaemon, worker: FakeWorker
) -> None:
    def grant(_: dict[str, Any]) -> dict[str, Any]:
        return worker.grant(endpoint=str(worker.path) + ("" if len(daemon.asked) > 12 else ".gone"))

    daemon.on["Get"] = grant
    assert client.model("gemma").echo(1) == 1


def test_a_worker_that_stays_gone_is_an_error_that_names_its_socket(
    client: Any, daemon: FakeDaemon, worker: FakeWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lazyd.client.calling.PATIENCE_S", 0.1)
    daemon.on["Get"] = lambda _: worker.grant(endpoint=str(worker.path) + ".gone")
    with pytest.raises(lazyd.Unavailable, match=r"worker\.sock\.gone"):
        client.model("gemma").echo(1)


# Death of the worker.


def die(call: CallInWorker) -> None:
    """As a process dies: all its connections end, nothing is said."""
    worker = call.worker
    for connection in list(worker.connections):
        worker.hang_up(connection)
    raise Hangup


def bury(_: dict[str, Any]) -> dict[str, Any]:
    raise errors.WorkerDied(model="gemma", signal=11, log="Segmentation fault\n")


def test_a_worker_that_dies_under_a_call_is_reported_with_its_signal(
    client: Any, daemon: FakeDaemon, worker: FakeWorker
) -> None:
    worker.on["crash"] = die
    daemon.on["Release"] = bury
    with pytest.raises(lazyd.WorkerDied, match="SIGSEGV") as caught:
        client.model("gemma").crash()
    assert caught.value.signal == 11
    assert daemon.asked[1] == ("Release", {"lease": "lease-1"})
    assert worker.called == ["crash"]


def test_the_next_call_after_a_death_works(client: Any, daemon: FakeDaemon, worker: FakeWorker) -> None:
    worker.on["crash"] = die
    daemon.on["Release"] = bury
    model = client.model("gemma")
    with pytest.raises(lazyd.WorkerDied):
        model.crash()
    assert model.echo(1) == 1


def test_the_daemon_may_hear_of_a_death_later_than_the_client(
    client: Any, daemon: FakeDaemon, worker: FakeWorker
) -> None:
    worker.on["crash"] = die
    daemon.on["Release"] = lambda parameters: {} if daemon.methods().count("Release") < 3 else bury(parameters)
    with pytest.raises(lazyd.WorkerDied):
        client.model("gemma").crash()


def test_a_connection_that_ends_for_no_known_reason_is_lost(
    client: Any, daemon: FakeDaemon, worker: FakeWorker
) -> None:
    def unknown(parameters: dict[str, Any]) -> dict[str, Any]:
        raise errors.NoSuchLease(lease=parameters["lease"])

    worker.on["crash"] = die
    daemon.on["Release"] = unknown
    daemon.on["Describe"] = lambda _: {"model": {}, "spec": {"idempotent": ["other"]}}
    with pytest.raises(lazyd.ConnectionLost, match=r"gemma\.crash"):
        client.model("gemma").crash()
    assert worker.called == ["crash"]


def test_an_idempotent_method_is_repeated_once_after_a_death(
    client: Any, daemon: FakeDaemon, worker: FakeWorker
) -> None:
    worker.on["run"] = lambda call: die(call) if len(worker.called) == 1 else "done"
    daemon.on["Release"] = bury
    daemon.on["Describe"] = lambda _: {"model": {}, "spec": {"idempotent": ["run"]}}
    assert client.model("gemma").run() == "done"
    assert daemon.methods() == ["Get", "Release", "Describe", "Get"]


def test_an_idempotent_method_that_kills_every_worker_is_not_repeated_for_ever(
    client: Any, daemon: FakeDaemon, worker: FakeWorker
) -> None:
    worker.on["run"] = die
    daemon.on["Release"] = bury
    with pytest.raises(lazyd.WorkerDied):
        client.model("gemma", idempotent=["run"]).run()
    assert worker.called == ["run", "run"]
    assert "Describe" not in daemon.methods()


def test_a_worker_that_left_while_nothing_was_under_way_is_not_noticed(
    client: Any, daemon: FakeDaemon, worker: FakeWorker
) -> None:
    model = client.model("gemma")
    model.echo(1)
    for connection in list(worker.connections):
        worker.hang_up(connection)
    assert model.echo(2) == 2
    assert daemon.methods() == ["Get", "Get"]


def test_a_worker_that_talks_nonsense_is_an_error_and_is_left(client: Any, worker: FakeWorker) -> None:
    def nonsense(call: CallInWorker) -> None:
        call.connection.sendall(b"\0\0\0\4junk")
        raise Hangup

    worker.on["run"] = nonsense
    model = client.model("gemma")
    with pytest.raises(errors.ProtocolError):
        model.run()
    assert model.echo(1) == 1
    assert worker.accepted == 2


# Deadlines.


def test_a_deadline_cancels_the_call(client: Any, worker: FakeWorker) -> None:
    ended = threading.Event()

    def run(call: CallInWorker) -> None:
        call.cancelled.wait(10)
        ended.set()
        raise errors.Cancelled(model="gemma")

    worker.on["run"] = run
    model = client.model("gemma")
    with pytest.raises(lazyd.Timeout) as caught:
        model.call("run", timeout=0.05)
    assert (caught.value.model, caught.value.timeout_sec) == ("gemma", 0.05)
    assert "running run" in str(caught.value)
    assert ended.wait(10)
    assert model.echo(1) == 1
    assert worker.accepted == 1


def test_the_deadline_spans_the_queue_and_the_answer(client: Any, daemon: FakeDaemon, worker: FakeWorker) -> None:
    def grant(_: dict[str, Any]) -> dict[str, Any]:
        threading.Event().wait(0.05)
        return worker.grant()

    daemon.on["Get"] = grant
    worker.on["run"] = lambda call: call.cancelled.wait(10)
    with pytest.raises(lazyd.Timeout) as caught:
        client.model("gemma", timeout=0.1).run()
    assert caught.value.timeout_sec == 0.1
    assert 0 < daemon.asked[0][1]["timeoutSec"] <= 0.1


def test_the_daemons_own_timeout_is_the_one_that_is_told(client: Any, daemon: FakeDaemon) -> None:
    def late(parameters: dict[str, Any]) -> dict[str, Any]:
        threading.Event().wait(parameters["timeoutSec"])
        raise errors.Timeout(model="gemma", phase="loading", timeout_sec=0.05)

    daemon.on["Get"] = late
    with pytest.raises(lazyd.Timeout, match="while loading"):
        client.model("gemma").call("run", timeout=0.05)


def test_a_daemon_that_hangs_is_not_waited_for_without_end(
    client: Any, daemon: FakeDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lazyd.client.requests.GRACE_S", 0.05)
    release = threading.Event()
    daemon.on["Get"] = lambda _: {"waited": release.wait(10)}
    with pytest.raises(lazyd.Timeout, match="waiting for the daemon"):
        client.model("gemma").call("run", timeout=0.05)
    release.set()


@pytest.mark.parametrize("timeout", [math.inf, 1e12])
def test_a_very_long_time_limit_is_as_good_as_none(client: Any, daemon: FakeDaemon, timeout: float) -> None:
    assert client.model("gemma").call("echo", 1, timeout=timeout) == 1
    daemon.on["Load"] = lambda _: {"state": "ready", "phase": "ready"}
    assert client.load("gemma", timeout=timeout)["state"] == "ready"


# Parents.


def test_a_nested_call_names_its_parent(client: Any, daemon: FakeDaemon) -> None:
    token = current_lease.set("lease-of-the-caller")
    try:
        client.model("det").echo(1)
    finally:
        current_lease.reset(token)
    assert daemon.asked == [("Get", {"model": "det", "parent": "lease-of-the-caller"})]


def test_the_worker_is_told_how_much_time_a_call_has(client: Any, worker: FakeWorker) -> None:
    worker.on["left"] = lambda call: call.timeout_s
    assert client.model("det").call("left") is None
    assert client.model("det").call("left", timeout=math.inf) is None
    assert 0 < client.model("det").call("left", timeout=20) <= 20


def test_a_nested_call_has_no_more_time_than_is_left_to_its_caller(client: Any, worker: FakeWorker) -> None:
    worker.on["left"] = lambda call: call.timeout_s
    token = current_deadline.set(time.monotonic() + 20)
    try:
        assert 10 < client.model("det").call("left") <= 20
        assert 10 < client.model("det").call("left", timeout=300) <= 20
        assert 0 < client.model("det").call("left", timeout=5) <= 5
    finally:
        current_deadline.reset(token)
    assert client.model("det").call("left") is None


def test_a_nested_call_ends_when_its_caller_waits_no_more(client: Any, worker: FakeWorker) -> None:
    worker.on["hang"] = lambda call: call.cancelled.wait(DEADLINE_S)
    token = current_deadline.set(time.monotonic() + 0.05)
    try:
        with pytest.raises(lazyd.Timeout):
            client.model("det").hang()
    finally:
        current_deadline.reset(token)
    eventually(lambda: worker.cancels)


def test_a_program_started_by_a_worker_finds_the_parent_in_its_environment(
    client: Any, daemon: FakeDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAZYD_LEASE", "lease-1")
    client.model("det").echo(1)
    assert daemon.asked[0][1]["parent"] == "lease-1"


def test_connections_of_earlier_parents_do_not_pile_up(client: Any, worker: FakeWorker) -> None:
    model = client.model("det")
    model.echo(0)
    for i in range(5):
        token = current_lease.set(f"parent-{i}")
        try:
            assert model.echo(i) == i
            assert model.echo(i) == i
        finally:
            current_lease.reset(token)
    assert worker.accepted == 6
    eventually(lambda: len(worker.connections) == 2)


# The end.


def test_closing_ends_every_connection(client: Any, daemon: FakeDaemon, worker: FakeWorker) -> None:
    client.model("gemma").echo(1)
    client.model("ocr").echo(1)
    client.close()
    eventually(lambda: not worker.connections and not daemon.connections)
    with pytest.raises(lazyd.Closed):
        client.model("gemma").echo(1)
    with pytest.raises(lazyd.Closed):
        client.status()


def test_closing_ends_calls_under_way(client: Any, worker: FakeWorker) -> None:
    worker.on["run"] = lambda call: call.cancelled.wait(10)
    outcome: list[object] = []

    def call() -> None:
        try:
            outcome.append(client.model("gemma").run())
        except lazyd.LazydError as error:
            outcome.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    eventually(lambda: worker.called)
    client.close()
    thread.join(10)
    assert [type(each) for each in outcome] == [lazyd.Closed]


def test_no_socket_is_left_open(connect: Any, daemon: FakeDaemon, worker: FakeWorker) -> None:
    before = open_sockets()
    with connect() as client:
        for _ in range(3):
            client.model("gemma").echo(1)
            worker.revoke()
        assert list(client.model("gemma").stream.echo(2)) == [2]
    eventually(lambda: not daemon.connections and not worker.connections)
    eventually(lambda: open_sockets() <= before)
