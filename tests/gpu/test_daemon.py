"""A daemon with a real GPU: what it loads there is booked, seen, moved, parked and given back.

Every model here holds a GiB, and is declared with 3, which is more than a GiB and any context take.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.nvml import GIB, MIB
from tests.integration.conftest import Client, Daemon, DataLine, Refused

from .conftest import CONTEXT, LIMIT_S, NOISE, ROOT, Gpu

LAZYCTL = str(Path(sys.executable).with_name("lazyctl"))


class Machine:
    """A daemon that has yet to be started, on a GPU of which it may use 4 GiB: one model fits, two do not."""

    def __init__(self, daemon: Daemon, gpu: Gpu) -> None:
        self.daemon = daemon
        self.gpu = gpu
        self.before = gpu.used()

    def start(self, **models: dict[str, Any]) -> Client:
        """Starts with these models. Their words are their spec's, and `size_mib`."""
        text = ["[budget]", f'{self.gpu.name} = "4GiB"']
        for name, words in models.items():
            options = {"size_mib": words.get("size_mib", 1024)}
            spec = {
                "runtime": "python",
                "factory": "tests.gpu.cuda_model:make",
                "python_path": [str(ROOT)],
                "device": [self.gpu.name],
                "memory": "3GiB",
                **{key: value for key, value in words.items() if key not in options},
            }
            text += [f"[models.{name}]", *(f"{key} = {json.dumps(value)}" for key, value in spec.items())]
            text += [f"[models.{name}.options]", f"size_mib = {options['size_mib']}"]
        self.daemon.configure("\n".join(text))
        client = self.daemon.start(env=self.gpu.environment)
        client.socket.settimeout(LIMIT_S)
        self.until(lambda: self.device()["totalBytes"])
        return client

    def device(self) -> dict[str, Any]:
        """What the daemon shows of the GPU; nothing of it is known yet at first."""
        with self.daemon.client() as client:
            devices = {device["name"]: device for device in client.call("Status")["devices"]}
        found: dict[str, Any] = devices.get(self.gpu.name, {"totalBytes": 0})
        return found

    def tell(self, model: str) -> dict[str, Any]:
        """What a model tells of itself, loaded if it is not."""
        with self.daemon.client() as client:
            client.socket.settimeout(LIMIT_S)
            with DataLine(client.call("Get", model=model)) as line:
                told: dict[str, Any] = line.call("tell")
        return told

    def until(self, condition: Callable[[], Any]) -> Any:
        return self.daemon.until(condition, LIMIT_S)

    def until_all_is_given_back(self) -> None:
        self.until(lambda: self.device()["bookedBytes"] == 0)
        self.until(lambda: self.gpu.used() <= self.before + NOISE)
        assert self.device()["quarantinedBytes"] == 0


@pytest.fixture
def machine(daemon: Daemon, gpu: Gpu) -> Machine:
    return Machine(daemon, gpu)


def test_the_daemon_shows_the_gpu_as_it_is(machine: Machine, gpu: Gpu) -> None:
    machine.start(one={})
    sample, shown = gpu.sample(), machine.device()
    assert (shown["state"], shown["uuid"], shown["label"]) == ("ok", sample["uuid"], sample["label"])
    assert (shown["totalBytes"], shown["budgetBytes"]) == (sample["total_bytes"], 4 * GIB)
    assert shown["foreignBytes"] == pytest.approx(sample["used_bytes"], abs=NOISE)
    assert shown["temperatureC"] > 0
    assert gpu.of_process(machine.daemon.process.pid) is None  # type: ignore[union-attr]


def test_a_model_is_kept_to_its_gpu_and_what_it_holds_is_not_taken_for_a_strangers(machine: Machine, gpu: Gpu) -> None:
    machine.start(one={})
    foreign = machine.device()["foreignBytes"]
    assert machine.tell("one")["visible"] == gpu.uuid
    assert gpu.used() >= machine.before + GIB
    # Also where the driver shows no processes, or those of another namespace.
    machine.until(
        lambda: machine.device()["bookedBytes"] >= GIB and machine.device()["foreignBytes"] <= foreign + NOISE
    )


def test_what_an_unloaded_model_had_is_booked_until_the_driver_shows_it_and_no_longer(machine: Machine) -> None:
    client = machine.start(one={})
    client.call("Load", model="one")
    client.call("Unload", models=["one"])
    assert machine.gpu.used() <= machine.before + NOISE
    machine.until_all_is_given_back()


