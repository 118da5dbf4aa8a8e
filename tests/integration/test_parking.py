"""A model that gives back its memory and stays: through a real host and worker, then through a real daemon."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.nvml import GIB

from .conftest import DataLine, Refused
from .gpu_machine import Machine
from .gpu_machine import machine as machine
from .host_driver import CallError, Channel, Manager, python_spec, running_host

MODEL = "thing"
MIB = 1024 * 1024


@pytest.fixture(scope="module")
def manager() -> Iterator[Manager]:
    with running_host() as host:
        yield host.manager()


@pytest.fixture
def fifo(tmp_path: Path) -> Path:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    return path


class Worker:
    """One of a test's own, with one model that parks."""

    def __init__(self, manager: Manager, name: str, *, python: str | None = None, **options: Any) -> None:
        self.manager = manager
        self.name = name
        self.channel: Channel = manager.start(name, python_spec("parking:parker", python=python, options=options))
        self.channel.send({"do": "load", "model": MODEL})
        assert self.channel.expect("ready", model=MODEL)["parks"] is True

    def drain(self) -> None:
        self.channel.send({"do": "drain", "model": MODEL, "drain": 1, "finish": False})
        self.channel.expect("drained", drain=1)

    def say(self, deed: str, model: str = MODEL) -> None:
        self.channel.send({"do": deed, "model": model})

    def say_and_be_heard(self, deed: str) -> None:
        self.say(deed)
        self.say("unload", "nothing")
        self.channel.expect("unloaded", model="nothing")

    def park(self) -> None:
        self.drain()
        self.say("park")
        self.channel.expect("parked", model=MODEL)

    def reported(self) -> list[tuple[str, bool]]:
        """State of each object, and whether it parks, as a new manager is told."""
        self.channel = self.manager.attach(self.name)
        objects = self.channel.expect("report")["report"]["objects"]
        return [(each["state"], each["parks"]) for each in objects]


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    found: str = request.node.name.removeprefix("test_")[:40]
    return found


@pytest.fixture
def worker(manager: Manager, name: str) -> Iterator[Worker]:
    worker = Worker(manager, name, size=64 * MIB)
    yield worker
    manager.stop(name, grace_s=0)


@pytest.fixture
def slow(manager: Manager, name: str, fifo: Path, request: pytest.FixtureRequest) -> Iterator[Worker]:
    """Parks or comes back (the fixture's parameter) when a line comes in the fifo."""
    worker = Worker(manager, name, **{request.param: str(fifo)})
    yield worker
    manager.stop(name, grace_s=0)


def test_a_parked_model_has_given_back_its_memory_and_its_process_lives(worker: Worker) -> None:
    before = worker.manager.measured(worker.name)
    worker.park()
    after = worker.manager.measured(worker.name)
    assert (before["bytes"]["ram"] - after["bytes"]["ram"]) / MIB > 60
    assert after["pids"] == before["pids"]


def test_a_model_that_was_parked_serves_again_as_the_same_object(worker: Worker) -> None:
    worker.park()
    worker.say("unpark")
    worker.channel.expect("progress", phase="unparking", model=MODEL)
    assert worker.channel.expect("ready", model=MODEL)["parks"] is True
    assert worker.manager.connect(worker.name, MODEL, "after").call("told") == ["park", "unpark"]


def test_parking_can_be_repeated(worker: Worker) -> None:
    for _ in range(3):
        worker.park()
        worker.say("unpark")
        worker.channel.expect("progress", phase="unparking")
        worker.channel.expect("ready")
    assert worker.manager.connect(worker.name, MODEL, "after").call("told") == ["park", "unpark"] * 3


@pytest.mark.skipif(not Path("/usr/bin/pypy3").exists(), reason="pypy3 is not installed (Debian package pypy3)")
def test_another_interpreter_parks_as_well(manager: Manager, name: str) -> None:
    worker = Worker(manager, name, python="/usr/bin/pypy3")
    worker.park()
    worker.say("unpark")
    worker.channel.expect("ready")
    assert manager.connect(name, MODEL, name).call("told") == ["park", "unpark"]
    manager.stop(name, grace_s=0)


def test_a_load_of_a_parked_model_has_it_come_back(worker: Worker) -> None:
    worker.park()
    worker.say("load")
    worker.channel.expect("ready")
    assert worker.manager.connect(worker.name, MODEL, "after").call("told") == ["park", "unpark"]


def test_a_parked_model_admits_nobody(worker: Worker) -> None:
    client = worker.manager.connect(worker.name, MODEL, "before")
    client.call("told")
    worker.park()
    assert client.expect_end() == [{"revoked": True}]
    assert worker.manager.connect(worker.name, MODEL, "while parked").greeting["error"] == "NoSuchLease"


