"""A model that gives back its memory and stays, through a real host and worker."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

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
def test_a_model_that_is_being_parked_is_found_parked_and_comes_back_when_it_is(slow: Worker, fifo: Path) -> None:
    slow.drain()
    slow.say("park")
    with fifo.open("w") as line:  # opens when the model reads: park() runs
        assert slow.reported() == [("parked", True)]
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
