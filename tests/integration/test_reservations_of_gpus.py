"""Reservations of GPUs: real lazyd and lazyctl on the stand-in for NVIDIA's driver."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.nvml import GIB, StandIn

from .conftest import LAZYCTL, LIMIT_S, Daemon
from .test_reservations import following

ROOT = Path(__file__).parents[2]

PROGRAM = """
import os, sys
from tests.fakes.nvml import StandIn, GIB
driver = StandIn.of_environment()
(gpu,) = driver.visible(os.environ["CUDA_VISIBLE_DEVICES"])
for line in sys.stdin:
    driver.allocate(gpu, int(line) * GIB)
    print("has", line.strip(), "of", gpu, flush=True)
"""
"""Allocates so many GiB for each line, on the one GPU that it sees."""

OURS = 1
"""What the test itself holds of each GPU."""

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def idle(daemon: Daemon) -> StandIn:
    """A daemon runs on two GPUs of 22 GiB, of which it holds nothing: so they are looked at rarely."""
    driver = StandIn(daemon.root / "driver", gpus=[22 * GIB, 22 * GIB], release_s=0)
    daemon.configure("@echo")
    daemon.start(env=driver.environment())
    daemon.until(lambda: {"gpu0", "gpu1"} <= devices(daemon).keys())
    return driver


@pytest.fixture
def driver(daemon: Daemon, idle: StandIn) -> Iterator[StandIn]:
    """The test has a byte of each of them: so they are looked at every second."""
    with daemon.client() as client:
        for gpu in ("gpu0", "gpu1"):
            client.call("Reserve", device=gpu, bytes=OURS, command="this test")
        yield idle


@pytest.fixture
def start(daemon: Daemon, idle: StandIn) -> Iterator[Start]:
    started: list[subprocess.Popen[str]] = []

    def start(*words: str) -> subprocess.Popen[str]:
        variables = {**os.environ, **idle.environment(), "LAZYD_SOCKET": daemon.socket, "PYTHONPATH": str(ROOT)}
        streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        started.append(subprocess.Popen([str(LAZYCTL), *words], text=True, env=variables, **streams))
        return started[-1]

    yield start
    for one in started:
        if one.poll() is None:
            one.kill()
        one.communicate()


def devices(daemon: Daemon) -> dict[str, dict[str, Any]]:
    with daemon.client() as client:
        return {device["name"]: device for device in client.call("Status")["devices"]}


def wishes(daemon: Daemon) -> list[dict[str, Any]]:
    """The reservations that are waited for."""
    with daemon.client() as client:
        found: list[dict[str, Any]] = client.call("Status")["wishes"]
    return found


def use(command: subprocess.Popen[str], gib: int) -> str:
    """Has the program allocate; what it says."""
    assert command.stdin is not None
    assert command.stdout is not None
    command.stdin.write(f"{gib}\n")
    command.stdin.flush()
    return command.stdout.readline().strip()


def test_the_program_sees_its_gpu_alone_and_its_bytes_are_the_reservations(
    daemon: Daemon, driver: StandIn, start: Start
) -> None:
    command = start("reserve", "gpu1", "8GiB", "--", sys.executable, "-c", PROGRAM)
    assert use(command, 6) == "has 6 of 1"
    shown = daemon.until(lambda: (d := devices(daemon)["gpu1"])["reservedBytes"] == 8 * GIB + OURS and d)
    assert (shown["bookedBytes"], shown["foreignBytes"]) == (8 * GIB + OURS, 0)
    assert (shown["uuid"], shown["state"]) == (driver.uuid(1), "ok")
    assert shown["temperatureC"] > 0
    out, err = command.communicate(timeout=LIMIT_S)
    assert (command.returncode, out, err) == (0, "", "")
    daemon.until(lambda: (d := devices(daemon)["gpu1"])["bookedBytes"] == OURS and d["foreignBytes"] == 0)


def test_what_a_program_uses_beyond_its_reservation_is_foreign(daemon: Daemon, driver: StandIn, start: Start) -> None:
    command = start("reserve", "gpu0", "8GiB", "--", sys.executable, "-c", PROGRAM)
    assert use(command, 10) == "has 10 of 0"
    daemon.until(lambda: devices(daemon)["gpu0"]["foreignBytes"] == 2 * GIB)
    assert devices(daemon)["gpu0"]["bookedBytes"] == 8 * GIB + OURS
    assert driver.used(0) == 10 * GIB


def test_a_reservation_waits_for_a_stranger_to_leave(daemon: Daemon, driver: StandIn, start: Start) -> None:
    stranger = driver.stranger(0, 15 * GIB)
    daemon.until(lambda: devices(daemon)["gpu0"]["foreignBytes"] == 15 * GIB)
    refused = start("reserve", "gpu0", "8GiB", "--no-wait", "--", "true")
    _, err = refused.communicate(timeout=LIMIT_S)
    assert refused.returncode == 75
    assert 'no room for "true": it needs 8.0 GiB of gpu0' in err
    command = start("reserve", "gpu0", "8GiB", "--", sys.executable, "-c", PROGRAM)
    stranger.free()
    assert use(command, 1) == "has 1 of 0"


def test_who_waits_is_shown_with_what_for_and_one_that_is_killed_gets_nothing(
    daemon: Daemon, driver: StandIn, start: Start
) -> None:
    stranger = driver.stranger(0, 15 * GIB)
    daemon.until(lambda: devices(daemon)["gpu0"]["foreignBytes"] == 15 * GIB)
    command = start("reserve", "gpu0", "8GiB", "--", "echo", "it ran")
    (wish,) = daemon.until(lambda: wishes(daemon))
    assert (wish["device"], wish["bytes"], wish["pid"]) == ("gpu0", 8 * GIB, command.pid)
    assert "other programs use 15.0 GiB" in wish["why"][-1]
    shown = start("status").communicate(timeout=LIMIT_S)[0]
    assert re.search(rf"\n8\.0 GiB  gpu0 +{command.pid} .* echo it ran\n  It needs 8\.0 GiB of gpu0, where", shown)
    command.kill()
    assert command.wait(LIMIT_S) == -signal.SIGKILL
    daemon.until(lambda: not wishes(daemon))
    stranger.free()
    daemon.until(lambda: devices(daemon)["gpu0"]["foreignBytes"] == 0)
    assert devices(daemon)["gpu0"]["bookedBytes"] == OURS
    assert command.communicate()[0] == ""


def test_what_a_program_holds_is_foreign_once_its_client_was_killed(
    daemon: Daemon, driver: StandIn, start: Start
) -> None:
    command = start("reserve", "gpu1", "8GiB", "--", sys.executable, "-c", PROGRAM)
    assert use(command, 6) == "has 6 of 1"
    command.kill()
    assert command.wait(LIMIT_S) == -signal.SIGKILL
    daemon.until(lambda: (d := devices(daemon)["gpu1"])["bookedBytes"] == OURS and d["foreignBytes"] == 6 * GIB)
    assert use(command, 2) == "has 2 of 1"  # it has noticed nothing
    daemon.until(lambda: devices(daemon)["gpu1"]["foreignBytes"] == 8 * GIB)
    assert driver.used(1) == 8 * GIB


def test_room_is_made_for_a_program_and_the_events_tell_who_left_for_it(daemon: Daemon, idle: StandIn) -> None:
    daemon.configure(f"""
        [budget]
        max_reserved = "100%"
        [models.voice]
        runtime = "python"
        factory = "tests.fakes.gpu_model:make"
        python_path = ["{ROOT}"]
        device = ["gpu0"]
        memory = "12GiB"
        options = {{ size_mib = 12000 }}
    """)
    with daemon.client() as mine:
        mine.call("Reload")
        mine.call("Load", model="voice")
        with following(daemon) as happening:
            reply = mine.call("Reserve", device="gpu0", bytes=16 * GIB, command="train.py")
            told = next(event for event in happening if event["kind"] == "evicted")
        assert (told["model"], told["reason"]) == ("voice", 'room for "train.py"')
        assert reply["uuid"] == idle.uuid(0)
    assert idle.used(0) == 0


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (["gpu9", "1GiB"], 2, "there is no device gpu9"),
        (["gpu0", "23GiB"], 75, "it never fits there: let it need less or use another device"),
        (["gpu0", "17GiB"], 75, "reserve less, or raise max_reserved in [budget]"),
        (["gpu0", "1Gig"], 2, "'1Gig' is not a size"),
        (["gpu0", "8"], 2, "'8' would be 8 bytes"),
        (["gpu0", "0GiB"], 2, "'0GiB' is nothing at all"),
        (["gpu0", "-1GiB"], 2, "-1"),
    ],
)
def test_a_wish_that_is_nonsense_or_too_large_says_so_in_a_line_and_runs_nothing(
    daemon: Daemon, driver: StandIn, start: Start, words: list[str], status: int, said: str
) -> None:
    refused = start("reserve", *words, "--", "echo", "it ran")
    out, err = refused.communicate(timeout=LIMIT_S)
    assert (refused.returncode, out, err.count("\n")) == (status, "", 1)
    assert said in err
    assert devices(daemon)["gpu0"]["bookedBytes"] == OURS
    assert driver.used(0) == 0


def test_a_gpu_that_falls_off_the_bus_is_shown_as_lost(daemon: Daemon, driver: StandIn, start: Start) -> None:
    driver.lose(1)
    daemon.until(lambda: devices(daemon)["gpu1"]["state"] == "lost")
    out, _ = start("status").communicate(timeout=LIMIT_S)
    assert "  lost: the driver does not find it any more" in out
    refused = start("reserve", "gpu1", "1GiB", "--", "true")
    _, err = refused.communicate(timeout=LIMIT_S)
    assert refused.returncode == 75
    assert "gpu1 is lost" in err


def test_status_names_the_processes_of_others(daemon: Daemon, idle: StandIn, start: Start) -> None:
    start("reserve", "gpu1", "1GiB", "--", "cat")  # so it is looked at every second
    daemon.until(lambda: devices(daemon)["gpu1"]["bookedBytes"] == GIB)
    program = "import time; from tests.fakes.nvml import GIB, StandIn; " + (
        "held = StandIn.of_environment().allocate(1, 9 * GIB); time.sleep(600)"
    )
    variables = {**os.environ, **idle.environment(), "PYTHONPATH": str(ROOT)}
    with subprocess.Popen([sys.executable, "-c", program], env=variables) as comfyui:
        try:
            (seen,) = daemon.until(lambda: devices(daemon)["gpu1"].get("strangers"))
            assert (seen["pid"], seen["bytes"]) == (comfyui.pid, 9 * GIB)
            assert seen["name"].startswith("python")
            shown = start("status").communicate(timeout=LIMIT_S)[0]
            assert f"{seen['name']} (pid {comfyui.pid}) 9.0 GiB" in shown
        finally:
            comfyui.kill()
    daemon.until(lambda: "strangers" not in devices(daemon)["gpu1"])


def test_status_draws_every_gpu(daemon: Daemon, driver: StandIn, start: Start) -> None:
    command = start("reserve", "gpu0", "8GiB", "--", sys.executable, "-c", PROGRAM)
    use(command, 8)
    driver.stranger(1, 3 * GIB)
    daemon.until(lambda: devices(daemon)["gpu1"]["foreignBytes"] == 3 * GIB)
    lines = start("status").communicate(timeout=LIMIT_S)[0].splitlines()
    rows = {line.split()[0]: number for number, line in enumerate(lines) if line[:3] in ("ram", "gpu")}
    assert lines[rows["gpu0"] + 1].count("▓") == pytest.approx(78 * 8 / 22, abs=2)
    assert f"{Path(sys.executable)}".rpartition("/")[2] in lines[rows["gpu0"] + 2]
    assert lines[rows["gpu1"] + 1].count("▒") == pytest.approx(78 * 3 / 22, abs=2)
    assert lines[rows["gpu0"]].endswith("W")
