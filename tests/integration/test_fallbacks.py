"""Answers in time, over real sockets: fallbacks, and whose time limit holds."""

from __future__ import annotations

import subprocess
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import lazyd

from .conftest import LAZYCTL, LIMIT_S, Client, Daemon, DataLine, Refused

WARNED = pytest.mark.filterwarnings("ignore::lazyd.Degraded")


def configured(daemon: Daemon, gate: Path, fallback: str, *more: str, daemon_table: str = "") -> Client:
    """A daemon with `slow`, which is loaded when `gate` is there."""
    lines = [daemon_table, f'@slow options.gate="{gate}"']
    if fallback:
        lines += ['[models."slow".fallback]', fallback]
    daemon.configure("\n".join([*lines, *more]))
    return daemon.start()


class Aside:
    """Something done in a thread of its own; `result` waits for it."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self._outcome: list[Any] = []
        self._failure: list[BaseException] = []
        self._thread = threading.Thread(target=self._run, args=(work,), daemon=True)
        self._thread.start()

    def _run(self, work: Callable[[], Any]) -> None:
        try:
            self._outcome.append(work())
        except BaseException as error:  # it is raised where it is waited for
            self._failure.append(error)

    @property
    def is_over(self) -> bool:
        return not self._thread.is_alive()

    def result(self) -> Any:
        self._thread.join(LIMIT_S)
        assert self.is_over, "it goes on"
        if self._failure:
            raise self._failure[0]
        return self._outcome[0]


# Fallbacks.


def test_get_answers_with_the_value_and_no_lease_and_the_load_goes_on(daemon: Daemon, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    with configured(daemon, gate, 'value = {text = "sorry"}\nafter = "200ms"') as client:
        reply = client.call("Get", model="slow")
        assert reply["value"] == {"text": "sorry"}
        assert reply["model"] == "slow"
        assert "lease" not in reply
        assert reply["waitedSec"] >= 0.2
        assert reply["degraded"].startswith("slow is not ready after 0.")
        gate.touch()
        daemon.until_state("slow", "ready")
        again = client.call("Get", model="slow")
        assert "degraded" not in again
        assert again["lease"]


def test_get_answers_with_a_lease_on_another_model(daemon: Daemon, tmp_path: Path) -> None:
    with configured(daemon, tmp_path / "gate", 'model = "small"\nafter = "200ms"', "@small") as client:
        reply = client.call("Get", model="slow")
        assert reply["model"] == "small"
        assert "slow is not ready" in reply["degraded"]
        with DataLine(reply) as line:
            assert line.call("echo", 1)["args"] == [1]
        assert client.call("Call", model="slow", method="echo", args=[2])["degraded"].startswith("slow is not ready")


def test_a_method_that_only_the_wanted_model_has_is_the_callers_error(daemon: Daemon, tmp_path: Path) -> None:
    small = '[models.small]\nruntime = "python"\nfactory = "collections:Counter"'
    with (
        configured(daemon, tmp_path / "gate", 'model = "small"\nafter = "100ms"', small) as client,
        pytest.raises(Refused, match=r"NoSuchMethod.*small"),
    ):
        client.call("Call", model="slow", method="echo")


@WARNED
def test_a_program_asks_for_the_wanted_model_until_it_answers_itself(daemon: Daemon, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    with configured(daemon, gate, 'model = "small"\nafter = "200ms"', "@small"), lazyd.connect(daemon.socket) as c:
        slow = c.model("slow")
        assert slow.call("pid", meta=True).degraded
        assert slow.pid() == c.model("small").pid()
        gate.touch()
        daemon.until_state("slow", "ready")
        answer = slow.call("pid", meta=True)
        assert answer.degraded is None
        assert answer.result != c.model("small").pid()
        assert daemon.model("slow")["leases"] == 1


def test_a_program_that_asks_for_bare_results_is_warned(daemon: Daemon, tmp_path: Path) -> None:
    with (
        configured(daemon, tmp_path / "gate", 'value = 7\nafter = "100ms"'),
        lazyd.connect(daemon.socket) as client,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("error")
        with pytest.raises(lazyd.Degraded, match="slow was not ready"):
            client.model("slow").echo()


def test_lazyctl_says_on_standard_error_that_a_fallback_has_answered(daemon: Daemon, tmp_path: Path) -> None:
    with configured(daemon, tmp_path / "gate", 'value = "sorry"\nafter = "100ms"'):
        command = [LAZYCTL, "--socket", daemon.socket, "call", "slow", "echo"]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=LIMIT_S)
    assert done.stdout == "sorry\n"
    assert done.stderr.startswith("degraded: slow is not ready")
    assert done.stderr.count("\n") == 1


def test_a_model_that_cannot_be_made_is_stood_in_for_at_once(daemon: Daemon) -> None:
    daemon.configure('@bad factory="actors:broken"\n[models.bad.fallback]\nvalue = 0\nafter = "1h"')
    with daemon.start() as client:
        assert "could not be loaded: " in client.call("Get", model="bad")["degraded"]
        with pytest.raises(Refused, match="LoadFailed"):
            client.call("Load", model="bad")


def test_who_only_loads_or_warms_waits_for_the_model_itself(daemon: Daemon, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    with configured(daemon, gate, 'value = 7\nafter = "50ms"') as client:
        load = Aside(lambda: client.call("Load", model="slow"))
        warm = Aside(lambda: daemon.client().call("Warm", models=["slow"], wait=True))
        with daemon.client() as other:
            assert other.call("Get", model="slow")["value"] == 7
        assert not load.is_over
        assert not warm.is_over
        gate.touch()
        assert load.result()["state"] == "ready"
        assert warm.result()["models"][0]["state"] == "ready"


# Whose time limit holds.


def test_a_callers_own_limit_is_kept_and_told_with_what_is_known(daemon: Daemon, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    with configured(daemon, gate, "") as client, daemon.client() as other:
        other.send("Load", {"model": "slow"})
        daemon.until_it_loads("slow", gate)
        with pytest.raises(Refused) as refused:
            client.call("Get", model="slow", timeoutSec=0.3)
        assert refused.value.parameters["timeoutSec"] == pytest.approx(0.3, abs=0.01)
        assert refused.value.parameters["phase"] == "loading"
        daemon.until(lambda: daemon.model("slow")["waiting"] == 1)
        assert daemon.model("slow")["state"] == "loading"


@pytest.mark.parametrize("ask", ["library", "asyncio", "lazyctl", "Call"])
def test_who_has_no_limit_waits_as_long_as_a_first_load_takes(daemon: Daemon, tmp_path: Path, ask: str) -> None:
    """No shorter default lies in wait anywhere: all come to the daemon's `first_call_timeout`, and no sooner."""
    table = '[daemon]\nfirst_call_timeout = "700ms"'
    with configured(daemon, tmp_path / "gate", "", daemon_table=table):
        began = time.monotonic()
        with pytest.raises((lazyd.Timeout, Refused, subprocess.CalledProcessError)) as raised:
            ways(daemon)[ask]()
        assert time.monotonic() - began >= 0.7
    error = raised.value
    if isinstance(error, subprocess.CalledProcessError):
        assert error.returncode == lazyd.Timeout.exit_status
    else:
        assert "Timeout" in f"{type(error).__name__} {error}"
        limit_s = error.timeout_sec if isinstance(error, lazyd.Timeout) else error.parameters["timeoutSec"]  # type: ignore[union-attr]
        assert limit_s == pytest.approx(0.7)