def test_a_call_that_is_in_flight_all_the_same_ends_before_its_model_parks(worker: Worker, fifo: Path) -> None:
    client = worker.manager.connect(worker.name, MODEL, "busy")
    client.ask("wait_for", str(fifo))
    worker.channel.expect("busy")
    worker.say_and_be_heard("park")
    late = client.ask("told")
    assert client.next().header == {"id": late, "error": "Revoked", "parameters": {"model": MODEL}}
    fifo.write_text("go")
    assert client.answer() == "go"
    assert client.expect_end() == [{"revoked": True}]
    worker.channel.expect("parked")


def test_reports_tell_what_is_parked(worker: Worker) -> None:
    assert worker.reported() == [("ready", True)]
    worker.park()
    assert worker.reported() == [("parked", True)]
    worker.say("unpark")
    worker.channel.expect("ready")
    assert worker.reported() == [("ready", True)]


def test_an_order_to_park_what_is_parked_is_answered(worker: Worker) -> None:
    worker.park()
    worker.say("park")
    worker.channel.expect("parked")


def test_unloading_a_parked_model_closes_it(worker: Worker) -> None:
    worker.park()
    worker.say("unload")
    worker.channel.expect("unloaded", model=MODEL)
    assert worker.reported() == []
    assert worker.manager.stop(worker.name)["log"] == "closed thing park\n"
    worker.manager.load(worker.name, python_spec("things:make"))  # for the fixture to stop


def test_a_worker_with_a_parked_model_leaves_in_order(worker: Worker) -> None:
    worker.park()
    exited = worker.manager.stop(worker.name, grace_s=20)
    assert (exited["status"], exited["log"]) == (0, "closed thing park\n")
    worker.manager.load(worker.name, python_spec("things:make"))  # for the fixture to stop


@pytest.mark.parametrize("slow", ["park"], indirect=True)
def test_a_model_that_is_being_parked_is_found_so_and_comes_back_when_it_has_been(slow: Worker, fifo: Path) -> None:
    slow.drain()
    slow.say("park")
    with fifo.open("w") as line:  # opens when the model reads: park() runs
        assert slow.reported() == [("parking", True)]
        slow.say_and_be_heard("unpark")
        line.write("go\n")
    slow.channel.expect("progress", phase="unparking")
    slow.channel.expect("ready")
    assert [said["is"] for said in slow.channel.seen if said["is"] == "parked"] == []


@pytest.mark.parametrize("slow", ["park"], indirect=True)
def test_a_model_that_is_unloaded_while_it_parks_is_closed(slow: Worker, fifo: Path) -> None:
    slow.drain()
    slow.say("park")
    with fifo.open("w") as line:
        slow.say_and_be_heard("unload")
        line.write("go\n")
    slow.channel.expect("unloaded", model=MODEL)
    assert [said["is"] for said in slow.channel.seen if said["is"] == "parked"] == []


@pytest.mark.parametrize("slow", ["unpark"], indirect=True)
def test_a_model_on_its_way_back_counts_as_loading(slow: Worker, fifo: Path) -> None:
    slow.park()
    slow.say("unpark")
    with fifo.open("w") as line:
        assert slow.reported() == [("loading", True)]
        assert slow.manager.connect(slow.name, MODEL, "early").greeting["error"] == "NoSuchLease"
        line.write("go\n")
    slow.channel.expect("ready")


def test_a_way_back_that_is_not_wanted_any_more_is_interrupted(manager: Manager, name: str) -> None:
    worker = Worker(manager, name, unpark="spin")
    worker.park()
    worker.say("unpark")
    worker.channel.expect("progress", phase="unparking")
    worker.say("unload")
    worker.channel.expect("unloaded", model=MODEL)
    exited = manager.stop(name, grace_s=20)
    assert (exited["status"], exited["log"]) == (0, "closed thing park unpark\n")


def test_a_park_that_fails_is_told_with_its_reason_and_the_object_is_closed(manager: Manager, name: str) -> None:
    worker = Worker(manager, name, park="fail")
    worker.drain()
    worker.say("park")
    assert worker.channel.expect("park_failed", model=MODEL)["reason"] == "RuntimeError: it is stuck"
    worker.channel.expect("unloaded", model=MODEL)
    assert worker.reported() == []
    log = manager.stop(name, grace_s=20)["log"]
    assert "in park\n" in log
    assert log.endswith("closed thing park\n")


def test_a_way_back_that_fails_is_a_failed_load(manager: Manager, name: str) -> None:
    worker = Worker(manager, name, unpark="fail")
    worker.park()
    worker.say("unpark")
    assert worker.channel.expect("failed", model=MODEL)["reason"] == "RuntimeError: it is stuck"
    assert worker.reported() == []
    worker.say("load")
    worker.channel.expect("ready", model=MODEL)
    assert "closed thing park unpark\n" in manager.stop(name, grace_s=20)["log"]


