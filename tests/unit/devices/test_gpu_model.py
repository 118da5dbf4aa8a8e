"""The model that other tests load on the stand-in driver."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lazyd.runtimes.python import Instance, PythonRuntime
from tests.fakes import gpu_model
from tests.fakes.gpu_model import GpuModel, OutOfMemoryError
from tests.fakes.nvml import GIB, MIB, StandIn

ROOT = Path(__file__).parents[3]


@pytest.fixture
def on(driver: StandIn, monkeypatch: pytest.MonkeyPatch) -> StandIn:
    """The driver, the second GPU alone of which is visible."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", driver.uuid(1))
    return driver


def test_it_allocates_on_the_gpus_that_it_sees(driver: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    for visible, expected in (([1], [0, 5]), ([1, 0], [3, 2]), ([], [0, 0])):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", ",".join(map(driver.uuid, visible)))
        model = GpuModel(size_mib=5)
        assert [driver.used(gpu) // MIB for gpu in (0, 1)] == expected
        model.park()


def test_its_load_and_its_calls_have_a_peak_and_calls_leak(on: StandIn) -> None:
    model = GpuModel(size_mib=100, context_mib=10, load_peak_mib=50, call_peak_mib=200, leak_mib=1)
    assert (on.used(1), on.highest(1)) == (110 * MIB, 160 * MIB)
    assert model.run() == {"pid": os.getpid(), "gpus": [1], "bytes": [111 * MIB]}
    assert (on.used(1), on.highest(1)) == (111 * MIB, 310 * MIB)


def test_it_loads_as_long_as_it_should(on: StandIn) -> None:
    began = time.monotonic()
    GpuModel(size_mib=7, steps=5, load_s=0.1)
    assert time.monotonic() - began >= 0.1
    assert on.used(1) == 7 * MIB


def test_parked_it_holds_its_context_and_what_it_could_not_give_back(on: StandIn) -> None:
    model = GpuModel(size_mib=100, context_mib=10, residue_mib=2)
    model.park()
    assert on.used(1) == 12 * MIB
    model.unpark()
    assert on.used(1) == 110 * MIB


def test_a_full_device_raises_what_runtimes_take_for_want_of_memory(on: StandIn) -> None:
    on.stranger(1, 15 * GIB)
    runtime = PythonRuntime()
    for error, kind in (("torch", OutOfMemoryError), ("cuda", RuntimeError)):
        with pytest.raises(kind) as full:
            GpuModel(size_mib=2048, error=error)
        assert runtime.out_of_memory(full.value)
    with pytest.raises(RuntimeError) as broken:
        GpuModel(fails="no such layer")
    assert not runtime.out_of_memory(broken.value)


@pytest.mark.parametrize("error", ["ggml", "abort"])
def test_what_it_writes_when_it_runs_out_is_taken_for_want_of_memory(on: StandIn, error: str) -> None:
    on.stranger(1, 15 * GIB)
    program = f"from tests.fakes.gpu_model import make; make(size_mib=2048, error={error!r})"
    ended = subprocess.run(
        ["sh", "-c", 'ulimit -c 0; exec "$0" -c "$1"', sys.executable, program],
        cwd=ROOT,
        env={**os.environ, **on.environment()},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == (-6 if error == "abort" else 1)
    assert PythonRuntime.OUT_OF_MEMORY.search(ended.stderr)


def test_it_can_be_hidden_or_hold_its_memory_in_a_child(on: StandIn) -> None:
    hidden, parent = GpuModel(size_mib=1, hidden=True), GpuModel(size_mib=2, in_child=True)
    try:
        assert on.used(1) == 3 * MIB
        assert parent.tell()["pid"] != os.getpid()
        assert parent.tell()["bytes"] == [2 * MIB]
        assert hidden.tell()["bytes"] == [MIB]
    finally:
        parent.close()
    assert on.used(1) == MIB


@pytest.mark.usefixtures("on")
def test_one_parks_and_one_cannot() -> None:
    assert Instance(gpu_model.make(), "").parks
    assert not Instance(gpu_model.make_unparkable(), "").parks
