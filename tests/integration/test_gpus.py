"""Real manager, host and workers on the stand-in driver: GPUs that are shared, full, slow, deaf or lost."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.nvml import GIB, MIB, StandIn
from tests.fakes.nvml.driver import UNKNOWN

from .conftest import Client, Daemon, DataLine, Refused

ROOT = Path(__file__).parents[2]
MEMORY = "nvmlDeviceGetMemoryInfo_v2"


class Machine:
    """A daemon on a machine with two GPUs, of 8 and 4 GiB."""

    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon
        self.driver = StandIn(daemon.root / "driver", gpus=[8 * GIB, 4 * GIB], release_s=0.3)

    def start(self, **models: dict[str, Any]) -> Client:
        """Starts with these models. `size_mib` and the other words of the model are its options, the rest its spec."""
        text = ["[budget]", 'gpu_margin = "0MiB"']
        for name, words in models.items():
            spec = {key: words[key] for key in words.keys() & {"device", "memory", "idle_timeout", "pin"}}
            options = {key: value for key, value in words.items() if key not in spec}
            spec.setdefault("memory", f"{options.get('size_mib', 0) + 1}MiB")
            text += [f"[models.{name}]", 'runtime = "python"', 'factory = "tests.fakes.gpu_model:make"']
            text += [f"python_path = {json.dumps([str(ROOT)])}"]
            text += [f"{key} = {json.dumps(value)}" for key, value in spec.items()]
            text += [f"[models.{name}.options]", *(f"{key} = {json.dumps(value)}" for key, value in options.items())]
        self.daemon.configure("\n".join(text))
        client = self.daemon.start(env=self.driver.environment())
        self.daemon.until(lambda: self.daemon.host_pid())
        return client

    def device(self, name: str) -> dict[str, Any]:
        with self.daemon.client() as client:
            found: dict[str, Any] = next(d for d in client.call("Status")["devices"] if d["name"] == name)
        return found

    def until(self, condition: Callable[[], Any], within_s: float = 20.0) -> None:
        self.daemon.until(condition, within_s)


@pytest.fixture
def machine(daemon: Daemon) -> Iterator[Machine]:
    machine = Machine(daemon)
    yield machine
    machine.driver.heal()


def test_a_model_is_kept_to_its_gpu_and_its_bytes_are_not_a_strangers(machine: Machine) -> None:
    machine.driver.stranger(0, GIB)
    client = machine.start(
        here={"device": ["gpu0"], "size_mib": 1024},
        below={"device": ["gpu1"], "size_mib": 512, "in_child": True},
    )
    for name, gpu, size in (("here", 0, GIB), ("below", 1, 512 * MIB)):
        with DataLine(client.call("Get", model=name)) as line:
            assert line.call("tell")["bytes"] == [size]
            assert line.call("tell")["gpus"] == [gpu]
    assert (machine.driver.used(0), machine.driver.used(1)) == (2 * GIB, 512 * MIB)
    machine.until(lambda: machine.device("gpu0")["foreignBytes"] == GIB)
    machine.until(lambda: machine.device("gpu1")["foreignBytes"] == 0)


def test_a_stranger_is_counted_within_a_second_while_something_is_loaded(machine: Machine) -> None:
    client = machine.start(here={"device": ["gpu0"], "size_mib": 1024})
    client.call("Load", model="here")
    stranger = machine.driver.stranger(0, 3 * GIB)
    began = time.monotonic()
    machine.until(lambda: machine.device("gpu0")["foreignBytes"] == 3 * GIB)
    assert time.monotonic() - began < 2.0
    stranger.free()
    machine.until(lambda: machine.device("gpu0")["foreignBytes"] == 0)


def test_the_next_load_waits_for_the_bytes_of_the_last_one_and_starts_when_they_are_seen(machine: Machine) -> None:
    client = machine.start(
        one={"device": ["gpu1"], "size_mib": 3000},
        two={"device": ["gpu1"], "size_mib": 3000},
    )
    client.call("Load", model="one")
    first = machine.daemon.model("one")["workers"][0]["pid"]
    with machine.daemon.client() as reader:
        happening = reader.stream("Subscribe")
        client.send("Load", {"model": "two"})
        machine.until(lambda: machine.driver.held(1, first) == 0)
        assert machine.driver.used(1) == 3000 * MIB  # the process is gone, and its bytes still show
        while machine.driver.used(1) == 3000 * MIB:
            assert machine.daemon.model("two")["state"] == "cold"
        freed = time.time()
        started = next(event for event in happening if (event.get("model"), event["kind"]) == ("two", "loading"))
    client.result()
    assert machine.driver.refused(1) == 0
    assert started["time"] - freed < 0.1


def test_what_strangers_hold_is_not_loaded_upon_and_the_refusal_says_so(machine: Machine) -> None:
    stranger = machine.driver.stranger(1, 2 * GIB)
    client = machine.start(small={"device": ["gpu1"], "size_mib": 1}, big={"device": ["gpu1"], "size_mib": 3000})
    client.call("Load", model="small")  # what is booked there is looked at every second
    with pytest.raises(Refused, match=r"other programs use 2\.0 GiB") as refused:
        client.call("Load", model="big")
    assert refused.value.name == "io.lazyd.NoRoom"
    assert machine.driver.highest(1) == 2 * GIB + MIB
    stranger.free()
    machine.until(lambda: machine.device("gpu1")["foreignBytes"] == 0)
    client.call("Load", model="big")
    assert machine.driver.refused(1) == 0


def test_a_gpu_whose_driver_hangs_takes_no_loads_and_disturbs_no_others(machine: Machine) -> None:
    client = machine.start(
        small={"device": ["gpu0"], "size_mib": 1},
        here={"device": ["gpu0"], "size_mib": 1024},
        there={"device": ["gpu1"], "size_mib": 1024},
    )
    client.call("Load", model="small")  # what is booked there is looked at every second
    machine.driver.hang(MEMORY, gpu=0)
    machine.until(lambda: machine.driver.hanging == 1)
    client.send("Load", {"model": "here"})
    with machine.daemon.client() as other:
        other.call("Load", model="there")
    assert machine.daemon.model("here")["state"] == "cold"
    machine.driver.heal()
    client.result()
    assert machine.driver.used(0) == 1025 * MIB


def test_a_driver_that_fails_in_the_middle_of_a_load_does_not_stop_it(machine: Machine) -> None:
    gate = machine.daemon.root / "gate"
    client = machine.start(here={"device": ["gpu0"], "size_mib": 1024, "gate": str(gate)})
    client.send("Load", {"model": "here"})
    machine.until(lambda: machine.driver.used(0) == GIB)
    for function in (MEMORY, "nvmlDeviceGetMemoryInfo", "nvmlDeviceGetComputeRunningProcesses_v3"):
        machine.driver.fail(function, UNKNOWN)
    gate.touch()
    client.result()
    machine.driver.heal()
    client.call("Unload", models=["here"])
    machine.until(lambda: machine.device("gpu0")["bookedBytes"] == 0)


def test_a_gpu_that_falls_off_the_bus_takes_its_models_along_and_no_others(machine: Machine) -> None:
    client = machine.start(
        here={"device": ["gpu0"], "size_mib": 1024},
        there={"device": ["gpu1"], "size_mib": 1024},
    )
    client.call("Load", model="here")
    client.call("Load", model="there")
    machine.driver.lose(0)
    machine.daemon.until_state("here", "cold")
    assert machine.daemon.model("there")["state"] == "ready"
    with pytest.raises(Refused):
        client.call("Load", model="here", timeoutSec=2)
    machine.driver.find(0)
    machine.until(lambda: "device back" in machine.daemon.log_text())
    client.call("Load", model="here")


def test_a_worker_that_the_driver_does_not_show_is_given_back_all_the_same(machine: Machine) -> None:
    client = machine.start(here={"device": ["gpu0"], "size_mib": 1024, "hidden": True})
    client.call("Load", model="here")
    client.call("Unload", models=["here"])
    machine.until(lambda: machine.device("gpu0")["bookedBytes"] == 0)
    assert machine.device("gpu0")["quarantinedBytes"] == 0
    assert machine.device("gpu0")["foreignBytes"] == 0


def test_a_machine_whose_driver_is_not_loaded_has_ram_alone_until_it_is(machine: Machine) -> None:
    machine.driver.unload()
    client = machine.start(here={"size_mib": 0})
    assert [device["name"] for device in client.call("Status")["devices"]] == ["ram"]
    client.call("Load", model="here")
