"""What the host keeps for the next manager, and tries for this one."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from lazyd.core.effects import KeepReservations
from lazyd.core.events import HostFound, HostLost, ReservationReport
from lazyd.manager.effects import table
from lazyd.manager.processes.messages import DryRun

from ..fake_host import FakeHost
from ..half import Manager
from ..waiting import until

HELD = ReservationReport(id="r", device="gpu0", bytes=8 << 30, holder=1000, pid=os.getpid(), command="train")


async def test_reservations_are_kept_by_the_host_for_the_next_manager(
    manager: Manager, host: FakeHost, directory: str
) -> None:
    await manager.start()
    manager.keeping.keep(KeepReservations(reservations=(HELD,)))
    host.kept = (await host.told("keep"))["what"]
    successor = Manager(directory)
    await successor.start()
    assert successor.of(HostFound)[0].reservations == (HELD,)
    await successor.background.stop()


def ended_process() -> int:
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        return ended.pid


async def test_a_reservation_whose_process_has_gone_meanwhile_is_not_held_for_it(
    manager: Manager, host: FakeHost
) -> None:
    gone = msgspec.structs.replace(HELD, id="gone", pid=ended_process())
    elsewhere = msgspec.structs.replace(HELD, id="elsewhere", pid=0)
    host.kept = {"reservations": [msgspec.to_builtins(each) for each in (HELD, gone, elsewhere)]}
    await manager.start()
    assert [report.id for report in manager.of(HostFound)[0].reservations] == ["r", "elsewhere"]


class Told:
    """Stands for any part of the manager, and remembers what it was told."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_: self.names.append(name)


def test_devices_are_sampled_otherwise_from_when_something_is_reserved() -> None:
    parts: list[Any] = [Told() for _ in range(13)]
    keeping, measuring = parts[6:8]
    carry_out = table(*parts)
    carry_out[KeepReservations](KeepReservations(reservations=(HELD,)))
    assert (keeping.names, measuring.names) == (["keep"], ["stir"])


@pytest.mark.parametrize("kept", [None, {}, {"reservations": [{"id": 1}]}, ["?"]])
async def test_what_an_earlier_manager_kept_otherwise_is_no_reservation(
    manager: Manager, host: FakeHost, kept: Any
) -> None:
    host.kept = kept
    await manager.start()
    assert manager.of(HostFound)[0].reservations == ()


async def test_a_host_that_comes_later_keeps_the_reservations_that_there_are(
    manager: Manager, host: FakeHost, directory: str
) -> None:
    await manager.start()
    manager.keeping.keep(KeepReservations(reservations=(HELD,)))
    await host.told("keep")
    host.close()
    await until(lambda: manager.of(HostLost))
    later = FakeHost(directory, started=2.0)
    assert (await later.told("keep"))["what"]["reservations"][0]["id"] == "r"


async def test_what_a_host_kept_before_its_connection_broke_is_no_news(manager: Manager, host: FakeHost) -> None:
    """What the manager has told since was lost with the connection, and it knows better."""
    host.kept = {"reservations": [msgspec.to_builtins(HELD)]}
    await manager.start()
    host.drop_manager()
    await until(lambda: len(manager.of(HostFound)) == 2)
    assert [len(found.reservations) for found in manager.of(HostFound)] == [1, 0]


async def test_dry_runs_are_answered_each_by_its_own_number(manager: Manager, host: FakeHost) -> None:
    await manager.start()
    (link,) = manager.links
    first, second = (asyncio.create_task(link.dry_run({"name": name}, 5.0)) for name in "ab")
    await until(lambda: len([each for each in host.heard if each["do"] == "dry_run"]) == 2)
    one, two = (each["id"] for each in host.heard if each["do"] == "dry_run")
    host.say({"is": "dry_run", "id": two, "result": None, "reason": "it took too long"})
    host.say({"is": "dry_run", "id": one, "result": {"ram": {"ram": 5}}, "reason": None})
    host.say({"is": "dry_run", "id": 99})
    assert await first == DryRun(id=one, result={"ram": {"ram": 5}})
    assert (await second).reason == "it took too long"


async def test_a_dry_run_of_a_host_that_goes_or_is_silent_has_its_reason(manager: Manager, host: FakeHost) -> None:
    await manager.start()
    (link,) = manager.links
    assert (await link.dry_run({}, 0.01)).reason == "the worker host did not answer within 0.01 s"
    asked = asyncio.create_task(link.dry_run({}, 5.0))
    await until(lambda: host.heard[-1] == {"do": "dry_run", "id": 2, "spec": {}})
    host.close()
    assert (await asked).reason == "the worker host has gone"
    assert (await link.dry_run({}, 5.0)).reason == "there is no worker host"
