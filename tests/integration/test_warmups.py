"""Real models are warmed up by real workers, before their first call or beside the calls of others."""

from __future__ import annotations

import json
import signal
from typing import Any

import pytest

from .conftest import Daemon, DataLine, Refused, gone
from .host_driver import MODELS

WARMED = '''
import os, threading, time

class Warmed:
    """Writes down what is called, and its pid. `gate`: a file for which each call of `run` waits."""
    def __init__(self, log, gate=None, answers=(), own=None):
        self.log, self.gate, self.own = log, gate, own
        self.answers = [float(a) if a == "inf" else a for a in answers]
        with open(log + ".pid", "w") as file: file.write(str(os.getpid()))
    def note(self, what):
        with open(self.log, "a") as file: file.write(what + "\\n")
    def run(self, x=None):
        self.note("run" if x is None else f"run {getattr(x, 'shape', x)}")
        while self.gate and not os.path.exists(self.gate): time.sleep(0.01)
        if getattr(x, "shape", None) == (7,): raise ValueError("expected 3 numbers, got 7")
        return self.answers.pop(0) if self.answers else 1.0
    def ask(self):
        self.note("ask")
        return "answered"

class WithOwn(Warmed):
    def warmup(self):
        self.note("warmup")
        if self.own == "fails": raise RuntimeError("the weights are damaged")

def make(**options): return Warmed(**options)
def make_own(**options): return WithOwn(**options)
'''


