"""The installed daemon, real in every part, under the system's systemd and under a user's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from .conftest import STRANGER, USER
from .daemon import PYTHON, Daemon
from .machine import CHECKOUT, LONGEST_S, Machine, eventually
from .units import ACTIVE, HOST, INACTIVE, MANAGER, SOCKET, Units

OWNER = "lazyd-owner"
"""A user with a systemd of its own, and not a member of the group lazyd."""
PLACE = "/opt/lazyd-test"
CONFIGURATION = f"""
[models.thing]
runtime = "python"
factory = "things:thing"
python_path = ["{PLACE}"]
idle_timeout = "never"

[models.endless]
runtime = "python"
factory = "things:never"
python_path = ["{PLACE}"]

[models.fetched]
runtime = "python"
factory = "things:thing"
python_path = ["{PLACE}"]
path = "file://{PLACE}/things.py"
"""
MORE = CONFIGURATION.replace("models.endless", "models.another").replace("things:never", "things:thing")
WRONG = CONFIGURATION.replace("factory", "factroy", 1)

CLIENT = """
import json, select, sys, time
import lazyd

waits, errors, workers = [], [], set()
kept = lazyd.connect()
thing = kept.model("thing")
print("begun", flush=True)
while not select.select([sys.stdin], [], [], 0.005)[0]:
    for ask in (thing.pid, lambda: lazyd.connect().model("thing").pid()):
        begun = time.monotonic()
        try:
            workers.add(ask())
            waits.append(time.monotonic() - begun)
        except lazyd.LazydError as error:
            errors.append(f"{type(error).__name__}: {error}")
