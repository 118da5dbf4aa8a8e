"""A manager that starts takes over what lives, and notices when it ends."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from time import monotonic
from typing import Any

import pytest

from lazyd.core.effects import Drain, Grant, LoadObject, StartWorker, StopWorker
from lazyd.core.events import (
    Event,
    HostFound,
    HostLost,
    LeaseBusy,
    ObjectFailed,
    ObjectReady,
    WorkerExited,
    WorkerMeasured,
    WorkerStarted,
)
from lazyd.core.spec import ModelSpec
from lazyd.manager import adoption, hostlink
from lazyd.manager.hostkeeper import HostKeeper
from lazyd.manager.tasks import Background
from lazyd.manager.workers import Workers

from .conftest import until
from .fake_host import FakeHost

READY = {"model": "m", "state": "ready", "since": 1.0}
LOADING = {"model": "m", "state": "loading", "since": 1.0}


class Manager:
    """The part of a manager that deals with the host."""

    def __init__(self, runtime: str) -> None:
        self.told: list[Event] = []
        self.notes: list[str] = []
        self.connected = 0
        self.background = Background()
        self.spec = ModelSpec(name="m", runtime="python", env={"A": "1"})
        self.workers = Workers(self.told.append, lambda key: self.spec if key == "m" else None, self.background.once)
        self.host = HostKeeper(
            runtime,
            "/control.sock",
            "1",
            self.workers,
            self.told.append,
            starts_hosts=False,
            on_connected=self.count,
            note=lambda kind, _: self.notes.append(kind),
        )

    def count(self, _: hostlink.HostLink) -> None:
        self.connected += 1

    async def start(self) -> bool:
        found = await self.host.find()
        self.background.keep("host", self.host.keep)
        return found

    def of(self, kind: type[Event]) -> list[Any]:
        return [event for event in self.told if isinstance(event, kind)]

    def start_worker(self, worker: str = "w", model: str = "m") -> None:
        self.workers.start(StartWorker(worker=worker, model=model, devices=("ram",), memo={"booking": {"ram": 1}}))


@pytest.fixture
async def host(directory: str) -> FakeHost:
    return FakeHost(directory)


@pytest.fixture
async def manager(directory: str) -> AsyncIterator[Manager]:
    manager = Manager(directory)
    yield manager
    await manager.background.stop()


async def report(host: FakeHost, worker: str, **fields: Any) -> None:
    """The worker says first what it holds."""
    await until(lambda: worker in host.channels)
    found = next(each for each in host.workers if each["worker"] == worker)
    host.say_as(worker, {"is": "report", "report": {**found, **fields}})


async def test_without_a_host_nothing_is_waited_for(manager: Manager) -> None:
    began = monotonic()
    assert not await manager.start()
    assert monotonic() - began < 0.5
    assert manager.told == []


async def test_a_host_that_comes_later_is_found(manager: Manager, directory: str) -> None:
    await manager.start()
    host = FakeHost(directory)
    await until(lambda: manager.of(HostFound))
    assert (await host.told("hello"))["pid"] == os.getpid()


async def test_workers_themselves_say_what_they_hold(manager: Manager, host: FakeHost) -> None:
    host.add("w", objects=[LOADING])
    started = asyncio.create_task(manager.start())
    await report(host, "w", objects=[READY])
    assert await started
    (found,) = manager.of(HostFound)
    assert [each.state for each in found.workers[0].objects] == ["ready"]


async def test_what_a_worker_says_after_its_report_comes_after_the_host_is_found(
    manager: Manager, host: FakeHost
) -> None:
    host.add("w", objects=[LOADING])
    host.add("other")
    started = asyncio.create_task(manager.start())
    await report(host, "w")
    host.say_as("w", {"is": "ready", "model": "m"})
    await report(host, "other")
    await started
    assert manager.told[0] == manager.of(HostFound)[0]
    assert manager.told[1] == ObjectReady(worker="w", model="m")


async def test_a_silent_worker_is_known_by_what_the_host_last_heard(
    manager: Manager, host: FakeHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is inside native code, say; when it speaks again, the core hears what it has missed."""
    monkeypatch.setattr(adoption, "SILENCE_S", 0.05)
    host.add("w", objects=[LOADING])
    assert await manager.start()
    (found,) = manager.of(HostFound)
    assert [each.state for each in found.workers[0].objects] == ["loading"]
    await report(host, "w", objects=[READY])
    await until(lambda: manager.of(ObjectReady))
    host.say_as("w", {"is": "busy", "lease": "l"})
    await until(lambda: manager.of(LeaseBusy))
    assert [type(event) for event in manager.told] == [HostFound, ObjectReady, LeaseBusy]


