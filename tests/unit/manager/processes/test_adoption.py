"""A manager that starts takes over what lives, and notices when it ends."""

from __future__ import annotations

import asyncio
import os

import pytest

from lazyd.core.events import HostFound, HostLost, LeaseBusy, ObjectReady, WorkerExited
from lazyd.manager.processes import adoption, hostlink

from ..fake_host import FakeHost
from ..half import Manager, report
from ..waiting import until

READY = {"model": "m", "state": "ready", "since": 1.0}
LOADING = {"model": "m", "state": "loading", "since": 1.0}


async def test_without_a_host_nothing_is_waited_for(manager: Manager, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hostlink, "HELLO_S", 600.0)
    async with asyncio.timeout(20):
        assert not await manager.start()
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


async def test_a_worker_that_dies_during_the_adoption_is_not_waited_for(
    manager: Manager, host: FakeHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adoption, "SILENCE_S", 600.0)
    host.add("w")
    started = asyncio.create_task(manager.start())
    await until(lambda: "w" in host.channels)
    host.channels.pop("w").close()
    host.say({"is": "exited", "worker": "w", "status": None, "signal": 9, "log": "out of memory"})
    async with asyncio.timeout(20):
        await started
    assert manager.told[1:] == [WorkerExited(worker="w", signal=9, log="out of memory")]


async def test_a_host_that_says_nothing_holds_nobody_up_for_long(
    manager: Manager, host: FakeHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hostlink, "HELLO_S", 0.05)
    host.mute = True
    assert not await manager.start()
    host.mute = False
    await until(lambda: manager.of(HostFound))


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
