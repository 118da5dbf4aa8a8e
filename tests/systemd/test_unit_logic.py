"""Start, stop, restart and crash, told apart: the installed units and helper, with stand-ins as programs.

The stand-ins fail as a test wants, at once; `test_installed.py` has the real programs.
"""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pytest

from .conftest import USER
from .machine import CHECKOUT, LONGEST_S, Machine, eventually
from .units import ACTIVE, HOST, INACTIVE, MANAGER, SOCKET, Units

FAKES = ("manager_unit.py", "host_unit.py")
PLACE = "/opt/lazyd-fakes"
TOLD = "/var/lib/lazyd/told"

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
        out, err = self._process.communicate("", timeout=LONGEST_S)
        assert self._process.returncode == 0, err
        self.seen = Seen(**json.loads(out))


@pytest.fixture(scope="module")
def standins(machine: Machine) -> Iterator[Units]:
    """The system's units with stand-ins as the programs of the two services."""
    units = Units(machine)
    units.reset()
    for fake in FAKES:
        machine.write(f"{PLACE}/{fake}", (CHECKOUT / "tests" / "fakes" / fake).read_text())
    with (
        units.drop_in(MANAGER, f"ExecStart=\nExecStart=/usr/bin/python3 -I {PLACE}/manager_unit.py"),
        units.drop_in(HOST, f"ExecStart=\nExecStart=/usr/bin/python3 -I {PLACE}/host_unit.py"),
    ):
        yield units
        units.reset()


@pytest.fixture
def units(standins: Units) -> Units:
    """Stand-ins that have just been started."""
    standins.reset()
    standins.run("rm", "-f", TOLD)
    standins.systemctl("start", MANAGER)
    eventually(lambda: len(standins.pids(HOST)) == 2)
    return standins


@contextmanager
def failing(units: Units, how: str) -> Iterator[None]:
    """The manager fails at its start as long as this lasts."""
    units.run("touch", f"/etc/lazyd/{how}")
    try:
        yield
    finally:
        units.run("rm", f"/etc/lazyd/{how}")


def ask(units: Units) -> subprocess.CompletedProcess[str]:
    """One connection; its answer is the manager's pid."""
    once = (
        "import socket; s = socket.socket(socket.AF_UNIX); s.settimeout(10); "
        "s.connect('/run/lazyd/control.sock'); s.sendall(b'?'); print(s.recv(100).decode() or exit('cut off'))"
    )
    return units.machine.run("/usr/bin/python3", "-c", once, user=USER, check=False)


def told(units: Units) -> str:
    """The signals that managers have had."""
    return units.run("cat", TOLD, check=False).stdout


def test_the_first_connection_starts_manager_and_host(standins: Units) -> None:
    standins.reset()
    standins.systemctl("start", SOCKET)
    assert standins.state() == INACTIVE | {SOCKET: "active"}
    assert int(ask(standins).stdout) == standins.pid()
    assert standins.state() == ACTIVE


def test_ten_restarts_in_a_row_cost_a_client_no_error_and_no_worker(units: Units) -> None:
    workers = units.pids(HOST)
    with Client(units.machine) as client:
        for _ in range(10):
            units.systemctl("restart", MANAGER)
    assert client.seen.errors == []
    assert client.seen.managers > 1
    assert units.pids(HOST) == workers
    assert "SIGUSR1" not in told(units)


def test_ten_kills_in_a_row_cost_a_client_no_error_and_no_worker(units: Units) -> None:
    workers = units.pids(HOST)
    with Client(units.machine) as client:
        for _ in range(10):
            units.started_anew(MANAGER, after=units.kill())
    assert client.seen.errors == []
    assert units.pids(HOST) == workers


def test_a_stop_leaves_nothing_and_no_client_starts_anything_again(units: Units) -> None:
    with Client(units.machine):
        units.systemctl("stop", MANAGER)
        units.nothing_left()
        assert told(units) == "SIGUSR1\nSIGTERM\n"
        assert ask(units).returncode != 0
    assert units.state() == INACTIVE


def test_a_stop_at_once_followed_by_a_start_starts(units: Units) -> None:
    for _ in range(5):
        units.systemctl("stop", MANAGER)
        units.systemctl("start", MANAGER)
        assert int(ask(units).stdout) == units.pid()
        assert units.state() == ACTIVE


def test_a_stop_of_a_manager_that_fails_to_start_leaves_nothing(units: Units) -> None:
    with failing(units, "fails"), Client(units.machine):
        units.kill()
        eventually(lambda: int(units.show(MANAGER, "NRestarts")) >= 2)
        units.systemctl("stop", MANAGER)
        units.nothing_left()
    units.nothing_left()


def test_a_manager_that_fails_to_start_is_tried_once_a_second(units: Units) -> None:
    workers = units.pids(HOST)
    with failing(units, "fails"):
        units.kill()
        eventually(lambda: int(units.show(MANAGER, "NRestarts")) >= 2)
        begun = time.monotonic()
        eventually(lambda: int(units.show(MANAGER, "NRestarts")) >= 4)
        assert time.monotonic() - begun > 1
    eventually(lambda: units.state() == ACTIVE)
    assert units.pids(HOST) == workers


def test_a_manager_without_a_valid_configuration_ends_all_and_no_client_starts_it_again(units: Units) -> None:
    failed = INACTIVE | {MANAGER: "failed"}
    with failing(units, "broken"):
        with Client(units.machine):
            restarted = units.systemctl("restart", MANAGER, check=False)
            assert "Job for lazyd.service failed" in restarted.stderr
            eventually(lambda: units.state() == failed)
            assert units.show(MANAGER, "ExecMainStatus") == "78"
        assert units.state() == failed
    units.systemctl("start", MANAGER)
    assert int(ask(units).stdout) == units.pid()


def test_a_host_whose_manager_is_gone_for_good_leaves_and_takes_the_socket_along(units: Units) -> None:
    with units.drop_in(MANAGER, "Restart=no\nExecStopPost="):
        units.kill()
        eventually(lambda: units.state() == INACTIVE | {MANAGER: "failed"})


def test_a_hung_manager_is_killed_and_started_again_and_no_worker_ends(units: Units) -> None:
    with units.drop_in(MANAGER, "WatchdogSec=1s"):
        units.systemctl("restart", MANAGER)
        workers = units.pids(HOST)
        units.started_anew(MANAGER, after=units.kill(signal="STOP"))
        assert units.pids(HOST) == workers


def test_a_host_that_dies_is_started_again(units: Units) -> None:
    workers = units.pids(HOST)
    units.started_anew(HOST, after=units.kill(HOST))
    eventually(lambda: len(now := units.pids(HOST)) == 2 and not now & workers)
    assert units.state() == ACTIVE


def test_a_restart_of_the_socket_keeps_the_workers(units: Units) -> None:
    workers = units.pids(HOST)
    units.systemctl("restart", SOCKET)
    eventually(lambda: units.state() == ACTIVE)
    assert units.pids(HOST) == workers
    assert int(ask(units).stdout) == units.pid()


def test_a_stop_of_the_socket_stops_all(units: Units) -> None:
    units.systemctl("stop", SOCKET)
    units.nothing_left()