def test_a_member_of_a_family_parks_alone(manager: Manager, name: str) -> None:
    spec = python_spec("parking:member", name="strategy/*")
    channel = manager.load(name, spec, "strategy/alpha")
    channel.send({"do": "load", "model": "strategy/beta"})
    channel.expect("ready", model="strategy/beta")
    channel.send({"do": "park", "model": "strategy/beta"})
    channel.expect("parked", model="strategy/beta")
    assert manager.connect(name, "strategy/alpha", f"{name} a").call("told") == []
    manager.stop(name, grace_s=0)


def test_an_object_that_has_no_way_back_is_said_not_to_park(manager: Manager, name: str) -> None:
    channel = manager.start(name, python_spec("parking:one_way"))
    channel.send({"do": "load", "model": MODEL})
    assert channel.expect("ready")["parks"] is False
    with pytest.raises(CallError, match="NoSuchMethod"):
        manager.connect(name, MODEL, name).call("park")
    manager.stop(name, grace_s=0)


# Through a daemon, on GPUs of 8 and 4 GiB of the stand-in driver.

PARKER = {"device": "gpu0", "size_mib": 3000, "context_mib": 300, "memory": "3500MiB", "idle_timeout": "200ms"}


def parked(machine: Machine, pid: int) -> dict[str, Any]:
    """The model has parked; what is booked for it once that has been seen."""
    machine.until_state("parker", "parked")
    machine.until(lambda: machine.driver.used(0) == 300 * MIB)
    found: dict[str, Any] = machine.until(
        lambda: (m := machine.daemon.model("parker"))["bookedBytes"].get("gpu0") == 300 * MIB and m
    )
    assert [worker["pid"] for worker in found["workers"]] == [pid]
    return found


def load(machine: Machine, model: str = "parker") -> dict[str, Any]:
    """What a model tells of itself, loaded if it is not."""
    with machine.client() as client, DataLine(client.call("Get", model=model)) as line:
        told: dict[str, Any] = line.call("tell")
        return told


def test_an_idle_model_gives_back_its_gpu_and_what_its_context_keeps_stays_booked(machine: Machine) -> None:
    machine.start(parker=PARKER)
    loaded = load(machine)
    assert loaded["bytes"] == [3300 * MIB]
    found = parked(machine, loaded["pid"])
    assert found["bookedBytes"]["ram"] > 0
    device = machine.device("gpu0")
    assert (device["bookedBytes"], device["foreignBytes"], device["quarantinedBytes"]) == (300 * MIB, 0, 0)
    assert load(machine) == loaded  # the same process, with all its bytes
    parked(machine, loaded["pid"])


def test_what_a_parked_model_gave_back_is_loaded_upon_and_its_context_is_not(machine: Machine) -> None:
    client = machine.start(
        parker=PARKER,
        fits={"device": "gpu0", "size_mib": 7800},
        large={"device": "gpu0", "size_mib": 7900},
    )
    pid = load(machine)["pid"]
    parked(machine, pid)
    client.call("Load", model="fits")
    assert machine.daemon.model("parker")["state"] == "parked"
    assert machine.driver.used(0) == 8100 * MIB
    client.call("Unload", models=["fits"])
    client.call("Load", model="large")  # it needs the context's bytes as well: the parked model ends
    assert machine.daemon.model("parker")["state"] == "cold"
    assert (machine.driver.used(0), machine.driver.refused(0)) == (7900 * MIB, 0)


def test_a_parked_model_ends_after_its_time(machine: Machine) -> None:
    machine.start(parker={**PARKER, "park_timeout": "500ms"})
    load(machine)
    machine.until_logged("parked for long enough (park_timeout)")
    machine.until_state("parker", "cold")
    machine.until(lambda: machine.device("gpu0")["bookedBytes"] == 0)
    assert machine.driver.used(0) == 0


def test_a_model_that_may_not_park_ends_when_idle(machine: Machine) -> None:
    machine.start(parker={**PARKER, "park_timeout": "0s"})
    load(machine)
    machine.until_state("parker", "cold")
    assert "parked" not in machine.daemon.log_text()


def test_a_parked_model_is_found_parked_by_the_next_manager(machine: Machine) -> None:
    machine.start(parker=PARKER)
    loaded = load(machine)
    parked(machine, loaded["pid"])
    machine.daemon.kill()
    machine.daemon.start(env=machine.driver.environment())
    parked(machine, loaded["pid"])
    assert load(machine) == loaded


def test_a_stranger_on_what_a_parked_model_gave_back_has_it_wait_and_not_run_out(machine: Machine) -> None:
    client = machine.start(parker=PARKER)
    loaded = load(machine)
    parked(machine, loaded["pid"])
    stranger = machine.driver.stranger(0, 7 * GIB)
    machine.until(lambda: machine.device("gpu0")["foreignBytes"] == 7 * GIB)
    with pytest.raises(Refused, match=r"other programs use 7\.0 GiB"):
        client.call("Load", model="parker", timeoutSec=3)
    stranger.free()
    machine.until(lambda: machine.device("gpu0")["foreignBytes"] == 0)
    assert load(machine)["bytes"] == loaded["bytes"]
    assert machine.driver.refused(0) == 0
