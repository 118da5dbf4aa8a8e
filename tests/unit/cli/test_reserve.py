"""``lazyctl reserve``: a program inside a reservation, as a real process against a fake daemon."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lazyctl.child import environment, found
from lazyd import errors

from ..client.fakes import DEADLINE_S, eventually
from . import samples
from .conftest import Daemon, Lazyctl

GIB = 2**30
SHOW = "import os; print(os.environ.get('CUDA_VISIBLE_DEVICES'), os.environ.get('CUDA_DEVICE_ORDER'))"
COUNT = """
import signal, sys, time
seen = []
for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1"):
    signal.signal(getattr(signal, name), lambda number, _: print("got", signal.Signals(number).name, flush=True))
print("ready", flush=True)
for line in sys.stdin:
    if line.startswith("end"):
        break
print("ended", flush=True)
"""
"""A program that tells of every signal, and ends when it is told to."""

Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def granting(daemon: Daemon) -> Daemon:
    daemon.on["Reserve"] = lambda given: {"reservation": given.get("resume", "r1"), "uuid": "GPU-5a1f"}
    return daemon


@pytest.fixture
def start(daemon: Daemon) -> Iterator[Start]:
    """Start ``lazyctl reserve`` as a process of its own."""
    started: list[subprocess.Popen[str]] = []

    def start(*words: str, **popen: Any) -> subprocess.Popen[str]:
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        lazyctl = [str(Path(sys.executable).with_name("lazyctl")), "reserve", *words]
        variables = {**os.environ, "LAZYD_SOCKET": str(daemon.path)}
        started.append(subprocess.Popen(lazyctl, text=True, env=variables, **{**pipes, **popen}))
        return started[-1]

    yield start
    for one in started:
        if one.poll() is None:
            one.kill()
        one.wait(DEADLINE_S)
        for stream in (one.stdin, one.stdout, one.stderr):
            if stream is not None:
                stream.close()


def ended(command: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = command.communicate(timeout=DEADLINE_S)
    return command.returncode, out, err


def said(command: subprocess.Popen[str]) -> str:
    """The next line of the program."""
    assert command.stdout is not None
    return command.stdout.readline().strip()


def tell(command: subprocess.Popen[str], line: str) -> None:
    assert command.stdin is not None
    command.stdin.write(line + "\n")
    command.stdin.flush()


def test_the_command_runs_inside_a_reservation_and_sees_its_gpu_alone(granting: Daemon, start: Start) -> None:
    command = start("gpu0", "8GiB", "--", sys.executable, "-c", SHOW)
    assert ended(command) == (0, "GPU-5a1f PCI_BUS_ID\n", "")
    asked = granting.last("Reserve")
    assert asked == {"device": "gpu0", "bytes": 8 * GIB, "command": f"{sys.executable} -c {SHOW}"}
    eventually(lambda: not granting.connections)


def test_in_ram_it_sees_no_gpu(granting: Daemon, start: Start) -> None:
    assert ended(start("ram", "1GiB", "--", sys.executable, "-c", SHOW))[1] == " PCI_BUS_ID\n"
    assert granting.last("Reserve")["device"] == "ram"


def test_where_the_driver_tells_no_uuid_the_number_does() -> None:
    assert environment("gpu3", None, {"A": "1"}) == {
        "A": "1",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": "3",
    }


def test_it_exits_as_the_command_does(granting: Daemon, start: Start) -> None:
    assert ended(start("gpu0", "8GiB", "--", "sh", "-c", "echo out; echo err >&2; exit 7")) == (7, "out\n", "err\n")
    assert ended(start("gpu0", "8GiB", "--", "sh", "-c", "kill -9 $$"))[0] == 128 + signal.SIGKILL
    eventually(lambda: not granting.connections)


def test_options_after_the_dashes_are_the_commands(granting: Daemon, start: Start) -> None:
    assert ended(start("ram", "1GiB", "--", "echo", "--json", "--timeout", "1s")) == (0, "--json --timeout 1s\n", "")
    assert "timeoutSec" not in granting.last("Reserve")


def test_without_waiting_and_with_a_limit(granting: Daemon, start: Start) -> None:
    assert ended(start("ram", "1GiB", "--no-wait", "--timeout", "2min", "--", "true"))[0] == 0
    asked = granting.last("Reserve")
    assert asked["wait"] is False
    assert 100 < asked["timeoutSec"] <= 120


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (errors.NoRoom(model="true", device="gpu0", needed_bytes=8 * GIB, reason="others use it"), 75),
        (errors.NoSuchDevice(device="gpu0"), 2),
        (errors.Timeout(model="true", phase="queued", timeout_sec=5, reason="others use it"), 124),
        (errors.InvalidParameter(parameter="bytes"), 2),
    ],
)
def test_what_is_refused_runs_nothing(daemon: Daemon, lazyctl: Lazyctl, error: errors.LazydError, status: int) -> None:
    daemon.answer("Reserve", error)
    result = lazyctl("reserve", "gpu0", "8GiB", "--", "echo", "it ran")
    assert (result.status, result.error) == (status, str(error))


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["gpu0", "8", "--", "true"], "'8' would be 8 bytes: write it with its unit, as 8GiB"),
        (["gpu0", "much", "--", "true"], "is not a size"),
        (["gpu0", "8GiB"], "missing argument '-- COMMAND...'"),
        (["gpu0", "8GiB", "--"], "missing argument"),
        (["gpu0", "8GiB", "--timeout", "soon", "--", "true"], "'soon' is not a time"),
    ],
)
def test_wrong_usage_asks_for_nothing(daemon: Daemon, lazyctl: Lazyctl, words: list[str], says: str) -> None:
    result = lazyctl("reserve", *words)
    assert result.status == 2
    assert says in result.error
    assert daemon.asked == []


def test_a_command_that_is_not_there_reserves_nothing(daemon: Daemon, lazyctl: Lazyctl, tmp_path: Path) -> None:
    result = lazyctl("reserve", "gpu0", "8GiB", "--", "no-such-program-here", "x")
    assert result.status == 127
    assert result.error == "there is no command no-such-program-here on the PATH; nothing was reserved"
    assert lazyctl("reserve", "gpu0", "8GiB", "--", str(tmp_path / "gone")).status == 127
    (tmp_path / "text").write_text("no program")
    assert lazyctl("reserve", "gpu0", "8GiB", "--", str(tmp_path / "text")).status == 126
    assert lazyctl("reserve", "gpu0", "8GiB", "--", str(tmp_path)).status == 126
    assert daemon.asked == []


@pytest.mark.parametrize(("first_line", "status"), [("#!/nonexistent/python\n", 127), ("\0nonsense", 126)])
def test_a_command_that_cannot_be_started_gives_back_what_it_had(
    granting: Daemon, lazyctl: Lazyctl, tmp_path: Path, first_line: str, status: int
) -> None:
    program = tmp_path / "program"
    program.write_text(first_line)
    program.chmod(0o755)
    result = lazyctl("reserve", "gpu0", "8GiB", "--", str(program))
    assert result.status == status
    assert "cannot be started" in result.error
    eventually(lambda: not granting.connections)
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == set()


def test_a_program_is_found_as_a_shell_finds_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "mine"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert found("mine") == str(program)
    monkeypatch.chdir(tmp_path)
    assert found("./mine") == "./mine"


def test_without_a_daemon_nothing_runs(lazyctl: Lazyctl) -> None:
    result = lazyctl("reserve", "gpu0", "8GiB", "--", "echo", "it ran")
    assert result.status == 69
    assert "lazyd cannot be reached" in result.error


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1"])
def test_a_signal_is_passed_on_and_the_command_decides(granting: Daemon, start: Start, name: str) -> None:
    command = start("gpu0", "8GiB", "--", sys.executable, "-c", COUNT)
    assert said(command) == "ready"
    for _ in range(2):
        command.send_signal(getattr(signal, name))
        assert said(command) == f"got {name}"
    tell(command, "end")
    assert ended(command) == (0, "ended\n", "")
    eventually(lambda: not granting.connections)


def test_a_command_that_a_signal_ends_is_told_by_the_exit_status(granting: Daemon, start: Start) -> None:
    command = start(
        "gpu0", "8GiB", "--", sys.executable, "-c", "import time; print('ready', flush=True); time.sleep(60)"
    )
    assert said(command) == "ready"
    command.send_signal(signal.SIGTERM)
    assert ended(command) == (128 + signal.SIGTERM, "", "")
    eventually(lambda: not granting.connections)


def test_ctrl_c_at_the_terminal_reaches_the_command_once(granting: Daemon, start: Start) -> None:
    """The terminal sends it to the whole process group; lazyctl must not send it again."""
    terminal, other_end = pty.openpty()

    def own_terminal() -> None:
        os.setsid()
        os.close(os.open(os.ttyname(other_end), os.O_RDWR))  # the first one that it opens is its own

    command = start(
        *("gpu0", "8GiB", "--", sys.executable, "-c", COUNT), stdin=other_end, preexec_fn=own_terminal
    )  # fmt: skip
    os.close(other_end)
    assert said(command) == "ready"
    os.write(terminal, b"\x03")
    assert said(command) == "got SIGINT"
    os.write(terminal, b"end\n")
    assert ended(command) == (0, "ended\n", "")
    os.close(terminal)
    assert granting.methods() == ["Reserve"]


def test_a_daemon_that_is_restarted_gives_the_reservation_back(granting: Daemon, start: Start) -> None:
    command = start("gpu0", "8GiB", "--", sys.executable, "-c", COUNT)
    assert said(command) == "ready"
    granting.kill()
    granting.restart()
    eventually(lambda: len(granting.asked) == 2 and granting.connections)
    assert granting.last("Reserve").items() >= {"device": "gpu0", "bytes": 8 * GIB, "resume": "r1"}.items()
    command.send_signal(signal.SIGTERM)
    assert said(command) == "got SIGTERM", "the thread that claims it takes no signals"
    tell(command, "end")
    assert ended(command) == (0, "ended\n", "")


def test_a_reservation_that_is_lost_is_told_in_one_line_and_the_command_goes_on(granting: Daemon, start: Start) -> None:
    command = start("gpu0", "8GiB", "--", sys.executable, "-c", COUNT)
    assert said(command) == "ready"
    granting.kill()
    granting.answer("Reserve", errors.NoRoom(model="python", device="gpu0", needed_bytes=8 * GIB, reason="it is full"))
    granting.restart()
    assert command.stderr is not None
    line = command.stderr.readline()
    assert line.startswith(
        "lazyctl: 8.0 GiB of gpu0 are not reserved any more, the command goes on: no room for python"
    )
    tell(command, "end")
    assert ended(command) == (0, "ended\n", "")


def test_ctrl_c_gives_up_waiting(daemon: Daemon, start: Start) -> None:
    waiting: list[int] = []

    def wait(_: dict[str, Any]) -> Iterator[dict[str, Any]]:
        waiting.append(1)
        eventually(lambda: not waiting)
        yield {"reservation": "r1"}

    daemon.on["Reserve"] = wait
    command = start("gpu0", "8GiB", "--", "echo", "it ran")
    eventually(lambda: waiting)
    command.send_signal(signal.SIGINT)
    status, out, _ = ended(command)
    assert (status, out) == (130, "")
    waiting.clear()


def test_who_waits_at_a_terminal_is_told_what_for(daemon: Daemon, start: Start) -> None:
    waiting = [1]

    def wait(_: dict[str, Any]) -> Iterator[dict[str, Any]]:
        eventually(lambda: not waiting)
        yield {"reservation": "r1"}

    daemon.on["Reserve"] = wait
    daemon.on["Status"] = lambda _: samples.status(
        wishes=[samples.wish(pid=1), samples.wish(pid=command.pid, why=["Others use it."])]
    )
    terminal, other_end = pty.openpty()
    command = start("gpu0", "8GiB", "--", "true", stderr=other_end)
    os.close(other_end)
    said = ""
    while not said.endswith("use it.\r\n"):
        said += re.sub(r"\x1b\[[0-9;]*m", "", os.read(terminal, 1000).decode())
    assert said.splitlines() == ["waiting for 8.0 GiB of gpu0; Ctrl-C gives up", "  Others use it."]
    waiting.clear()
    assert command.wait(DEADLINE_S) == 0
    os.close(terminal)