@pytest.mark.parametrize("ask", ["library", "asyncio", "lazyctl", "Call"])
def test_the_widened_limit_is_that_of_the_load_and_not_of_the_call(daemon: Daemon, tmp_path: Path, ask: str) -> None:
    """Once the model is ready, nothing ends a call whose caller has set no limit."""
    gate, end = tmp_path / "gate", tmp_path / "end"
    table = '[daemon]\nfirst_call_timeout = "3s"'
    with configured(daemon, gate, "", daemon_table=table) as client, daemon.client() as other:
        other.send("Load", {"model": "slow"})
        daemon.until_it_loads("slow", gate)
        call = Aside(lambda: ways(daemon, "wait_for", str(end))[ask]())
        daemon.until(lambda: daemon.model("slow")["waiting"] == 2)
        gate.touch()
        daemon.until(lambda: daemon.model("slow")["inFlight"])
        time.sleep(3.2)  # the limit passes
        assert client.call("Health")["live"]
        assert not call.is_over
        end.touch()
        call.result()


def ways(daemon: Daemon, method: str = "echo", *args: str) -> dict[str, Callable[[], Any]]:
    """Every way in which a program can call `slow`."""

    def library() -> Any:
        with lazyd.connect(daemon.socket) as client:
            return client.call("slow", method, *args)

    def in_asyncio() -> Any:
        import asyncio

        async def call() -> Any:
            async with await lazyd.connect_async(daemon.socket) as client:
                return await client.call("slow", method, *args)

        return asyncio.run(call())

    def lazyctl() -> Any:
        import json

        command = [LAZYCTL, "--socket", daemon.socket, "call", "slow", method, json.dumps(args)]
        return subprocess.run(command, capture_output=True, check=True, timeout=LIMIT_S)

    def by_call() -> Any:
        with daemon.client() as client:
            return client.call("Call", model="slow", method=method, args=list(args))

    return {"library": library, "asyncio": in_asyncio, "lazyctl": lazyctl, "Call": by_call}


