"""All devices, sampled through the real nvidia-ml-py on a stand-in for the driver, and told to the core."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from lazyd.core.effects import Sample
from lazyd.core.events import DeviceLost, DeviceSeen, DriverSilent, Event, MemoryPressure
from lazyd.devices import nvml_device
from lazyd.devices.first_look import FirstLook
from lazyd.devices.nvml import Nvml
from lazyd.devices.ram import Ram
from lazyd.manager.memory import asking, holders, measuring, sampler
from lazyd.manager.memory.holders import below, by_holder, private_bytes, tree
from lazyd.manager.memory.measuring import Measuring
from lazyd.manager.memory.sampler import Surroundings
from tests.fakes.nvml import GIB, MIB, StandIn
from tests.fakes.nvml.driver import HIDDEN
from tests.fakes.nvml.here import used_here

from ..conftest import until

MEMORY = "nvmlDeviceGetMemoryInfo_v2"


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    monkeypatch.setattr(nvml_device, "sees_all_ids", lambda: True)  # there are ids here that no process has
    with used_here(StandIn(tmp_path / "driver", gpus=[22 * GIB, 16 * GIB], release_s=0)) as driver:
        yield driver


@dataclass
class Workers:
    """What the sampler wants to know of workers."""

    pids: dict[str, list[int]] = field(default_factory=dict)
    measured: dict[str, dict[str, int]] = field(default_factory=dict)
    rounds: list[float] = field(default_factory=list)

    def processes(self) -> dict[str, list[int]]:
        return self.pids

    async def measure(self, _within_s: float) -> None:
        self.rounds.append(time.monotonic())


@dataclass
class Reserved:
    device: str
    pid: int


class Manager:
    """What is around the measuring; `told` are the events."""

    def __init__(self) -> None:
        self.told: list[Event] = []
        self.notes: list[tuple[str, str, str]] = []
        self.workers = Workers()
        self.reservations: dict[str, Reserved] = {}
        self.pace_s: dict[str, float] = {}
        around = Surroundings(
            workers=self.workers,  # type: ignore[arg-type]
            tell=self.told.append,
            pace_s=lambda name: self.pace_s.get(name, 0.01),
            reservations=lambda: self.reservations,
            note=lambda *note: self.notes.append(note),
        )
        self.measuring = Measuring(Ram(), Nvml(), around)

    def of(self, name: str) -> list[DeviceSeen]:
        return [event for event in self.told if isinstance(event, DeviceSeen) and event.name == name]

    async def next(self, name: str) -> DeviceSeen:
        """The next sample of a device that is begun after now."""
        now = time.monotonic()
        await until(lambda: self.of(name) and self.of(name)[-1].begun > now)
        return self.of(name)[-1]


@pytest.fixture
async def manager(driver: StandIn, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Manager]:
    monkeypatch.setattr(measuring, "stalls", lambda _: iter(()))
    for name in ("ABSENT_S", "FIND_S", "MISSING_S", "LISTEN_AGAIN_S"):
        monkeypatch.setattr(measuring, name, 0.02)
    monkeypatch.setattr(sampler, "LOST_S", 0.02)
    monkeypatch.setattr(asking, "RETRY_S", 0.02)
    assert driver.hanging == 0
    manager = Manager()
    yield manager
    manager.measuring.close()


# What the core is told.


async def test_every_device_is_told(manager: Manager) -> None:
    manager.measuring.start()
    await until(lambda: manager.of("gpu0") and manager.of("gpu1") and manager.of("ram"))
    gpu = manager.of("gpu0")[0]
    assert (gpu.kind, gpu.total_bytes, gpu.used_bytes, gpu.label) == ("cuda", 22 * GIB, 0, "Stand-in 22 GiB")
    assert manager.of("ram")[0].total_bytes > 0
    assert manager.notes == []


async def test_what_a_gpu_shows_is_told_by_worker_and_what_is_nobodys_is_listed(
    manager: Manager, driver: StandIn
) -> None:
    driver.stranger(0, GIB, pid=101)
    driver.stranger(0, GIB, pid=102)
    driver.stranger(0, 3 * GIB, pid=103)
    driver.stranger(0, 5 * GIB, pid=104, shown=HIDDEN)
    manager.workers.pids = {"a": [100, 101, 102], "b": [104]}
    manager.measuring.start()
    seen = await manager.next("gpu0")
    assert (seen.used_bytes, seen.held_bytes, seen.listed_bytes) == (10 * GIB, {"a": 2 * GIB}, 3 * GIB)


@pytest.fixture
def family() -> Iterator[tuple[int, int]]:
    """The pids of a process and its child."""
    with subprocess.Popen(["sh", "-c", "sleep 100 & echo $!; wait"], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        yield parent.pid, child
        os.kill(child, 9)


async def test_a_reservations_bytes_are_those_of_its_programs_children(
    manager: Manager, driver: StandIn, family: tuple[int, int]
) -> None:
    parent, child = family
    driver.allocate(0, 2 * GIB, pid=child)
    driver.allocate(1, GIB, pid=child)
    manager.reservations = {"r": Reserved("gpu0", parent), "s": Reserved("ram", parent)}
    manager.measuring.start()
    seen = await manager.next("gpu0")
    assert (seen.held_bytes, seen.listed_bytes) == ({"r": 2 * GIB}, 0)
    # What it takes of a device that it has not reserved is a stranger's.
    seen = await manager.next("gpu1")
    assert (seen.held_bytes, seen.listed_bytes) == ({}, GIB)
    seen = await manager.next("ram")
    assert set(seen.held_bytes) == {"s"}
    assert 0 < seen.held_bytes["s"] < GIB


async def test_a_worker_below_a_program_that_has_reserved_is_a_worker(
    manager: Manager, driver: StandIn, family: tuple[int, int]
) -> None:
    parent, child = family
    driver.allocate(0, 2 * GIB, pid=child)
    manager.workers.pids = {"w": [child]}
    manager.reservations = {"r": Reserved("gpu0", parent)}
    manager.measuring.start()
    seen = await manager.next("gpu0")
    assert (seen.held_bytes, seen.listed_bytes) == ({"w": 2 * GIB}, 0)


async def test_ram_is_read_after_the_host_has_measured_its_workers(manager: Manager) -> None:
    manager.workers.measured = {"a": {"ram": 7 * MIB}, "b": {}}
    manager.measuring.start()
    seen = await manager.next("ram")
    assert seen.held_bytes == {"a": 7 * MIB, "b": 0}
    assert seen.listed_bytes == 0
    assert any(0 <= asked - seen.begun < 0.1 for asked in manager.workers.rounds)


async def test_a_new_process_on_a_gpu_has_the_host_measured_since_it_may_be_a_workers(
    manager: Manager, driver: StandIn
) -> None:
    manager.pace_s = {"ram": 1000.0}
    manager.measuring.start()
    await until(lambda: manager.of("ram"))
    before = len(manager.workers.rounds)
    driver.stranger(0, GIB, pid=101)
    await until(lambda: len(manager.workers.rounds) == before + 1)
    await manager.next("gpu0")
    await manager.next("gpu0")
    assert len(manager.workers.rounds) == before + 1  # it is known as a stranger now


async def test_memory_pressure_is_told(manager: Manager, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "stalls", lambda _: iter([None]))
    manager.measuring.start()
    await until(lambda: MemoryPressure(device="ram") in manager.told)


async def test_where_the_kernel_does_not_tell_of_pressure_nothing_is_said(
    manager: Manager, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def none(path: str) -> Any:
        asked.append(path)
        raise FileNotFoundError(path)

    monkeypatch.setattr(measuring, "stalls", none)
    manager.measuring.start()
    await until(lambda: len(asked) > 1)
    assert manager.notes == []


# When.


async def test_a_sample_that_is_wanted_is_taken_at_once_and_begun_after_that(manager: Manager) -> None:
    manager.pace_s = {"gpu0": 1000.0, "gpu1": 1000.0, "ram": 1000.0}
    manager.measuring.start()
    await until(lambda: manager.of("gpu0") and manager.of("ram"))
    for name in ("gpu0", "ram"):
        now, before = time.monotonic(), len(manager.of(name))
        manager.measuring.sample(Sample(device=name))
        await until(lambda name=name, before=before: len(manager.of(name)) > before)  # type: ignore[misc]
        assert manager.of(name)[-1].begun >= now
    manager.measuring.sample(Sample(device="gpu9"))


async def test_what_happens_to_a_worker_shortens_a_long_pause(manager: Manager) -> None:
    manager.pace_s = {"gpu0": 1000.0, "gpu1": 1000.0}
    manager.measuring.start()
    await until(lambda: manager.of("gpu0") and manager.of("gpu1"))
    manager.pace_s["gpu0"] = 0.01
    for _ in range(100):
        manager.measuring.stir()
    await manager.next("gpu0")
    assert len(manager.of("gpu1")) == 1


# What goes wrong.


async def test_a_gpu_that_hangs_stops_nothing_else_and_is_named_once(
    manager: Manager, driver: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "NO_ANSWER_S", 0.1)
    manager.measuring.start()
    await manager.next("gpu0")
    driver.hang(MEMORY, gpu=0)
    await until(lambda: manager.notes)
    stopped = len(manager.of("gpu0"))
    await manager.next("gpu1")
    await manager.next("ram")
    assert manager.notes == [("silent", "gpu0", "no answer for 0.1 s")]
    assert len(manager.of("gpu0")) == stopped
    driver.heal()
    await manager.next("gpu0")
    assert [(kind, device) for kind, device, _ in manager.notes] == [("silent", "gpu0"), ("answers again", "gpu0")]
    assert not [event for event in manager.told if isinstance(event, DeviceLost)]


async def test_a_gpu_that_fails_is_named_once_with_the_drivers_words(manager: Manager, driver: StandIn) -> None:
    manager.measuring.start()
    await manager.next("gpu0")
    driver.fail(MEMORY, gpu=0)
    await until(lambda: manager.notes)
    calls = driver.calls
    await until(lambda: driver.calls > calls + 20)
    assert manager.notes == [("silent", "gpu0", "no answer: NVML: Unknown Error")]
    driver.heal()
    await manager.next("gpu0")
    assert [kind for kind, _, _ in manager.notes] == ["silent", "answers again"]


async def test_a_gpu_that_is_lost_is_told_once_and_seen_again_when_it_is_back(
    manager: Manager, driver: StandIn
) -> None:
    manager.measuring.start()
    await manager.next("gpu0")
    driver.lose(0)
    await until(lambda: any(isinstance(event, DeviceLost) for event in manager.told))
    stopped = len(manager.of("gpu0"))
    await manager.next("gpu1")
    await manager.next("gpu1")
    (lost,) = [event for event in manager.told if isinstance(event, DeviceLost)]
    assert (lost.name, "fallen off the bus" in lost.reason) == ("gpu0", True)
    assert len(manager.of("gpu0")) == stopped
    driver.find(0)
    await manager.next("gpu0")
    assert manager.notes == []


async def test_that_a_gpu_has_not_been_seen_for_want_of_an_answer_is_told_until_it_is(
    manager: Manager, driver: StandIn
) -> None:
    driver.fail(MEMORY, gpu=0)
    manager.measuring.start()
    await until(lambda: any(isinstance(event, DriverSilent) for event in manager.told))
    await manager.measuring.until_seen()
    assert not manager.of("gpu0")
    driver.heal()
    await manager.next("gpu0")
    told = [event.reason for event in manager.told if isinstance(event, DriverSilent)]
    assert ["gpu0" in (reason or "") for reason in told] == [True, False]


async def test_gpus_that_come_later_are_found(manager: Manager, driver: StandIn) -> None:
    driver.unload()
    manager.measuring.start()
    await manager.next("ram")
    assert not manager.of("gpu0")
    driver.load()
    await manager.next("gpu1")
    driver.add(8 * GIB)
    assert (await manager.next("gpu2")).total_bytes == 8 * GIB


async def test_a_driver_that_says_something_strange_is_named_once(manager: Manager, driver: StandIn) -> None:
    driver.fail("nvmlInitWithFlags", 18)
    manager.measuring.start()
    await until(lambda: driver.calls > 3)
    ((kind, device, reason),) = manager.notes
    assert (kind, device) == ("silent", "NVIDIA driver")
    assert "version mismatch" in reason
    (silent,) = [event for event in manager.told if isinstance(event, DriverSilent)]
    assert silent.reason is not None
    assert "version mismatch" in silent.reason
    driver.heal()
    await manager.next("gpu0")
    assert [event.reason for event in manager.told if isinstance(event, DriverSilent)] == [silent.reason, None]


# The first look.


@pytest.mark.usefixtures("driver")
def test_the_first_look_sees_what_there_is() -> None:
    assert [sample.name for sample in FirstLook(Nvml()).samples(10)] == ["gpu0", "gpu1"]


async def test_a_driver_that_hangs_at_the_start_is_not_waited_for_and_not_asked_twice(
    manager: Manager, driver: StandIn
) -> None:
    driver.hang("nvmlInitWithFlags")
    gpus = Nvml()
    first = FirstLook(gpus)
    await until(lambda: driver.hanging == 1)
    assert first.samples(0.01) == []
    manager.measuring = Measuring(Ram(), gpus, manager.measuring._around, first)
    manager.measuring.start()
    await manager.next("ram")
    assert driver.hanging == 1
    driver.heal()
    await manager.next("gpu0")
    assert manager.notes == []


# Those who wait for it.


async def test_who_waits_for_gpus_goes_on_when_all_have_been_seen(manager: Manager, driver: StandIn) -> None:
    driver.hang("nvmlInitWithFlags")
    manager.measuring.start()
    waits = asyncio.create_task(manager.measuring.until_seen())
    await manager.next("ram")
    assert not waits.done()
    driver.heal()
    await waits
    assert manager.of("gpu0")
    assert manager.of("gpu1")


@pytest.mark.parametrize("trouble", ["none is there", "the driver fails", "one fails", "one is lost", "time is over"])
async def test_who_waits_for_gpus_does_not_wait_for_those_that_will_not_be_seen(
    manager: Manager, driver: StandIn, monkeypatch: pytest.MonkeyPatch, trouble: str
) -> None:
    if trouble == "none is there":
        driver.unload()
    elif trouble == "the driver fails":
        driver.fail("nvmlInitWithFlags")
    elif trouble == "one fails":
        driver.fail(MEMORY, gpu=1)
    elif trouble == "one is lost":
        driver.lose(1)
    else:
        driver.hang("nvmlInitWithFlags")
    monkeypatch.setattr(measuring, "SEEN_S", 0.1 if trouble == "time is over" else 600.0)
    manager.measuring.start()
    async with asyncio.timeout(20):
        await manager.measuring.until_seen()
    assert bool(manager.of("gpu0")) == trouble.startswith("one ")
    driver.load()
    driver.heal()
    await manager.next("gpu0")  # no call is left behind for the next test


# Who holds what.


def test_bytes_are_told_by_holder_and_the_rest_is_listed() -> None:
    found = by_holder({1: 10, 2: 20, 3: 40, 4: 80}, {"a": [1, 2, 9], "b": [5], "c": [3]})
    assert (found.held_bytes, found.listed_bytes, found.strangers) == ({"a": 30, "c": 40}, 80, frozenset({4}))


def test_a_tree_is_a_process_with_all_that_is_below_it(family: tuple[int, int]) -> None:
    parent, child = family
    assert set(tree(parent)) == {parent, child}
    assert tree(2**22 + 1) == []


def test_a_tree_is_found_where_the_kernel_does_not_tell_of_children(
    family: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    parent, child = family
    monkeypatch.setattr(holders, "_children", lambda _: None)
    assert set(tree(parent)) == {parent, child}


def test_of_the_processes_on_a_gpu_those_below_a_reservations_are_its_own(family: tuple[int, int]) -> None:
    parent, child = family
    gone = 2**22 + 1
    assert below([child, 1, gone, parent], {"a": parent, "b": gone + 1}) == {"a": [child, parent], "b": []}
    assert below([child, parent], {"outer": parent, "inner": child}) == {"outer": [parent], "inner": [child]}
    assert below([child], {"ours": os.getpid()}) == {"ours": [child]}
    assert below([child], {}) == {}


def test_private_bytes_are_what_is_not_read_from_files() -> None:
    own = [os.getpid()]
    before = private_bytes(own)
    block = b"x" * (64 * MIB)
    assert 63 * MIB < private_bytes(own) - before < 80 * MIB
    assert len(block) == 64 * MIB


def test_private_bytes_of_a_process_that_may_not_be_read_closely(monkeypatch: pytest.MonkeyPatch) -> None:
    opened = open

    def refuse(path: str, *args: Any, **kwargs: Any) -> Any:
        if path.endswith("smaps_rollup"):
            raise PermissionError(path)
        return opened(path, *args, **kwargs)

    monkeypatch.setattr("builtins.open", refuse)
    assert private_bytes([os.getpid()]) > MIB
    assert private_bytes([2**22 + 1]) == 0
