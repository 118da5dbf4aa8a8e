"""What other tests rely on when they use the stand-in for NVIDIA's driver."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.fakes.nvml import GIB, MIB, OutOfMemory, StandIn
from tests.fakes.nvml.driver import GIVEN_BACK, HIDDEN, LET_GO, REFUSED, TAKEN

ROOT = Path(__file__).parents[3]


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "100"]) as process:
        yield process
        process.kill()


def until(condition: Callable[[], object], within_s: float = 10.0) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def test_memory_runs_out_exactly_when_the_device_is_full(driver: StandIn) -> None:
    driver.stranger(0, 20 * GIB)
    allocation = driver.allocate(0, 2 * GIB)
    with pytest.raises(OutOfMemory):
        driver.allocate(0, 1)
    assert (driver.used(0), driver.highest(0), driver.refused(0)) == (22 * GIB, 22 * GIB, 1)
    assert allocation.free() == 2 * GIB
    assert allocation.free() == 0
    driver.allocate(0, 1).free()
    assert driver.used(1) == 0


def test_it_remembers_what_has_happened_to_memory(driver: StandIn) -> None:
    stranger = driver.stranger(0, 20 * GIB, pid=4_000_001, shown=HIDDEN)
    with pytest.raises(OutOfMemory):
        driver.allocate(0, 3 * GIB)
    stranger.free()
    told = [(each.what, each.pid, each.bytes, each.used) for each in driver.happened()]
    assert told == [
        (TAKEN, 4_000_001, 20 * GIB, 20 * GIB),
        (REFUSED, os.getpid(), 3 * GIB, 20 * GIB),
        (LET_GO, 4_000_001, 20 * GIB, 20 * GIB),
        (GIVEN_BACK, 4_000_001, 20 * GIB, 0),
    ]
    assert repr(driver.happened()[1]) == f"pid {os.getpid()} is refused 3072 MiB of GPU 0: 20480 in use"


def test_what_the_driver_has_set_aside_is_not_to_be_had(tmp_path: Path) -> None:
    driver = StandIn(tmp_path / "other", gpus=[2 * GIB], reserved=512 * MIB)
    with pytest.raises(OutOfMemory):
        driver.allocate(0, 2 * GIB)
    driver.allocate(0, 1536 * MIB).free()


def test_the_memory_of_a_dead_process_shows_for_a_while(driver: StandIn, sleeper: subprocess.Popen[bytes]) -> None:
    driver.set_release(0.2)
    driver.allocate(0, GIB, pid=sleeper.pid)
    driver.allocate(1, GIB, pid=sleeper.pid, shown=HIDDEN)
    sleeper.kill()  # and nobody has waited for it yet
    until(lambda: driver.held(0, sleeper.pid) == 0)
    began = time.monotonic()
    assert driver.used(0) == driver.used(1) == GIB
    until(lambda: driver.used(0) == 0)
    assert time.monotonic() - began > 0.1
    until(lambda: driver.used(1) == 0)


def test_without_a_delay_the_memory_of_a_dead_process_is_back_at_once(
    driver: StandIn, sleeper: subprocess.Popen[bytes]
) -> None:
    driver.allocate(0, GIB, pid=sleeper.pid)
    sleeper.kill()
    sleeper.wait()
    assert driver.used(0) == 0


def test_a_process_that_is_not_there_gets_nothing(driver: StandIn, sleeper: subprocess.Popen[bytes]) -> None:
    sleeper.kill()
    sleeper.wait()
    with pytest.raises(ProcessLookupError):
        driver.allocate(0, 1, pid=sleeper.pid)
    driver.lose(0)
    with pytest.raises(OSError, match="is lost"):
        driver.allocate(0, 1)


def test_two_processes_that_allocate_at_once_never_get_more_than_there_is(driver: StandIn) -> None:
    program = (
        "from tests.fakes.nvml import *\n"
        "driver, got = StandIn.of_environment(), 0\n"
        "try:\n"
        "    while True: driver.allocate(0, 64 * MIB); got += 1\n"
        "except OutOfMemory: print(got, flush=True); input()\n"
    )
    environment = {**os.environ, **driver.environment()}
    started = [
        subprocess.Popen(
            [sys.executable, "-c", program], cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        for _ in range(2)
    ]
    got = 0
    for process in started:
        assert process.stdout is not None
        got += int(process.stdout.readline())
    assert got * 64 * MIB == 22 * GIB == driver.used(0)
    for process in started:
        process.communicate(b"\n")
    assert driver.used(0) == 0


def test_a_process_that_is_killed_in_the_middle_leaves_the_others_able_to_allocate(driver: StandIn) -> None:
    program = (
        "from tests.fakes.nvml import *\n"
        "driver = StandIn.of_environment()\n"
        "driver._library.standin_lock(driver._state)\n"
        "print(flush=True); input()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env={**os.environ, **driver.environment()},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.kill()
    driver.allocate(0, GIB).free()


def test_another_interpreter_can_allocate(driver: StandIn) -> None:
    program = "from tests.fakes.nvml import *; StandIn.of_environment().allocate(1, GIB); print(); input()"
    try:
        process = subprocess.Popen(
            ["pypy3", "-c", program],
            cwd=ROOT,
            env={**os.environ, **driver.environment()},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
    except FileNotFoundError:
        pytest.skip("there is no pypy3 here, which is a Python 3.9")
    assert process.stdout is not None
    process.stdout.readline()
    assert driver.held(1, process.pid) == GIB
    process.communicate(b"\n")
    assert driver.used(1) == 0


@pytest.mark.parametrize(
    ("gcc", "said"),
    [
        (None, "fakes: gcc compiles the stand-in driver and is not installed: make setup, or sudo apt-get install gcc"),
        ("#!/bin/sh\nexit 1\n", "fakes: gcc did not compile the stand-in driver; if a header is missing: make setup"),
    ],
)
def test_what_is_missing_to_compile_it_is_said(tmp_path: Path, gcc: str | None, said: str) -> None:
    sources = tmp_path / "tests" / "fakes" / "nvml"
    shutil.copytree(ROOT / "tests" / "fakes" / "nvml", sources, ignore=shutil.ignore_patterns("__pycache__"))
    commands = tmp_path / "bin"
    commands.mkdir()
    if gcc is not None:
        (commands / "gcc").write_text(gcc)
        (commands / "gcc").chmod(0o755)
    build = [sys.executable, str(sources / "build.py")]
    ran = subprocess.run(build, env={"PATH": str(commands)}, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr.startswith(said)
    assert not list((tmp_path / "build").rglob("*.so*"))