def test_a_program_that_is_started_by_hand_is_counted_as_a_stranger(machine: Machine, gpu: Gpu) -> None:
    machine.start(one={})
    if gpu.of_process(machine.tell("one")["pid"]) is None:  # what is booked is looked at every second
        pytest.skip("the driver shows no processes here: what a stranger takes may be taken for the worker's")
    foreign = machine.device()["foreignBytes"]
    stranger = gpu.program()
    assert stranger.ask(f"allocate {2 * GIB}") == "ok"
    machine.until(lambda: machine.device()["foreignBytes"] >= foreign + 2 * GIB)
    stranger.kill()
    machine.until(lambda: machine.device()["foreignBytes"] <= foreign + NOISE)


def test_a_model_leaves_for_another_for_which_there_is_no_room_beside_it(machine: Machine) -> None:
    machine.start(one={}, two={})
    first = machine.tell("one")
    second = machine.tell("two")
    assert first["pid"] != second["pid"]
    assert (machine.daemon.model("one")["state"], machine.daemon.model("one")["evictions"]) == ("cold", 1)
    assert machine.gpu.used() <= machine.before + GIB + CONTEXT
    with machine.daemon.client() as client:
        client.socket.settimeout(LIMIT_S)
        client.call("Unload", all=True)
    machine.until_all_is_given_back()


def test_a_load_that_runs_out_of_memory_is_told_apart_and_tried_once_more_and_leaves_nothing(machine: Machine) -> None:
    there_is = machine.gpu.sample()["total_bytes"]
    client = machine.start(calm={"memory": "1GiB", "size_mib": 64}, big={"memory": "2GiB", "size_mib": there_is // MIB})
    machine.tell("calm")
    with pytest.raises(Refused, match=r"it ran out of memory twice: .*CUDA error: out of memory") as refused:
        client.call("Load", model="big")
    assert refused.value.name == "io.lazyd.NoRoom"
    assert machine.daemon.log_text().count("big loading") == 2
    machine.tell("calm")  # it may have left for the second try
    client.call("Unload", all=True)
    machine.until_all_is_given_back()


def test_what_a_model_uses_beyond_what_it_declares_is_booked(machine: Machine) -> None:
    machine.start(one={"memory": "256MiB"})
    pid = machine.tell("one")["pid"]
    if machine.gpu.of_process(pid) is None:
        pytest.skip("the driver shows no processes here: a worker is taken for no more than it is booked with")
    machine.until(lambda: machine.device()["bookedBytes"] >= GIB)


def test_a_parked_model_holds_its_context_alone_and_comes_back_in_its_process(machine: Machine) -> None:
    machine.start(one={"factory": "tests.gpu.cuda_model:make_parkable", "idle_timeout": "200ms"})
    pid = machine.tell("one")["pid"]
    machine.until(lambda: machine.daemon.model("one")["state"] == "parked")
    machine.until(lambda: machine.gpu.used() <= machine.before + CONTEXT)
    machine.until(lambda: 0 < machine.daemon.model("one")["bookedBytes"].get(machine.gpu.name, 0) < CONTEXT)
    booked, own = machine.daemon.model("one")["bookedBytes"][machine.gpu.name], machine.gpu.of_process(pid)
    assert own is None or booked == pytest.approx(own, abs=NOISE)
    assert machine.tell("one")["pid"] == pid
    machine.until(lambda: machine.daemon.model("one")["state"] == "parked")
    with machine.daemon.client() as client:
        client.socket.settimeout(LIMIT_S)
        client.call("Unload", models=["one"])
    machine.until_all_is_given_back()


def test_what_a_program_uses_inside_its_reservation_is_not_a_strangers(machine: Machine, gpu: Gpu) -> None:
    machine.start(one={})
    foreign = machine.device()["foreignBytes"]
    program = [sys.executable, "-m", "tests.gpu.cuda"]
    reserve = gpu.run([LAZYCTL, "reserve", gpu.name, "3GiB", "--", *program], LAZYD_SOCKET=machine.daemon.socket)
    assert reserve.hear() == "ok"
    assert reserve.ask(f"allocate {GIB}") == "ok"
    assert machine.device()["reservedBytes"] == 3 * GIB
    if gpu.of_process(int(reserve.ask("pid"))) is None:
        pytest.skip("the driver shows no processes here, so nobody knows which bytes are the program's")
    machine.until(lambda: machine.device()["foreignBytes"] <= foreign + NOISE)
    assert reserve.end() == 0
    machine.until_all_is_given_back()
