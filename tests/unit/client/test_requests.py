"""Requests on the control socket, through both clients: what is repeated, and for how long."""

from __future__ import annotations

import pathlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import lazyd
from lazyd import errors
from lazyd.client import reconnect
from lazyd.client.requests import unavailable

from .fakes import FakeDaemon, FakeWorker, Hangup, eventually

LOOKS = [
    ("status", (), {"schema": 1}),
    ("health", (), {"status": "ready"}),
    ("describe", ("gemma",), {"spec": {}}),
    ("reload", (), {"added": [], "changed": [], "removed": []}),
]


@pytest.mark.parametrize(("method", "args", "reply"), LOOKS, ids=lambda value: value if isinstance(value, str) else "")
def test_reply_comes_back_as_it_is(client: Any, daemon: FakeDaemon, method: str, args: Any, reply: Any) -> None:
    daemon.on[method.capitalize()] = lambda _: reply
    assert getattr(client, method)(*args) == reply


@pytest.mark.parametrize(
    ("call", "asked"),
    [
        (lambda c: c.status("gemma"), ("Status", {"model": "gemma"})),
        (lambda c: c.pin("gemma"), ("Pin", {"model": "gemma"})),
        (lambda c: c.unpin("gemma"), ("Unpin", {"model": "gemma"})),
        (lambda c: c.release("lease-1"), ("Release", {"lease": "lease-1"})),
        (lambda c: c.unload("gemma"), ("Unload", {"models": ["gemma"]})),
        (lambda c: c.unload(all=True, force=True), ("Unload", {"all": True, "force": True})),
        (lambda c: c.unload(idle=True), ("Unload", {"idle": True})),
        (lambda c: c.warm("gemma", "ocr"), ("Warm", {"models": ["gemma", "ocr"]})),
        (lambda c: c.warm("x", tier="ram", wait=True), ("Warm", {"models": ["x"], "tier": "ram", "wait": True})),
        (lambda c: c.load("gemma"), ("Load", {"model": "gemma"})),
        (lambda c: c.get("gemma", hold_s=60, lease="old"), ("Get", {"model": "gemma", "holdSec": 60, "lease": "old"})),
        (lambda c: c.register({"name": "x"}), ("Register", {"spec": {"name": "x"}})),
        (lambda c: c.deregister("x"), ("Deregister", {"model": "x"})),
        (lambda c: c.metrics(), ("Metrics", {})),
        (lambda c: c.info(), ("org.varlink.service.GetInfo", {})),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_parameters_are_those_of_the_interface(client: Any, daemon: FakeDaemon, call: Any, asked: Any) -> None:
    daemon.on[asked[0]] = lambda _: {"unloaded": [], "models": [], "model": "x", "text": ""}
    call(client)
    assert daemon.asked == [asked]


def test_is_ready_asks_without_loading(client: Any, daemon: FakeDaemon) -> None:
    states = iter(["cold", "ready"])
    daemon.on["Status"] = lambda _: {"models": [{"name": "gemma", "state": next(states)}]}
    model = client.model("gemma")
    assert [model.is_ready, model.is_ready] == [False, True]
    assert daemon.asked == [("Status", {"model": "gemma"})] * 2


def test_a_family_member_that_nobody_asked_for_is_not_ready(client: Any, daemon: FakeDaemon) -> None:
    daemon.on["Status"] = raising(errors.ModelNotFound(model="strategy/alpha"))
    assert client.model("strategy/alpha").is_ready is False


def test_requests_one_after_the_other_use_one_connection(client: Any, daemon: FakeDaemon) -> None:
    daemon.on["Health"] = lambda _: {}
    for _ in range(3):
        client.health()
    assert daemon.accepted == 1


def test_an_error_leaves_the_connection_usable(client: Any, daemon: FakeDaemon) -> None:
    daemon.on["Pin"] = raising(errors.ModelNotFound(model="gema", nearest="gemma"))
    for _ in range(2):
        with pytest.raises(lazyd.ModelNotFound, match="did you mean gemma"):
            client.pin("gema")
    assert daemon.accepted == 1


def test_what_a_client_does_not_know_is_an_error_too(client: Any, daemon: FakeDaemon) -> None:
    class NewError(errors.LazydError):
        varlink_name = "io.lazyd.New"

    daemon.on["Health"] = raising(NewError())
    with pytest.raises(errors.RemoteError, match=r"io\.lazyd\.New"):
        client.health()


def test_progress_of_a_load_is_told_step_by_step(client: Any, daemon: FakeDaemon) -> None:
    steps = [
        {"state": "loading", "phase": "weights", "fraction": 0.5},
        {"state": "ready", "phase": "ready", "loadSec": 0.6},
    ]
    daemon.on["Load"] = lambda _: iter(steps)
    seen: list[Any] = []
    assert client.load("gemma", timeout=5, progress=seen.append) == steps[-1]
    assert seen == steps
    assert 0 < daemon.asked[0][1]["timeoutSec"] <= 5


def test_logs_are_lines(client: Any, daemon: FakeDaemon) -> None:
    daemon.on["Logs"] = lambda _: iter([{"line": "one"}, {"line": ""}, {}])
    assert list(client.logs("gemma")) == ["one", ""]
    assert list(client.logs("gemma", follow=True)) == ["one", ""]
    assert daemon.asked == [("Logs", {"model": "gemma"}), ("Logs", {"model": "gemma", "follow": True})]
    assert daemon.accepted == 1


def test_events_come_one_by_one_and_leaving_ends_the_connection(client: Any, daemon: FakeDaemon) -> None:
    def events(_: dict[str, Any]) -> Iterator[dict[str, Any]]:
        for number in range(1000):
            yield {"seq": number}
            more.acquire()

    more = threading.Semaphore(2)
    daemon.on["Subscribe"] = events
    events_seen = client.subscribe()
    assert next(events_seen) == {"seq": 0}
    more.release()
    assert next(events_seen) == {"seq": 1}
    events_seen.close()
    more.release(1000)
    eventually(lambda: not daemon.connections)


# Where there is no daemon.


def test_a_daemon_that_was_never_there_is_not_waited_for(tmp_path: pathlib.Path) -> None:
    began = time.monotonic()
    with pytest.raises(lazyd.Unavailable, match=r"none\.sock.*No such file") as caught:
        lazyd.connect(str(tmp_path / "none.sock"))
    assert time.monotonic() - began < 5
    assert caught.value.exit_status == 69


def test_a_socket_that_may_not_be_opened_is_told_apart() -> None:
    error = unavailable("/run/lazyd/control.sock", PermissionError(13, "Permission denied"))
    assert isinstance(error, errors.SocketDenied)
    assert error.exit_status == 77


def test_a_path_that_is_too_long_is_said_to_be() -> None:
    with pytest.raises(lazyd.Unavailable, match="too long"):
        lazyd.connect("/" + "x" * 200)


# Restarts.


def restart_soon(daemon: FakeDaemon, after_s: float = 0.1) -> threading.Timer:
    timer = threading.Timer(after_s, daemon.restart)
    timer.start()
    return timer


def test_a_restart_between_two_requests_is_not_noticed(client: Any, daemon: FakeDaemon) -> None:
    daemon.on["Health"] = lambda _: {"ready": True}
    client.health()
    daemon.kill()
    timer = restart_soon(daemon)
    assert client.health() == {"ready": True}
    timer.join()


def test_a_waiting_get_is_repeated_with_the_time_that_is_left(
    client: Any, daemon: FakeDaemon, worker: FakeWorker
) -> None:
    def die_first(_: dict[str, Any]) -> dict[str, Any]:
        if daemon.methods() == ["Get"]:
            daemon.kill()
            restart_soon(daemon, 0.05)
            raise Hangup
        return worker.grant()

    daemon.on["Get"] = die_first
    assert client.model("gemma").call("echo", "Hi", timeout=20) == "Hi"
    first, second = (parameters["timeoutSec"] for _, parameters in daemon.asked)
    assert 0 < second < first - 0.04


def test_the_very_first_request_is_repeated_too(daemon: FakeDaemon) -> None:
    """A command's only request: it had no answer yet when the daemon went away, but a connection."""
    daemon.on["Health"] = lambda _: {"ready": True} if len(daemon.asked) > 1 else hang_up(_)
    with lazyd.Client(str(daemon.path)) as client:
        assert client.health()["ready"] is True


def test_a_load_that_told_progress_is_repeated(client: Any, daemon: FakeDaemon) -> None:
    def load(_: dict[str, Any]) -> Iterator[dict[str, Any]]:
        yield {"state": "loading", "phase": "weights"}
        yield {"state": "loading", "phase": "weights"}
        if daemon.methods() == ["Load"]:
            raise Hangup
        yield {"state": "ready", "phase": "ready"}

    daemon.on["Load"] = load
    assert client.load("gemma", progress=lambda _: None)["state"] == "ready"
    assert daemon.methods() == ["Load", "Load"]


@pytest.mark.parametrize(
    "call",
    [
        lambda c: c.status(),
        lambda c: c.unload("gemma"),
        lambda c: c.warm("gemma"),
        lambda c: c.pin("gemma"),
        lambda c: c.reload(),
        lambda c: c.register({}),
        lambda c: list(c.logs("gemma")),
    ],
)
def test_what_is_safe_is_repeated(client: Any, daemon: FakeDaemon, call: Any) -> None:
    def drop_first(_: dict[str, Any]) -> dict[str, Any]:
        if len(daemon.asked) == 1:
            raise Hangup
        return {"unloaded": [], "models": [], "model": "", "line": "x"}

    for method in ("Status", "Unload", "Warm", "Pin", "Reload", "Register", "Logs"):
        daemon.on[method] = drop_first
    call(client)
    assert len(daemon.asked) == 2


def test_what_is_not_safe_is_not_repeated(client: Any, daemon: FakeDaemon) -> None:
    daemon.on["Deregister"] = hang_up
    with pytest.raises(lazyd.ConnectionLost, match="Deregister"):
        client.deregister("x")
    assert daemon.methods() == ["Deregister"]


def test_a_stream_that_has_begun_is_not_repeated(client: Any, daemon: FakeDaemon) -> None:
    def logs(_: dict[str, Any]) -> Iterator[dict[str, Any]]:
        yield {"line": "one"}
        yield {"line": "two"}
        raise Hangup

    daemon.on["Logs"] = logs
    lines = client.logs("gemma", follow=True)
    assert next(lines) == "one"
    with pytest.raises(lazyd.ConnectionLost):
        next(lines)


def test_a_repeated_release_that_had_been_carried_out_is_done(client: Any, daemon: FakeDaemon) -> None:
    def release(parameters: dict[str, Any]) -> dict[str, Any]:
        if len(daemon.asked) == 1:
            raise Hangup
        raise errors.NoSuchLease(lease=parameters["lease"])

    daemon.on["Release"] = release
    client.release("lease-1")
    with pytest.raises(errors.NoSuchLease):
        client.release("lease-1")


def test_patience_ends(client: Any, daemon: FakeDaemon, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconnect, "PATIENCE_S", 1.0)
    daemon.on["Health"] = lambda _: {}
    client.health()
    daemon.kill()
    with pytest.raises(lazyd.Unavailable):
        client.health()
    began = time.monotonic()
    with pytest.raises(lazyd.Unavailable):  # the time is over: no waiting any more
        client.health()
    assert time.monotonic() - began < 0.9
    daemon.restart()
    client.health()


def test_a_daemon_that_hangs_up_at_once_is_not_asked_for_ever(
    client: Any, daemon: FakeDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconnect, "PATIENCE_S", 0.1)
    daemon.on["Health"] = hang_up
    with pytest.raises(lazyd.Unavailable):
        client.health()
    assert len(daemon.asked) < 20


def test_a_deadline_ends_reconnecting(client: Any, daemon: FakeDaemon) -> None:
    daemon.kill()
    began = time.monotonic()
    with pytest.raises(lazyd.Timeout, match="reconnecting"):
        client.load("gemma", timeout=0.1)
    assert time.monotonic() - began < 5


def test_a_daemon_that_shuts_down_is_not_waited_for(client: Any, daemon: FakeDaemon) -> None:
    def stop(_: dict[str, Any]) -> dict[str, Any]:
        raise errors.ShuttingDown()

    daemon.on["Get"] = stop
    began = time.monotonic()
    with pytest.raises(lazyd.Unavailable, match="being stopped") as caught:
        client.model("gemma").echo(1)
    assert caught.value.exit_status == 69
    daemon.kill()
    with pytest.raises(lazyd.Unavailable):
        client.model("gemma").echo(1)
    assert time.monotonic() - began < 5
    assert daemon.methods() == ["Get"]


def test_a_daemon_that_was_stopped_and_started_is_found_again(
    client: Any, daemon: FakeDaemon, worker: FakeWorker
) -> None:
    daemon.on["Get"] = raising(errors.ShuttingDown())
    with pytest.raises(lazyd.Unavailable):
        client.model("gemma").echo(1)
    daemon.kill()
    daemon.on["Get"] = worker.grant
    daemon.restart()
    assert client.model("gemma").echo(1) == 1


def test_a_reply_that_is_not_json_is_an_error_and_the_next_request_works(client: Any, daemon: FakeDaemon) -> None:
    def nonsense(_: dict[str, Any]) -> dict[str, Any]:
        (connection,) = daemon.connections
        connection.sendall(b"nonsense\0")
        raise Hangup

    daemon.on["Health"] = nonsense
    with pytest.raises(errors.ProtocolError):
        client.health()
    daemon.on["Health"] = lambda _: {"ready": True}
    assert client.health() == {"ready": True}


def raising(error: errors.LazydError) -> Callable[[dict[str, Any]], Any]:
    def refuse(_: dict[str, Any]) -> Any:
        raise error

    return refuse


def hang_up(_: dict[str, Any]) -> Any:
    raise Hangup