seen = {"longest_s": max(waits, default=0), "calls": len(waits), "errors": errors, "workers": sorted(workers)}
print(json.dumps(seen))
"""


@dataclass(frozen=True)
class Seen:
    """What a client has seen."""

    longest_s: float
    calls: int
    errors: list[str]
    workers: list[int]


class Client:
    """A program that calls `thing` over a connection that it keeps, and over new ones, until the `with` ends."""

    seen: Seen

    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon

    def __enter__(self) -> Client:
        self._process = self._daemon.start(PYTHON, "-I", "-c", CLIENT)
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "begun\n"
        return self

    def __exit__(self, *_: object) -> None:
        out, err = self._process.communicate("", timeout=LONGEST_S)
        assert self._process.returncode == 0, err
        self.seen = Seen(**json.loads(out))


@pytest.fixture(scope="module")
def place(machine: Machine) -> Machine:
    """The system with what the models under test need, and a user with a systemd."""
    things = (CHECKOUT / "tests" / "systemd" / "things.py").read_text()
    machine.write(f"{PLACE}/things.py", things)
    machine.run("useradd", "--create-home", OWNER)
    uid = machine.answer("id", "-u", OWNER)
    machine.run("systemctl", "start", f"user@{uid}.service")
    return machine


@pytest.fixture(scope="module", params=["system", "user"])
def installed(request: pytest.FixtureRequest, place: Machine) -> Iterator[Daemon]:
    """The daemon of the system, then that of a user; not started."""
    daemon = Daemon(Units(place), USER) if request.param == "system" else Daemon(Units(place, OWNER), OWNER)
    before = daemon.units.run("cat", daemon.units.configuration, check=False).stdout
    daemon.units.reset()
    daemon.units.write(daemon.units.configuration, CONFIGURATION)
    yield daemon
    daemon.units.reset()
    daemon.units.write(daemon.units.configuration, before)


@pytest.fixture
def daemon(installed: Daemon) -> Daemon:
    """The daemon, running, with `thing` loaded."""
    units = installed.units
    units.write(units.configuration, CONFIGURATION)
    units.systemctl("reset-failed")
    units.systemctl("start", MANAGER)
    installed.ask("pid")
    if installed.shown("another"):
        units.systemctl("reload", MANAGER)
    return installed


def test_the_first_connection_starts_all(installed: Daemon) -> None:
    units = installed.units
    units.reset()
    units.systemctl("start", SOCKET)
    assert units.state() == INACTIVE | {SOCKET: "active"}
    assert installed.ask("pid") in units.pids(HOST)
    assert units.state() == ACTIVE


def test_each_worker_has_a_cgroup_of_its_own(daemon: Daemon) -> None:
    host, worker = daemon.units.show(HOST, "ControlGroup"), str(daemon.ask("cgroup"))
    assert worker.startswith(f"{host}/")
    assert worker != f"{host}/host"


def test_what_is_fetched_comes_by_a_process_of_its_own_and_workers_may_read_it(daemon: Daemon) -> None:
    units, told = daemon.units, (CHECKOUT / "tests" / "systemd" / "things.py").read_text()
    daemon.ask("pid", model="fetched")
    folder = f"{units.state_directory}/fetched"
    (path,) = units.machine.answer("find", "-L", f"{folder}/models", "-name", "things.py").split()
    assert daemon.ask("read", path, model="fetched") == told
    assert units.machine.answer("stat", "-c", "%U", path) == ("lazyd-fetch" if daemon.user == USER else OWNER)
    eventually(lambda: units.show("lazyd-fetch.service", "ActiveState") == "inactive")
    assert units.show("lazyd-fetch.socket", "ActiveState") == "active"


def test_a_model_file_that_may_not_be_read_says_so_and_disturbs_nothing(daemon: Daemon) -> None:
    worker = daemon.ask("pid")
    secret = '[models.secret]\nruntime = "llama_cpp"\npath = "/etc/shadow"\n'
    daemon.units.write(daemon.units.configuration, CONFIGURATION + secret)
    daemon.units.systemctl("restart", MANAGER)
    load = daemon.start("lazyctl", "load", "secret")
    out, err = load.communicate(timeout=LONGEST_S)
    assert (load.returncode, out) == (1, "")
    assert "Permission denied" in err
    assert err.count("\n") == 1
    assert daemon.ask("pid") == worker
    daemon.units.write(daemon.units.configuration, CONFIGURATION)
    daemon.units.systemctl("restart", MANAGER)


def test_ten_restarts_in_a_row_under_load_disturb_no_worker_and_no_call(daemon: Daemon) -> None:
    worker = daemon.ask("pid")
    long_call = daemon.start("lazyctl", "call", "thing", "take", "[3]")
    with Client(daemon) as client:
        for _ in range(10):
            daemon.units.systemctl("restart", MANAGER)
    assert client.seen.errors == []
    assert client.seen.workers == [worker]
    out, err = long_call.communicate(timeout=LONGEST_S)
    assert (long_call.returncode, out.strip()) == (0, "3"), err


def test_ten_kills_in_a_row_under_load_disturb_no_worker_and_no_call(daemon: Daemon) -> None:
    worker = daemon.ask("pid")
    long_call = daemon.start("lazyctl", "call", "thing", "take", "[3]")
    with Client(daemon) as client:
        for _ in range(10):
            daemon.units.started_anew(MANAGER, after=daemon.units.kill())
    assert client.seen.errors == []
    assert client.seen.workers == [worker]
    out, err = long_call.communicate(timeout=LONGEST_S)
    assert (long_call.returncode, out.strip()) == (0, "3"), err


def test_a_hung_manager_is_replaced_and_the_worker_stays(daemon: Daemon) -> None:
    with daemon.units.drop_in(MANAGER, "WatchdogSec=1s"):
        daemon.units.systemctl("restart", MANAGER)
        worker = daemon.ask("pid")
        daemon.units.started_anew(MANAGER, after=daemon.units.kill(signal="STOP"))
        assert daemon.units.show(MANAGER, "NRestarts") != "0"
        assert daemon.ask("pid") == worker


def test_a_reload_takes_what_is_right_and_disturbs_nobody(daemon: Daemon) -> None:
    worker, manager = daemon.ask("pid"), daemon.units.pid()
    daemon.units.write(daemon.units.configuration, MORE)
    daemon.units.systemctl("reload", MANAGER)
    assert daemon.ask("pid", model="another") != worker
    assert (daemon.ask("pid"), daemon.units.pid()) == (worker, manager)


def test_a_reload_of_what_is_wrong_fails_and_changes_nothing(daemon: Daemon) -> None:
    worker, manager = daemon.ask("pid"), daemon.units.pid()
    daemon.units.write(daemon.units.configuration, WRONG)
    refused = daemon.units.systemctl("reload", MANAGER, check=False)
    assert refused.returncode != 0
    assert daemon.units.state() == ACTIVE
    assert (daemon.ask("pid"), daemon.units.pid()) == (worker, manager)


def test_a_wrong_configuration_at_a_start_leaves_the_last_accepted_one_in_force(daemon: Daemon) -> None:
    worker = daemon.ask("pid")
    daemon.units.write(daemon.units.configuration, WRONG)
    daemon.units.systemctl("restart", MANAGER)
    assert daemon.ask("pid") == worker
    assert "models.thing.factory" in daemon.units.show(MANAGER, "StatusText")


def test_without_any_accepted_configuration_the_start_fails_and_a_corrected_one_starts(daemon: Daemon) -> None:
    units = daemon.units
    units.reset()
    units.run("rm", "-f", f"{units.state_directory}/accepted.msgpack")
    units.write(units.configuration, WRONG)
    refused = units.systemctl("start", MANAGER, check=False)
    assert "failed" in refused.stderr
    eventually(lambda: units.state() == INACTIVE | {MANAGER: "failed"})
    assert units.show(MANAGER, "ExecMainStatus") == "78"
    units.write(units.configuration, CONFIGURATION)
    units.systemctl("start", MANAGER)
    assert daemon.ask("pid") in units.pids(HOST)


def test_a_host_that_dies_takes_its_workers_along_and_the_next_call_loads_again(daemon: Daemon) -> None:
    worker = daemon.ask("pid")
    daemon.units.started_anew(HOST, after=daemon.units.kill(HOST))
    again = daemon.ask("pid")
    assert again != worker
    assert again in daemon.units.pids(HOST)
    assert worker not in daemon.units.pids(HOST)


def test_an_installation_over_a_running_daemon_disturbs_nobody_and_the_host_takes_it_up(daemon: Daemon) -> None:
    worker, host = daemon.ask("pid"), daemon.units.pid(HOST)
    call = daemon.start("lazyctl", "call", "thing", "take", "[3]")
    eventually(lambda: daemon.in_flight("thing") == 1)
    daemon.machine.run("make", "-C", str(CHECKOUT), "install")
    daemon.units.systemctl("restart", MANAGER)
    daemon.units.systemctl("reload", HOST)
    eventually(lambda: "--state-fd" in daemon.machine.run("cat", f"/proc/{host}/cmdline").stdout)
    assert (daemon.ask("pid"), daemon.units.pid(HOST)) == (worker, host)
    out, err = call.communicate(timeout=LONGEST_S)
    assert (call.returncode, out.strip()) == (0, "3"), err
    assert daemon.units.state() == ACTIVE


def test_a_stop_lets_calls_end_answers_who_waits_and_leaves_nothing(daemon: Daemon) -> None:
    waiting = daemon.start("lazyctl", "load", "endless")
    eventually(lambda: daemon.shown("endless")["state"] == "loading")
    call = daemon.start("lazyctl", "call", "thing", "take", "[2]")
    eventually(lambda: daemon.in_flight("thing") == 1)
    client = daemon.start("timeout", "5", PYTHON, "-I", "-c", CLIENT)
    daemon.units.systemctl("stop", MANAGER)
    daemon.units.nothing_left()
    assert daemon.lazyctl("--socket", f"{daemon.units.runtime}/control.sock", "status").returncode == 69
    out, err = call.communicate(timeout=LONGEST_S)
    assert (call.returncode, out.strip()) == (0, "2"), err
    _, err = waiting.communicate(timeout=LONGEST_S)
    assert waiting.returncode == 69, err
    client.wait(timeout=LONGEST_S)  # it has tried to reconnect all the time
    assert daemon.units.state() == INACTIVE


def test_manager_and_workers_are_separate_users_and_strangers_stay_out(place: Machine) -> None:
    daemon = Daemon(Units(place), USER)
    daemon.units.write(daemon.units.configuration, CONFIGURATION)
    daemon.units.systemctl("start", MANAGER)
    assert daemon.ask("uid") == int(place.answer("id", "-u", "lazyd-worker"))
    assert place.answer("ps", "-o", "user:20=", "-p", str(daemon.units.pid())) == "lazyd"
    refused = place.run("lazyctl", "status", user=STRANGER, check=False)
    assert refused.returncode == 77
    daemon.units.systemctl("stop", MANAGER)
    daemon.units.nothing_left()
    assert place.answer("pgrep", "--uid", "lazyd,lazyd-worker") == ""