class Machine:
    """A daemon with one model that writes down what it is called."""

    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon
        self.root = daemon.root
        self.log = self.root / "calls"
        self.gate = self.root / "gate"
        (self.root / "warmed.py").write_text(WARMED)

    def configure(self, warmup: str = "", factory: str = "make", **options: Any) -> None:
        """`warmup` are the lines of the table; without any there is none."""
        given = {"log": str(self.log), **options}
        lines = [
            "[models.m]",
            'runtime = "python"',
            f'factory = "warmed:{factory}"',
            f"python_path = {json.dumps([str(self.root)])}",
            "[models.m.options]",
            *(f"{name} = {json.dumps(value)}" for name, value in given.items()),
        ]
        lines += ["[models.m.warmup]", warmup] if warmup else []
        self.daemon.configure("\n".join(lines))

    @property
    def calls(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []

    @property
    def pid(self) -> int:
        """Of the process in which the model was loaded last."""
        return int(self.log.with_name("calls.pid").read_text())

    def status(self) -> dict[str, Any]:
        return self.daemon.model("m")

    def open(self) -> None:
        self.gate.touch()

    def until_calls(self, n: int) -> None:
        self.daemon.until(lambda: len(self.calls) >= n)


@pytest.fixture
def machine(daemon: Daemon) -> Machine:
    return Machine(daemon)


def refusal(client: Any, **parameters: Any) -> Refused:
    with pytest.raises(Refused) as caught:
        client.call("Load", model="m", **parameters)
    return caught.value


def test_a_model_with_a_warm_up_of_its_own_is_ready_after_it(machine: Machine) -> None:
    machine.configure(factory="make_own")
    client = machine.daemon.start()
    client.call("Load", model="m")
    assert machine.calls == ["warmup"]
    status = machine.status()
    assert (status["state"], status["warmup"], status["warmupSuccess"]) == ("ready", "done", 1.0)


def test_a_warm_up_of_its_own_that_fails_is_a_failed_load(machine: Machine) -> None:
    machine.configure(factory="make_own", own="fails")
    client = machine.daemon.start()
    assert "the weights are damaged (call 1 of 1)" in refusal(client).parameters["reason"]
    assert machine.status()["warmup"] == "failed"


def test_every_call_of_a_warm_up_has_its_input(machine: Machine) -> None:
    machine.configure('method = "run"\ncalls = 3\nargs = [{shape = [[3], [1, 3]], fill = "random"}]')
    client = machine.daemon.start()
    client.call("Load", model="m")
    assert machine.calls == ["run (3,)", "run (1, 3)", "run (3,)"]


def test_an_input_that_does_not_fit_is_the_reason(machine: Machine) -> None:
    machine.configure('method = "run"\nargs = [{shape = [7]}]')
    client = machine.daemon.start()
    assert "expected 3 numbers, got 7 (call 1 of 1)" in refusal(client).parameters["reason"]


def test_a_model_whose_first_answers_are_wrong_is_never_ready(machine: Machine) -> None:
    machine.configure('method = "run"\ncalls = 3\nexpect = {finite = true, not_empty = true}', answers=[1.0, ""])
    client = machine.daemon.start()
    with pytest.raises(Refused) as caught:
        client.call("Get", model="m")
    assert caught.value.parameters["reason"] == "warm-up: output is empty (call 2 of 3)"
    assert machine.calls == ["run", "run"]
    assert machine.status()["state"] == "failed"


def test_nobody_is_let_in_before_a_warm_up_is_over(machine: Machine) -> None:
    machine.configure('method = "run"\ncalls = 2', gate=str(machine.gate))
    client = machine.daemon.start()
    client.send("Get", {"model": "m"})
    machine.until_calls(1)
    status = machine.daemon.until_state("m", "warming")
    assert (status["warmup"], status["leases"]) == ("running", 0)
    machine.open()
    with DataLine(client.result()) as line:
        assert line.call("ask") == "answered"
    assert machine.calls == ["run", "run", "ask"]


def test_a_warm_up_that_hangs_is_ended_with_its_worker_and_its_limit_is_named(machine: Machine) -> None:
    machine.configure('method = "run"\ntimeout = "1s"', gate=str(machine.gate))
    client = machine.daemon.start()
    client.send("Load", {"model": "m"})
    with pytest.raises(Refused) as caught:
        client.result()
    assert "warmup.timeout" in caught.value.parameters["reason"]
    machine.daemon.until(lambda: gone(machine.pid))


def test_an_unload_ends_a_warm_up(machine: Machine) -> None:
    machine.configure('method = "run"', gate=str(machine.gate))
    client = machine.daemon.start()
    client.send("Load", {"model": "m"})
    machine.until_calls(1)
    with machine.daemon.client() as other:
        assert other.call("Unload", models=["m"])["unloaded"] == ["m"]
    with pytest.raises(Refused, match="Cancelled"):
        client.result()
    assert machine.status()["state"] == "cold"


def test_beside_calls_a_model_serves_at_once_and_a_waiting_call_goes_first(machine: Machine) -> None:
    machine.configure('mode = "async"\nmethod = "run"\ncalls = 3', gate=str(machine.gate))
    client = machine.daemon.start()
    lease = client.call("Get", model="m")
    machine.until_calls(1)
    assert (machine.status()["state"], machine.status()["warmup"]) == ("ready", "running")
    with DataLine(lease) as line:
        line.begin("ask")
        machine.daemon.until(lambda: machine.status()["inFlight"] == 1)
        machine.open()
        assert line.end() == "answered"
    machine.daemon.until(lambda: machine.status()["warmup"] == "done")
    assert machine.calls == ["run", "ask", "run", "run"]


def test_beside_calls_one_that_fails_leaves_and_is_paused(machine: Machine) -> None:
    machine.configure('mode = "async"\nmethod = "run"\nexpect = {finite = true}', answers=["inf"])
    client = machine.daemon.start()
    client.call("Load", model="m")
    status = machine.daemon.until_state("m", "failed")
    assert status["lastError"] == "warm-up: output is not finite (call 1 of 1)"
    assert status["warmup"] == "failed"
    assert "1 of the last 1 warm-ups failed" in status["fellBack"]


def test_on_demand_a_second_load_needs_none_even_after_a_restart_of_the_daemon(machine: Machine) -> None:
    machine.configure('mode = "on-demand"\nmethod = "run"')
    client = machine.daemon.start()
    for _ in range(2):
        client.call("Load", model="m")
        assert machine.status()["warmup"] == "done"
        client.call("Unload", models=["m"])
    assert machine.calls == ["run"]
    machine.daemon.signal(signal.SIGINT)
    machine.daemon.start().call("Load", model="m")
    assert machine.calls == ["run"]


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_warm_up_goes_on_while_managers_change(machine: Machine, mode: str) -> None:
    machine.configure(f'mode = "{mode}"\nmethod = "run"\ncalls = 2', gate=str(machine.gate))
    machine.daemon.start().send("Load", {"model": "m"})
    machine.until_calls(1)
    before = machine.daemon.until_state("m", "warming" if mode == "sync" else "ready")
    machine.daemon.kill()
    client = machine.daemon.start()
    found = machine.daemon.until_state("m", before["state"])
    assert found["workers"][0]["pid"] == before["workers"][0]["pid"]
    assert found["warmup"] == "running"
    machine.open()
    client.call("Load", model="m")
    assert machine.daemon.until(lambda: machine.status()["warmup"] == "done")
    assert machine.calls == ["run", "run"]


def test_a_warm_up_that_ended_while_no_manager_was_there_has_ended(machine: Machine) -> None:
    machine.configure('method = "run"\ncalls = 2', gate=str(machine.gate))
    machine.daemon.start().send("Load", {"model": "m"})
    machine.until_calls(1)
    machine.daemon.until_state("m", "warming")
    machine.daemon.kill()
    machine.open()
    machine.until_calls(2)
    machine.daemon.start()
    status = machine.daemon.until_state("m", "ready")
    assert status["warmup"] == "done"
    assert machine.calls == ["run", "run"]


def test_another_warm_up_leaves_a_hot_model_alone_and_is_made_with_the_next_load(machine: Machine) -> None:
    machine.configure('method = "run"')
    client = machine.daemon.start()
    client.call("Load", model="m")
    pid = machine.pid
    machine.configure('method = "ask"\ncalls = 2')
    assert client.call("Reload")["changed"] == ["m"]
    client.call("Load", model="m")
    assert (machine.pid, machine.calls) == (pid, ["run"])
    client.call("Unload", models=["m"])
    client.call("Load", model="m")
    assert machine.calls == ["run", "ask", "ask"]


def test_a_model_that_failed_by_its_warm_up_is_loaded_at_once_when_another_one_is_configured(machine: Machine) -> None:
    machine.configure('method = "ask"\nexpect = {contains = "anything else"}')
    client = machine.daemon.start()
    for _ in range(3):  # its pause is 4 s in the end
        machine.daemon.until(lambda: not machine.status().get("retryAfterSec"))
        refusal(client)
    machine.configure('method = "ask"\nexpect = {contains = "answered"}')
    client.call("Reload")
    client.call("Load", model="m")
    assert machine.status()["warmup"] == "done"


@pytest.fixture
def smollm2() -> str:
    """Where the model is."""
    path = MODELS / "smollm2.gguf"
    if not path.exists():
        pytest.skip(f"{MODELS} has no models (make setup)")
    return str(path)


@pytest.mark.parametrize("tokens", ["200", '"max_seq_len"'])
def test_a_language_model_is_warmed_up_with_a_text_of_so_many_of_its_tokens(
    daemon: Daemon, smollm2: str, tokens: str
) -> None:
    daemon.configure(
        f"""
[models.m]
runtime = "llama_cpp"
path = {json.dumps(smollm2)}
[models.m.options]
n_ctx = 512
[models.m.warmup]
args = [{{tokens = {tokens}, text = "all quiet"}}]
kwargs = {{max_tokens = 2}}
expect = {{not_empty = true}}
timeout = "5min"
"""
    )
    client = daemon.start()
    client.socket.settimeout(120)
    client.call("Load", model="m")
    status = daemon.model("m")
    assert (status["state"], status["warmup"]) == ("ready", "done")
    assert status["warmupMedianSec"] > 0


def test_a_language_model_whose_answer_is_another_is_not_ready(daemon: Daemon, smollm2: str) -> None:
    daemon.configure(
        f"""
[models.m]
runtime = "llama_cpp"
path = {json.dumps(smollm2)}
options = {{n_ctx = 256}}
warmup = {{kwargs = {{temperature = 0.0}}, expect = {{contains = "xyzzy"}}}}
"""
    )
    assert "does not contain 'xyzzy' (call 1 of 1)" in refusal(daemon.start()).parameters["reason"]
