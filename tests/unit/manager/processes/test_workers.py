"""Workers are started, told and measured by way of the host."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from lazyd.core.effects import Drain, Grant, LoadObject, ParkObject, StopWorker, UnparkObject
from lazyd.core.events import (
    ObjectFailed,
    ObjectParked,
    ObjectReady,
    ParkFailed,
    RanOut,
    WorkerExited,
    WorkerMeasured,
    WorkerStarted,
)
from lazyd.core.spec import ModelSpec
from lazyd.manager.memory.holders import by_holder
from lazyd.manager.processes.placing import Gpus

from ..fake_host import FakeHost
from ..half import Manager, report
from ..waiting import until


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


async def test_a_worker_is_started_for_its_devices_whatever_its_own_settings_say(
    manager: Manager, host: FakeHost
) -> None:
    manager.spec = ModelSpec(name="m", runtime="python", env={"A": "1", "CUDA_VISIBLE_DEVICES": "7"})
    manager.workers.gpus = Gpus(lambda: True, {"gpu0": "GPU-a", "gpu1": "GPU-b"}.get)
    await manager.start()
    manager.start_worker(devices=("gpu1", "ram"), gpu1=20, ram=13)
    spec = (await host.told("start"))["spec"]
    assert spec["env"] == {"A": "1", "CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "GPU-b"}
    assert spec["placement"] == {"on": "gpu", "layers": [20], "of": 33}


async def test_an_env_file_does_not_show_a_worker_other_gpus_either(
    manager: Manager, host: FakeHost, directory: str
) -> None:
    path = os.path.join(directory, "env")
    with open(path, "w") as file:  # noqa: ASYNC230
        file.write("CUDA_VISIBLE_DEVICES=0\n")
    manager.spec = ModelSpec(name="m", runtime="python", env_file=path)
    manager.workers.gpus = Gpus(lambda: True, {"gpu0": "GPU-a"}.get)
    await manager.start()
    manager.start_worker()
    assert (await host.told("start"))["spec"]["env"]["CUDA_VISIBLE_DEVICES"] == ""


async def test_on_a_machine_without_a_gpu_a_worker_has_its_own_settings_alone(manager: Manager, host: FakeHost) -> None:
    await manager.start()
    manager.start_worker()
    spec = (await host.told("start"))["spec"]
    assert (spec["env"], spec["placement"]) == ({"A": "1"}, {"on": "ram"})


async def test_a_gpu_that_has_no_name_fails_the_start(manager: Manager, host: FakeHost) -> None:
    await manager.start()
    manager.start_worker(devices=("gpu1",))
    (exited,) = manager.of(WorkerExited)
    assert "gpu1" in exited.log
    assert not [message for message in host.heard if message["do"] == "start"]


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


async def test_an_env_file_that_hangs_fails_the_start(
    manager: Manager, host: FakeHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lazyd.manager.apart.ANSWER_S", 0.1)
    file = tmp_path / "env"
    os.mkfifo(file)
    manager.spec = ModelSpec(name="m", runtime="python", env_file=str(file))
    await manager.start()
    assert host.heard
    manager.start_worker()
    await until(lambda: manager.of(WorkerExited))
    assert manager.of(WorkerExited)[0].log == "its files do not answer: nothing came for 0.1 s"
    os.close(os.open(file, os.O_RDWR))


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


async def test_parking_is_ordered_and_told(manager: Manager, host: FakeHost) -> None:
    await manager.start()
    manager.start_worker()
    await host.told("start")
    channel = manager.workers.channels["w"]
    channel.park(ParkObject(worker="w", model="m"))
    channel.unpark(UnparkObject(worker="w", model="m"))
    assert host.channels["w"].recv(4096) == b'{"do":"park","model":"m"}'
    assert host.channels["w"].recv(4096) == b'{"do":"unpark","model":"m"}'
    for said in ({"is": "parked"}, {"is": "park_failed", "reason": "no"}, {"is": "ready", "parks": True}):
        host.say_as("w", {"model": "m", **said})
    await until(lambda: manager.of(ObjectReady))
    assert manager.told[-3:] == [
        ObjectParked(worker="w", model="m"),
        ParkFailed(worker="w", model="m", reason="no"),
        ObjectReady(worker="w", model="m", parks=True),
    ]


async def test_what_ran_out_of_memory_is_told_apart(manager: Manager, host: FakeHost) -> None:
    await manager.start()
    manager.start_worker()
    await host.told("start")
    host.say_as("w", {"is": "ran_out", "model": "m"})
    host.say_as("w", {"is": "failed", "model": "m", "reason": "no", "out_of_memory": True})
    await until(lambda: manager.of(ObjectFailed))
    host.say({"is": "exited", "worker": "w", "signal": 9, "out_of_memory": True})
    await until(lambda: manager.of(WorkerExited))
    assert manager.told[-3:] == [
        RanOut(worker="w", model="m"),
        ObjectFailed(worker="w", model="m", reason="no", out_of_memory=True),
        WorkerExited(worker="w", signal=9, out_of_memory=True),
    ]


async def test_measurements_are_waited_for_together(manager: Manager, host: FakeHost) -> None:
    await manager.start()
    manager.start_worker("w")
    manager.start_worker("v")
    measuring = asyncio.create_task(manager.workers.measure(5.0))
    assert await host.told("measure") == {"do": "measure"}
    host.say({"is": "measured", "worker": "w", "bytes": {"ram": 5}, "files": 7, "pids": [3, 4]})
    await until(lambda: manager.told[-1] == WorkerMeasured(worker="w", bytes_by_device={"ram": 5}, file_bytes=7))
    assert not measuring.done()
    host.say({"is": "measured", "worker": "v", "bytes": {"ram": 6}, "files": 8, "pids": [5]})
    await measuring
    assert manager.workers.measured == {"w": {"ram": 5}, "v": {"ram": 6}}
    assert manager.workers.file_bytes == {"w": 7, "v": 8}
    assert manager.workers.pids == {"w": [3, 4], "v": [5]}


async def test_one_worker_is_measured_while_all_are(manager: Manager, host: FakeHost) -> None:
    await manager.start()
    manager.start_worker("w")
    manager.start_worker("v")
    everything = asyncio.create_task(manager.workers.measure(5.0))
    await host.told("measure")
    one = asyncio.create_task(manager.workers.measure(5.0, only=["w", "gone"]))
    await until(lambda: host.heard[-1] == {"do": "measure", "workers": ["w"]})
    host.say({"is": "measured", "worker": "w", "bytes": {"ram": 5}})
    await one
    assert not everything.done()
    host.say({"is": "exited", "worker": "v"})
    await everything
    await manager.workers.measure(5.0, only=["gone"])
    assert set(manager.workers.pids) == set(manager.workers.measured) == {"w"}


async def test_the_process_of_a_worker_is_known_before_it_is_measured(manager: Manager, host: FakeHost) -> None:
    host.add("found", measuredBytes={"ram": 9})
    started = asyncio.create_task(manager.start())
    await report(host, "found")
    await started
    manager.start_worker()
    host.say({"is": "started", "worker": "w", "pid": 77})
    await until(lambda: manager.of(WorkerStarted))
    assert manager.workers.pids == {"found": [1], "w": [77]}
    assert manager.workers.measured == {"found": {"ram": 9}}


async def test_the_processes_of_a_worker_that_has_ended_are_its_own_as_long_as_it_is_counted_with(
    manager: Manager, host: FakeHost
) -> None:
    await manager.start()
    manager.counted = {"w", "v", "u"}
    for worker, pids in (("w", [3, 4]), ("v", [5]), ("u", [6])):
        manager.start_worker(worker)
        host.say({"is": "measured", "worker": worker, "bytes": {"ram": 5}, "files": 7, "pids": pids})
    host.say({"is": "exited", "worker": "w"})
    await until(lambda: manager.of(WorkerExited))
    assert manager.workers.pids == {"v": [5], "u": [6]}
    assert manager.workers.processes() == {"w": [3, 4], "v": [5], "u": [6]}
    manager.counted = {"v", "u"}
    assert manager.workers.processes() == {"v": [5], "u": [6]}
    manager.workers.disconnect()  # the host is lost, and the workers with it
    assert manager.workers.processes() == {"v": [5], "u": [6]}
    manager.counted = set()
    assert manager.workers.processes() == {}


async def test_a_process_that_has_the_id_of_one_that_has_ended_is_that_of_the_living_worker(
    manager: Manager, host: FakeHost
) -> None:
    await manager.start()
    manager.counted = {"w", "v"}
    manager.start_worker("w")
    host.say({"is": "started", "worker": "w", "pid": 3})
    host.say({"is": "exited", "worker": "w"})
    manager.start_worker("v")
    host.say({"is": "started", "worker": "v", "pid": 3})
    await until(lambda: len(manager.of(WorkerStarted)) == 2)
    assert by_holder({3: 10}, manager.workers.processes()).held_bytes == {"v": 10}
