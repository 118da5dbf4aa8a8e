"""Start, stop, restart and crash, told apart: the installed units and helper, with stand-ins as programs.

The stand-ins fail as a test wants, at once; `test_installed.py` has the real programs.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from .conftest import USER
from .machine import CHECKOUT, Machine, eventually
from .units import HOST, MANAGER, SOCKET, nothing_left, pid, reset, state

FAKES = "/usr/local/lib/lazyd-fakes"
SENDS_SIGUSR1 = "SIGUSR1\nSIGTERM\n"

CLIENT = """
import json, select, socket, sys, time
waits, errors, answers = [], [], set()

def ask():
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(10)
        line.connect("/run/lazyd/control.sock")
        try:
            line.sendall(b"?")
            return line.recv(100)
        except (BrokenPipeError, ConnectionResetError):
            return b""

while not select.select([sys.stdin], [], [], 0.01)[0]:
    begun = time.monotonic()
    try:
        while not (answer := ask()):
            pass  # cut off in the middle: asked again, as the library does
        answers.add(answer)
        waits.append(time.monotonic() - begun)
    except OSError as error:
        errors.append(str(error))
print(json.dumps({"longest_s": max(waits, default=0), "errors": errors, "managers": len(answers)}))
"""


@dataclass(frozen=True)
class Seen:
    """What a client has seen: its longest wait, its errors, and how many managers answered it."""

    longest_s: float
    errors: list[str]
    managers: int


class Client:
    """A program that connects, asks and connects again, until the `with` ends; then `seen` is known."""

    seen: Seen

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def __enter__(self) -> Client:
        self._process = self._machine.start("/usr/bin/python3", "-c", CLIENT, user=USER)
        return self

    def __exit__(self, *_: object) -> None:
        out, err = self._process.communicate("", timeout=20)
        assert self._process.returncode == 0, err
        self.seen = Seen(**json.loads(out))


@pytest.fixture(scope="module")
def standins(machine: Machine) -> Iterator[Machine]:
    """The system with stand-ins as the programs of the two services."""
    reset(machine)
    machine.run("mkdir", "-p", FAKES)
    for unit, fake in ((MANAGER, "manager_unit.py"), (HOST, "host_unit.py")):
        machine.write(f"{FAKES}/{fake}", (CHECKOUT / "tests" / "fakes" / fake).read_text())
        exec_start = f"[Service]\nExecStart=\nExecStart=/usr/bin/python3 -I {FAKES}/{fake}\n"
        machine.write(f"/etc/systemd/system/{unit}.d/standin.conf", exec_start)
    machine.run("systemctl", "daemon-reload")
    yield machine
    reset(machine)
    machine.run("rm", "-r", *(f"/etc/systemd/system/{unit}.d" for unit in (MANAGER, HOST)), FAKES)
    machine.run("systemctl", "daemon-reload")


@pytest.fixture
def running(standins: Machine) -> Machine:
    """Stand-ins that have just been started."""
    reset(standins)
    standins.run("rm", "-f", "/var/lib/lazyd/told")
    standins.run("systemctl", "start", MANAGER)
    eventually(lambda: len(standins.pids(HOST)) == 2)
    return standins


def ask(machine: Machine) -> subprocess.CompletedProcess[str]:
    """One connection; its answer is the manager's pid."""
    once = (
        "import socket; s = socket.socket(socket.AF_UNIX); s.settimeout(10); "
        "s.connect('/run/lazyd/control.sock'); s.sendall(b'?'); print(s.recv(100).decode() or exit('cut off'))"
    )
    return machine.run("/usr/bin/python3", "-c", once, user=USER, check=False)


def told(machine: Machine) -> str:
    """The signals that managers have had."""
    return machine.run("cat", "/var/lib/lazyd/told", check=False).stdout


def test_the_first_connection_starts_manager_and_host(standins: Machine) -> None:
    reset(standins)
    standins.run("systemctl", "start", SOCKET)
    assert state(standins)[MANAGER] == "inactive"
    answer = ask(standins)
    assert int(answer.stdout) == pid(standins)
    assert state(standins)[HOST] == "active"


def test_ten_restarts_in_a_row_cost_a_client_no_error_and_no_worker(running: Machine) -> None:
    workers, first = running.pids(HOST), pid(running)
    with Client(running) as client:
        for _ in range(10):
            running.run("systemctl", "restart", MANAGER)
    assert client.seen.errors == []
    assert running.pids(HOST) == workers
    assert pid(running) != first
    assert "SIGUSR1" not in told(running)


def test_ten_kills_in_a_row_cost_a_client_no_error_and_no_worker(running: Machine) -> None:
    workers = running.pids(HOST)
    with Client(running) as client:
        for _ in range(10):
            killed = pid(running)
            running.run("kill", "-KILL", str(killed))
            eventually(lambda killed=killed: pid(running) not in (0, killed) and state(running)[MANAGER] == "active")
    assert client.seen.errors == []
    assert running.pids(HOST) == workers