async def test_a_worker_that_dies_during_the_adoption_is_not_waited_for(manager: Manager, host: FakeHost) -> None:
    host.add("w")
    started = asyncio.create_task(manager.start())
    await until(lambda: "w" in host.channels)
    host.channels.pop("w").close()
    host.say({"is": "exited", "worker": "w", "status": None, "signal": 9, "log": "out of memory"})
    began = monotonic()
    await started
    assert monotonic() - began < 1.0
    assert manager.told[1:] == [WorkerExited(worker="w", signal=9, log="out of memory")]


async def test_a_host_that_says_nothing_holds_nobody_up_for_long(
    manager: Manager, host: FakeHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hostlink, "HELLO_S", 0.05)
    host.mute = True
    assert not await manager.start()
    host.mute = False
    await until(lambda: manager.of(HostFound))


async def test_a_worker_is_started_with_a_channel_that_already_has_its_orders(manager: Manager, host: FakeHost) -> None:
    await manager.start()
    manager.start_worker()
    manager.workers.channels["w"].load(LoadObject(worker="w", model="m"))
    start = await host.told("start")
    assert start["model"] == "m"
    assert start["spec"]["env"] == {"A": "1"}
    assert start["memo"] == {"booking": {"ram": 1}}
    assert b'"load"' in host.channels["w"].recv(4096)
    host.say({"is": "started", "worker": "w", "pid": 42})
    await until(lambda: WorkerStarted(worker="w", pid=42) in manager.told)


async def test_what_a_worker_said_last_is_heard_before_its_exit(manager: Manager, host: FakeHost) -> None:
    await manager.start()
    manager.start_worker()
    await host.told("start")
    host.say({"is": "exited", "worker": "w", "status": 1, "signal": None, "log": ""})
    for n in range(100):
        host.say_as("w", {"is": "progress", "model": "m", "phase": str(n)})
    host.say_as("w", {"is": "failed", "model": "m", "reason": "no such file", "traceback": ""})
    await until(lambda: manager.of(WorkerExited))
    assert manager.told[-2:] == [
        ObjectFailed(worker="w", model="m", reason="no such file"),
        WorkerExited(worker="w", status=1),
    ]
    assert manager.workers.none_left.is_set()


async def test_a_start_that_the_host_cannot_do_ends_with_its_reason(manager: Manager, host: FakeHost) -> None:
    await manager.start()
    manager.start_worker()
    await host.told("start")
    host.say(
        {"is": "exited", "worker": "w", "status": None, "signal": None, "log": "", "reason": "/opt/python: not found"}
    )
    await until(lambda: manager.of(WorkerExited))
    assert manager.of(WorkerExited) == [WorkerExited(worker="w", log="/opt/python: not found")]


async def test_a_worker_of_a_model_that_is_not_configured_any_more_is_not_started(
    manager: Manager, host: FakeHost
) -> None:
    await manager.start()
    manager.start_worker(model="gone")
    assert manager.of(WorkerExited) == [WorkerExited(worker="w", log="gone is not configured any more")]
    await host.told("hello")
    assert not [message for message in host.heard if message["do"] == "start"]


