"""NVIDIA's GPUs, through the real nvidia-ml-py and a stand-in for the driver."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lazyd.devices import nvml, nvml_device, nvml_driver
from lazyd.devices.nvml import Nvml
from lazyd.devices.source import DeviceGone
from tests.fakes.nvml import GIB, MIB, StandIn
from tests.fakes.nvml.driver import COMPUTE, GRAPHICS, HIDDEN, MPS, WITHOUT_BYTES
from tests.fakes.nvml.here import used_here

MEMORY = "nvmlDeviceGetMemoryInfo_v2"
NOT_SUPPORTED, NO_PERMISSION, FUNCTION_NOT_FOUND = 3, 4, 13


def gpus() -> Nvml:
    found = Nvml()
    found.names()
    return found


def until(condition: Callable[[], object], within_s: float = 10.0) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)


# What a sample says.


def test_a_gpu_is_seen_with_its_size_and_name(driver: StandIn) -> None:
    found = Nvml()
    assert found.names() == ["gpu0", "gpu1"]
    before = time.monotonic()
    sample = found.sample("gpu1")
    assert (sample.name, sample.kind, sample.total_bytes, sample.used_bytes) == ("gpu1", "cuda", 16 * GIB, 0)
    assert (sample.uuid, sample.label, sample.alone) == (driver.uuid(1), "Stand-in 16 GiB", False)
    assert (sample.temperature_c, sample.power_w) == (40, 30.0)
    assert before <= sample.begun <= time.monotonic()
    assert found.uuid("gpu0") == driver.uuid(0)
    assert found.uuid("gpu2") is None


def test_everybodys_bytes_are_used_and_each_process_is_told_apart(driver: StandIn) -> None:
    driver.stranger(0, 6 * GIB, pid=123)
    driver.allocate(0, 2 * GIB)
    driver.allocate(0, GIB)
    driver.allocate(1, GIB)
    sample = gpus().sample("gpu0")
    assert sample.used_bytes == 9 * GIB
    assert sample.processes == {123: 6 * GIB, os.getpid(): 3 * GIB}


def test_processes_that_draw_or_use_mps_count_and_one_that_does_both_counts_once(driver: StandIn) -> None:
    driver.stranger(0, GIB, pid=1, kind=GRAPHICS)
    driver.stranger(0, 2 * GIB, pid=2, kind=MPS)
    driver.stranger(0, 3 * GIB, pid=3, kind=COMPUTE)
    driver.stranger(0, 3 * GIB, pid=3, kind=GRAPHICS)
    assert gpus().sample("gpu0").processes == {1: GIB, 2: 2 * GIB, 3: 3 * GIB}


def test_a_process_that_is_not_shown_or_without_a_figure_is_used_memory_of_nobody(driver: StandIn) -> None:
    driver.stranger(0, GIB, pid=1, shown=HIDDEN)
    driver.stranger(0, GIB, pid=2, shown=WITHOUT_BYTES)
    sample = gpus().sample("gpu0")
    assert (sample.used_bytes, sample.processes) == (2 * GIB, {})


def test_in_a_container_ids_that_are_nobodys_name_nobody(driver: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    driver.allocate(0, GIB)
    driver.stranger(0, 2 * GIB, pid=2**22 + 5)  # more than any process has: as if of another namespace
    assert gpus().sample("gpu0").processes == {os.getpid(): GIB, 2**22 + 5: 2 * GIB}
    monkeypatch.setattr(nvml_device, "sees_all_ids", lambda: False)
    sample = gpus().sample("gpu0")
    assert (sample.used_bytes, sample.processes) == (3 * GIB, {os.getpid(): GIB})


@pytest.mark.parametrize("old", [False, True])
def test_what_the_driver_has_set_aside_is_never_counted_twice(tmp_path: Path, old: bool) -> None:
    with used_here(StandIn(tmp_path / "driver", gpus=[22 * GIB], reserved=512 * MIB)) as driver:
        driver.stranger(0, GIB)
        if old:
            driver.fail(MEMORY, FUNCTION_NOT_FOUND)
        sample = gpus().sample("gpu0")
        free = 22 * GIB - 512 * MIB - GIB
        assert sample.total_bytes - sample.used_bytes == free
        assert sample.used_bytes == (GIB + 512 * MIB if old else GIB)


def test_an_old_driver_tells_less_and_is_not_asked_for_it_again(driver: StandIn) -> None:
    driver.stranger(0, GIB, pid=1)
    for function in (MEMORY, "nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetTemperatureV"):
        driver.fail(function, FUNCTION_NOT_FOUND)
    for version in ("v2", "v3"):
        driver.fail(f"nvmlDeviceGetMPSComputeRunningProcesses_{version}", NOT_SUPPORTED)
    driver.fail("nvmlDeviceGetPowerUsage", NO_PERMISSION)
    found = gpus()
    sample = found.sample("gpu0")
    assert (sample.used_bytes, sample.processes) == (GIB, {1: GIB})
    assert (sample.temperature_c, sample.power_w) == (40, None)
    before = driver.calls
    found.sample("gpu0")
    # Used, three lists but the one that does not exist (each asked for its length first if it has entries), used.
    assert driver.calls - before == 5


def test_used_and_processes_are_read_again_until_they_are_of_one_moment(
    driver: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, comes_then = nvml_device.Device._processes, [2 * GIB, GIB]

    def processes(device: nvml_device.Device) -> dict[int, int]:
        found = read(device)
        if comes_then:
            driver.stranger(0, comes_then.pop(), pid=5)
        return found

    monkeypatch.setattr(nvml_device.Device, "_processes", processes)
    sample = gpus().sample("gpu0")
    assert (sample.used_bytes, sample.processes) == (3 * GIB, {5: 3 * GIB})


def test_where_the_two_never_agree_the_larger_figure_counts(driver: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    read, held = nvml_device.Device._processes, [driver.stranger(0, GIB) for _ in range(5)]

    def processes(device: nvml_device.Device) -> dict[int, int]:
        held.pop().free()
        return read(device)

    monkeypatch.setattr(nvml_device.Device, "_processes", processes)
    assert gpus().sample("gpu0").used_bytes == 3 * GIB
    assert driver.used(0) == 2 * GIB


# Divided GPUs.


def test_the_instances_of_a_divided_gpu_are_devices_and_the_gpu_is_none(driver: StandIn) -> None:
    instances = driver.divide(0, [10 * GIB, 5 * GIB])
    driver.allocate(instances[1], GIB)
    found = Nvml()
    assert found.names() == ["gpu0", "gpu1", "gpu2"]
    one, two, whole = (found.sample(name) for name in ("gpu0", "gpu1", "gpu2"))
    assert [sample.total_bytes // GIB for sample in (one, two, whole)] == [10, 5, 16]
    assert [sample.alone for sample in (one, two, whole)] == [True, True, False]
    assert (one.used_bytes, two.used_bytes, two.processes) == (0, GIB, {os.getpid(): GIB})
    assert (two.uuid, whole.uuid) == (driver.uuid(instances[1]), driver.uuid(1))
    assert (two.temperature_c, two.power_w) == (40, None)


def test_of_instances_that_share_their_memory_one_stands_for_it(driver: StandIn) -> None:
    driver.divide(0, [10 * GIB, 10 * GIB], shared=True)
    assert Nvml().names() == ["gpu0", "gpu1"]


def test_a_divided_gpu_without_instances_is_no_device(driver: StandIn) -> None:
    driver.divide(0, [])
    found = Nvml()
    assert found.names() == ["gpu0"]
    assert found.uuid("gpu0") == driver.uuid(1)


def test_instances_that_come_later_get_new_numbers(driver: StandIn) -> None:
    found = gpus()
    instances = driver.divide(0, [10 * GIB])
    assert found.names() == ["gpu1", "gpu2"]
    assert (found.uuid("gpu1"), found.uuid("gpu2")) == (driver.uuid(1), driver.uuid(instances[0]))
    with pytest.raises(DeviceGone):
        found.sample("gpu0")
    driver.undivide(0, instances)
    assert found.names() == ["gpu0", "gpu1"]
    assert found.sample("gpu0").total_bytes == 22 * GIB


# What goes wrong.


def test_without_nvmls_library_there_are_no_gpus_and_nothing_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml, "LIBRARY", "libthere-is-no-such-library.so.1")
    found = Nvml()
    assert found.names() == []
    assert found._driver is None
    assert found.uuid("gpu0") is None
    with pytest.raises(DeviceGone):
        found.sample("gpu0")


def test_a_driver_that_is_not_loaded_is_no_gpus_until_it_is(driver: StandIn) -> None:
    driver.unload()
    found = Nvml()
    assert found.names() == []
    driver.load()
    assert found.names() == ["gpu0", "gpu1"]


def test_a_driver_that_does_not_fit_its_library_says_so(driver: StandIn) -> None:
    driver.fail("nvmlInitWithFlags", 18)
    with pytest.raises(OSError, match="version mismatch"):
        Nvml().names()


def test_after_the_driver_was_loaded_anew_the_gpus_are_the_same(driver: StandIn) -> None:
    found = gpus()
    driver.unload()
    with pytest.raises(DeviceGone, match="Driver Not Loaded"):
        found.sample("gpu0")
    assert found.names() == []
    driver.load()
    driver.divide(0, [])
    assert found.names() == ["gpu1"]
    assert found.sample("gpu1").total_bytes == 16 * GIB


def test_a_gpu_that_falls_off_the_bus_is_gone_and_the_others_are_not(driver: StandIn) -> None:
    found = gpus()
    driver.lose(0)
    for _ in range(2):
        with pytest.raises(DeviceGone, match="fallen off the bus"):
            found.sample("gpu0")
        assert found.sample("gpu1").total_bytes == 16 * GIB
        assert "gpu1" in found.names()
    driver.find(0)
    found.names()
    assert found.sample("gpu0").total_bytes == 22 * GIB


def test_the_only_gpu_comes_back(driver: StandIn) -> None:
    driver.remove(1)
    found = gpus()
    driver.lose(0)
    found.names()
    driver.find(0)
    found.names()
    found.names()
    assert found.sample("gpu0").total_bytes == 22 * GIB


def test_a_gpu_that_is_lost_from_the_start_leaves_the_others_their_numbers(driver: StandIn) -> None:
    driver.lose(0)
    found = Nvml()
    assert found.names() == ["gpu0", "gpu1"]
    assert found.uuid("gpu1") == driver.uuid(1)
    with pytest.raises(DeviceGone):
        found.sample("gpu0")
    driver.find(0)
    assert found.names() == ["gpu0", "gpu1"]
    assert found.uuid("gpu0") == driver.uuid(0)


def test_a_gpu_that_is_taken_out_is_gone_and_keeps_its_number(driver: StandIn) -> None:
    found = gpus()
    driver.remove(0)
    assert found.names() == ["gpu1"]
    with pytest.raises(DeviceGone, match="not there"):
        found.sample("gpu0")
    new = driver.add(8 * GIB)
    assert found.names() == ["gpu1", "gpu2"]
    assert found.uuid("gpu2") == driver.uuid(new)
    driver.put_back(0)
    assert found.names() == ["gpu0", "gpu1", "gpu2"]
    assert found.sample("gpu0").uuid == driver.uuid(0)


def test_a_gpu_that_others_may_use_and_this_process_may_not_is_none(driver: StandIn) -> None:
    driver.fail("nvmlDeviceGetHandleByIndex_v2", NO_PERMISSION, gpu=0)
    found = Nvml()
    assert found.names() == ["gpu0"]
    assert found.uuid("gpu0") == driver.uuid(1)


def test_a_gpu_that_this_process_may_not_ask_any_more_is_not_lost_for_its_workers(driver: StandIn) -> None:
    found = gpus()
    driver.fail("nvmlDeviceGetHandleByIndex_v2", NO_PERMISSION, gpu=0)
    assert found.names() == ["gpu1"]
    with pytest.raises(PermissionError):
        found.sample("gpu0")
    driver.heal()
    assert found.names() == ["gpu0", "gpu1"]


def test_a_call_that_fails_is_no_answer_and_the_next_one_may_be(driver: StandIn) -> None:
    found = gpus()
    driver.fail(MEMORY, gpu=0, times=1)
    with pytest.raises(OSError, match="NVML"):
        found.sample("gpu0")
    assert found.sample("gpu0").total_bytes == 22 * GIB


def test_a_gpu_that_hangs_hangs_alone(driver: StandIn) -> None:
    found = gpus()
    driver.hang(MEMORY, gpu=0)
    sampled: list[int] = []
    thread = threading.Thread(target=lambda: sampled.append(found.sample("gpu0").total_bytes), daemon=True)
    thread.start()
    until(lambda: driver.hanging == 1)
    assert found.sample("gpu1").total_bytes == 16 * GIB
    assert found.names() == ["gpu0", "gpu1"]
    assert sampled == []
    driver.heal()
    thread.join(10)
    assert sampled == [22 * GIB]


def test_a_gpu_that_hangs_from_the_start_has_its_number_and_holds_up_nobody(
    driver: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nvml_driver, "LOOK_S", 0.1)
    driver.hang("nvmlDeviceGetUUID", gpu=0)
    found = Nvml()
    assert found.names() == ["gpu0", "gpu1"]
    assert found.sample("gpu1").uuid == driver.uuid(1)
    with pytest.raises(OSError, match="does not answer"):
        found.sample("gpu0")
    found.names()
    assert driver.hanging == 1  # it is not asked again while it hangs
    driver.heal()
    until(lambda: found.names() and found.uuid("gpu0") == driver.uuid(0))
    assert found.sample("gpu0").total_bytes == 22 * GIB


def test_a_search_that_hangs_is_not_begun_a_second_time(driver: StandIn) -> None:
    driver.hang("nvmlInitWithFlags")
    found = Nvml()
    thread = threading.Thread(target=found.names, daemon=True)
    thread.start()
    until(lambda: driver.hanging == 1)
    with pytest.raises(OSError, match="has not ended"):
        found.names()
    driver.heal()
    thread.join(10)
    assert found.names() == ["gpu0", "gpu1"]


def test_nvml_is_not_shut_down_under_a_call_that_hangs(driver: StandIn) -> None:
    found = gpus()
    driver.hang(MEMORY, gpu=0)
    gone: list[DeviceGone] = []

    def sample() -> None:
        try:
            found.sample("gpu0")
        except DeviceGone as error:
            gone.append(error)

    thread = threading.Thread(target=sample, daemon=True)
    thread.start()
    until(lambda: driver.hanging == 1)
    driver.unload()
    assert found.names() == []
    assert found._driver._initialised
    driver.heal()
    thread.join(10)
    assert len(gone) == 1
    found.names()
    assert not found._driver._initialised
    driver.load()
    assert found.names() == ["gpu0", "gpu1"]