def test_a_callers_own_limit_spans_a_restart_of_the_daemon(daemon: Daemon, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    with configured(daemon, gate, ""):

        def call() -> float:
            with lazyd.connect(daemon.socket) as client, pytest.raises(lazyd.Timeout) as raised:
                client.call("slow", "echo", timeout=8)
            assert raised.value.timeout_sec == 8
            return time.monotonic()

        began = time.monotonic()
        waits = Aside(call)
        daemon.until_it_loads("slow", gate)
        daemon.kill()
        time.sleep(max(0.0, began + 4 - time.monotonic()))  # half of the limit passes
        again = time.monotonic()
        with daemon.start():
            ended = waits.result()
            assert began + 8 <= ended < again + 8  # neither cut short nor begun anew
            daemon.until(lambda: daemon.model("slow")["waiting"] == 0)


def test_a_fallback_answers_within_the_callers_limit_after_a_restart_of_the_daemon(
    daemon: Daemon, tmp_path: Path
) -> None:
    gate = tmp_path / "gate"
    with configured(daemon, gate, 'value = 7\nafter = "1h"'):

        def call() -> lazyd.Answer:
            with lazyd.connect(daemon.socket) as client:
                return client.call("slow", "echo", timeout=10, meta=True)

        waits = Aside(call)
        daemon.until_it_loads("slow", gate)
        daemon.kill()
        with daemon.start():
            answer = waits.result()
            assert answer.result == 7
            assert answer.degraded


def test_a_client_that_hangs_up_gives_its_places_back(daemon: Daemon, tmp_path: Path) -> None:
    """Those in the line of the model, and of its fallback."""
    gates = tmp_path / "gate", tmp_path / "other"
    with configured(daemon, gates[0], 'model = "small"\nafter = "100ms"', f'@small options.gate="{gates[1]}"'):
        with daemon.client() as other:
            other.send("Get", {"model": "slow"})
            daemon.until(lambda: daemon.model("small")["waiting"] == 1)
            assert daemon.model("slow")["waiting"] == 1
            for name, gate in zip(("slow", "small"), gates, strict=True):
                daemon.until_it_loads(name, gate)
        daemon.until(lambda: [daemon.model(name)["waiting"] for name in ("slow", "small")] == [0, 0])
        for gate in gates:
            gate.touch()
        for name in ("slow", "small"):
            assert daemon.until_state(name, "ready")["leases"] == 0