def test_a_stop_leaves_nothing_and_no_client_starts_anything_again(running: Machine) -> None:
    with Client(running):
        running.run("systemctl", "stop", MANAGER)
        nothing_left(running)
        assert told(running) == SENDS_SIGUSR1
        assert ask(running).returncode != 0
    assert set(state(running).values()) == {"inactive"}


def test_a_stop_at_once_followed_by_a_start_starts(running: Machine) -> None:
    for _ in range(5):
        running.run("systemctl", "stop", MANAGER)
        running.run("systemctl", "start", MANAGER)
        assert int(ask(running).stdout) == pid(running)
        assert state(running) == {MANAGER: "active", HOST: "active", SOCKET: "active"}


def test_a_stop_of_a_manager_that_fails_to_start_leaves_nothing(running: Machine) -> None:
    running.run("touch", "/etc/lazyd/fails")
    try:
        with Client(running):
            running.run("kill", "-KILL", str(pid(running)))
            eventually(lambda: int(running.show(MANAGER, "NRestarts")) >= 2)
            running.run("systemctl", "stop", MANAGER)
            nothing_left(running)
        assert set(state(running).values()) == {"inactive"}
    finally:
        running.run("rm", "/etc/lazyd/fails")


def test_a_manager_that_fails_to_start_is_tried_once_a_second(running: Machine) -> None:
    workers = running.pids(HOST)
    running.run("touch", "/etc/lazyd/fails")
    try:
        running.run("kill", "-KILL", str(pid(running)))
        eventually(lambda: int(running.show(MANAGER, "NRestarts")) >= 2)
        begun = time.monotonic()
        eventually(lambda: int(running.show(MANAGER, "NRestarts")) >= 4)
        assert time.monotonic() - begun > 1
    finally:
        running.run("rm", "/etc/lazyd/fails")
    eventually(lambda: state(running)[MANAGER] == "active")
    assert running.pids(HOST) == workers


def test_a_manager_without_a_valid_configuration_ends_all_and_is_not_started_again_by_a_client(
    running: Machine,
) -> None:
    running.run("touch", "/etc/lazyd/broken")
    try:
        with Client(running):
            running.run("systemctl", "restart", MANAGER, check=False)
            eventually(lambda: state(running) == {MANAGER: "failed", HOST: "inactive", SOCKET: "inactive"})
            assert running.show(MANAGER, "ExecMainStatus") == "78"
        assert state(running)[MANAGER] == "failed"
    finally:
        running.run("rm", "/etc/lazyd/broken")
    running.run("systemctl", "start", MANAGER)
    assert int(ask(running).stdout) == pid(running)


def test_a_host_whose_manager_is_gone_for_good_leaves_and_takes_the_socket_along(running: Machine) -> None:
    running.write("/etc/systemd/system/lazyd.service.d/once.conf", "[Service]\nRestart=no\nExecStopPost=\n")
    running.run("systemctl", "daemon-reload")
    try:
        running.run("kill", "-KILL", str(pid(running)))
        eventually(lambda: state(running) == {MANAGER: "failed", HOST: "inactive", SOCKET: "inactive"})
    finally:
        running.run("rm", "/etc/systemd/system/lazyd.service.d/once.conf")
        running.run("systemctl", "daemon-reload")


def test_a_hung_manager_is_killed_and_started_again_and_no_worker_ends(running: Machine) -> None:
    running.write("/etc/systemd/system/lazyd.service.d/watchdog.conf", "[Service]\nWatchdogSec=1s\n")
    running.run("systemctl", "daemon-reload")
    try:
        running.run("systemctl", "restart", MANAGER)
        workers, hung = running.pids(HOST), pid(running)
        running.run("kill", "-STOP", str(hung))
        eventually(lambda: pid(running) not in (0, hung) and state(running)[MANAGER] == "active")
        assert running.pids(HOST) == workers
    finally:
        running.run("rm", "/etc/systemd/system/lazyd.service.d/watchdog.conf")
        running.run("systemctl", "daemon-reload")


def test_a_host_that_dies_is_started_again(running: Machine) -> None:
    workers = running.pids(HOST)
    running.run("kill", "-KILL", str(pid(running, HOST)))
    eventually(lambda: pid(running, HOST) not in workers | {0} and state(running)[HOST] == "active")
    eventually(lambda: len(now := running.pids(HOST)) == 2 and not now & workers)
    assert state(running) == {MANAGER: "active", HOST: "active", SOCKET: "active"}


def test_a_restart_of_the_socket_keeps_the_workers(running: Machine) -> None:
    workers = running.pids(HOST)
    running.run("systemctl", "restart", SOCKET)
    eventually(lambda: state(running) == {MANAGER: "active", HOST: "active", SOCKET: "active"})
    assert running.pids(HOST) == workers
    assert int(ask(running).stdout) == pid(running)


def test_a_stop_of_the_socket_stops_all(running: Machine) -> None:
    running.run("systemctl", "stop", SOCKET)
    nothing_left(running)