async def test_an_env_file_is_read_before_the_start_and_its_values_go_to_the_host(
    manager: Manager, host: FakeHost, directory: str
) -> None:
    path = os.path.join(directory, "secrets")
    with open(path, "w") as file:  # noqa: ASYNC230
        file.write("TOKEN=x\n")
    manager.spec = ModelSpec(name="m", runtime="python", env={"A": "1"}, env_file=path)
    await manager.start()
    manager.start_worker()
    assert (await host.told("start"))["spec"]["env"] == {"A": "1", "TOKEN": "x"}


async def test_a_start_that_waits_for_its_env_file_can_be_stopped(manager: Manager, host: FakeHost) -> None:
    manager.spec = ModelSpec(name="m", runtime="python", env_file="/nonexistent")
    await manager.start()
    manager.start_worker()
    manager.workers.stop(StopWorker(worker="w", grace_s=1.0))
    assert manager.of(WorkerExited) == [WorkerExited(worker="w", log="its start was cancelled")]
    await until(lambda: not [task for task in asyncio.all_tasks() if task.get_name().startswith("start of")])
    assert len(manager.of(WorkerExited)) == 1
    assert not [message for message in host.heard if message["do"] in ("start", "stop")]


async def test_an_env_file_that_cannot_be_read_fails_the_start(manager: Manager, host: FakeHost) -> None:
    manager.spec = ModelSpec(name="m", runtime="python", env_file="/nonexistent")
    await manager.start()
    assert host.heard
    manager.start_worker()
    await until(lambda: manager.of(WorkerExited))
    assert "/nonexistent" in manager.of(WorkerExited)[0].log


async def test_orders_to_a_worker_keep_their_order(manager: Manager, host: FakeHost) -> None:
    await manager.start()
    manager.start_worker()
    await host.told("start")
    channel = manager.workers.channels["w"]
    lease = {"worker": "w", "model": "m", "lease": "l", "token": "t", "holder": 1, "hold_until": 0.0, "parent": None}
    channel.grant(Grant(**lease))  # type: ignore[arg-type]
    channel.drain(Drain(worker="w", model="m", drain=7, finish=True))
    assert b'"grant"' in host.channels["w"].recv(4096)
    assert b'"drain":7' in host.channels["w"].recv(4096)


async def test_measurements_are_waited_for_together(manager: Manager, host: FakeHost) -> None:
    await manager.start()
    manager.start_worker()
    measuring = asyncio.create_task(manager.workers.measure(5.0))
    await host.told("measure")
    host.say({"is": "measured", "worker": "w", "bytes": {"ram": 5}})
    await measuring
    assert manager.told[-1] == WorkerMeasured(worker="w", bytes_by_device={"ram": 5})
    assert manager.workers.measured == {"w": {"ram": 5}}


async def test_a_host_that_dies_takes_its_workers_with_it(manager: Manager, host: FakeHost, directory: str) -> None:
    await manager.start()
    manager.start_worker()
    await host.told("start")
    host.close()
    await until(lambda: manager.of(HostLost))
    assert manager.workers.channels == {}
    assert manager.notes == ["host lost"]
    FakeHost(directory, started=2.0)
    await until(lambda: len(manager.of(HostFound)) == 2)


async def test_a_connection_that_breaks_while_the_host_lives_loses_nothing(manager: Manager, host: FakeHost) -> None:
    await manager.start()
    host.add("w", objects=[READY])
    host.drop_manager()
    await report(host, "w")
    await until(lambda: len(manager.of(HostFound)) == 2)
    assert manager.of(HostLost) == []
    assert [each.worker for each in manager.of(HostFound)[1].workers] == ["w"]


async def test_nonsense_from_the_host_or_a_worker_is_passed_over(manager: Manager, host: FakeHost) -> None:
    await manager.start()
    manager.start_worker()
    await host.told("start")
    host.say({"is": "nonsense"})
    host.say_as("w", {"is": "ready"})
    host.say_as("w", {"is": "ready", "model": "m"})
    await until(lambda: manager.of(ObjectReady))
