"""Reservations through a real daemon: memory for programs that it does not run, on ``ram``."""

from __future__ import annotations

import contextlib
import grp
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import lazyd
from lazyd import errors

from .conftest import LAZYCTL, LIMIT_S, Client, Daemon, Refused
from .test_control_socket import as_user

MIB = 2**20


def another_user_may_call() -> bool:
    """Root can be anybody, and the group that may call is there."""
    with contextlib.suppress(KeyError):
        return os.geteuid() == 0 and bool(grp.getgrnam("lazyd"))
    return False


NEEDS_ANOTHER_USER = pytest.mark.skipif(not another_user_may_call(), reason="needs root, and a group lazyd")


@pytest.fixture
def client(daemon: Daemon) -> Client:
    """Of a daemon with a budget of 1 GiB, of which one user may reserve 60 %."""
    daemon.configure('[budget]\nram = "1GiB"\nmax_reserved = "60%"\n')
    client = daemon.start()
    daemon.until(lambda: client.call("Status")["daemon"]["state"] == "running")  # there is a host, which keeps them
    return client


@pytest.fixture
def reserve(daemon: Daemon) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start ``lazyctl reserve`` against the daemon of the test."""
    started: list[subprocess.Popen[str]] = []

    def reserve(*words: str) -> subprocess.Popen[str]:
        started.append(
            subprocess.Popen(
                [str(LAZYCTL), "reserve", *words],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env={**os.environ, "LAZYD_SOCKET": daemon.socket},
            )
        )
        return started[-1]

    yield reserve
    for one in started:
        if one.poll() is None:
            one.kill()
        one.communicate()


def held(daemon: Daemon) -> list[dict[str, Any]]:
    """The reservations that there are."""
    with daemon.client() as client:
        found: list[dict[str, Any]] = client.call("Status")["reservations"]
    return found


def ram(daemon: Daemon) -> dict[str, Any]:
    with daemon.client() as client:
        devices: dict[str, dict[str, Any]] = {device["name"]: device for device in client.call("Status")["devices"]}
    return devices["ram"]


def test_memory_is_reserved_as_long_as_the_connection_lasts(daemon: Daemon, client: Client) -> None:
    with daemon.client() as mine:
        reply = mine.call("Reserve", device="ram", bytes=100 * MIB, command="train.py")
        assert reply.get("uuid") is None
        shown = {"id": reply["reservation"], "device": "ram", "bytes": 100 * MIB, "pid": os.getpid()}
        assert held(daemon) == [{**shown, "command": "train.py"}]
        assert ram(daemon)["reservedBytes"] == ram(daemon)["bookedBytes"] == 100 * MIB
        second = mine.call("Reserve", device="ram", bytes=50 * MIB)
        assert {one["id"] for one in held(daemon)} == {reply["reservation"], second["reservation"]}
    daemon.until(lambda: not held(daemon))
    assert ram(daemon)["reservedBytes"] == 0
    assert client.call("Health")["live"]


def test_who_waits_is_served_when_there_is_room(daemon: Daemon, client: Client) -> None:
    with daemon.client() as first, daemon.client() as second:
        first.call("Reserve", device="ram", bytes=400 * MIB)
        with pytest.raises(Refused) as refused:
            client.call("Reserve", device="ram", bytes=400 * MIB, wait=False)
        assert refused.value.name == "io.lazyd.NoRoom"
        assert "max_reserved" in refused.value.parameters["reason"]
        second.call("Reserve", device="ram", bytes=100 * MIB)
        first.close()
        daemon.until(lambda: len(held(daemon)) == 1)
        client.call("Reserve", device="ram", bytes=400 * MIB)
        assert len(held(daemon)) == 2


@NEEDS_ANOTHER_USER
def test_a_wait_ends_with_its_time_and_says_what_for(daemon: Daemon, client: Client) -> None:
    """By another user: one alone is refused at once beyond what it may reserve."""
    client.call("Reserve", device="ram", bytes=600 * MIB, command="train.py")
    reply = as_user(daemon, "Reserve", {"device": "ram", "bytes": 600 * MIB, "timeoutSec": 0.3})
    assert reply["error"] == "io.lazyd.Timeout"
    assert "train.py" in reply["parameters"]["reason"]


@NEEDS_ANOTHER_USER
def test_a_reservation_is_not_given_to_another_user(daemon: Daemon, client: Client) -> None:
    mine = client.call("Reserve", device="ram", bytes=100 * MIB)["reservation"]
    reply = as_user(daemon, "Reserve", {"device": "ram", "bytes": 100 * MIB, "resume": mine})
    assert reply["parameters"]["reservation"] != mine
    daemon.until(lambda: [one["id"] for one in held(daemon)] == [mine])


def test_one_larger_than_the_device_is_refused_at_once(client: Client) -> None:
    with pytest.raises(Refused) as refused:
        client.call("Reserve", device="ram", bytes=2**50)
    assert refused.value.name == "io.lazyd.NoRoom"


@pytest.mark.parametrize(
    ("parameters", "error"),
    [
        ({"device": "gpu7", "bytes": 1}, "io.lazyd.NoSuchDevice"),
        ({"device": "ram", "bytes": 0}, "org.varlink.service.InvalidParameter"),
        ({"device": "ram", "bytes": -5}, "org.varlink.service.InvalidParameter"),
        ({"device": "ram"}, "org.varlink.service.InvalidParameter"),
        ({"device": "ram", "bytes": "1GiB"}, "org.varlink.service.InvalidParameter"),
    ],
)
def test_nonsense_is_refused_and_reserves_nothing(
    daemon: Daemon, client: Client, parameters: dict[str, Any], error: str
) -> None:
    with pytest.raises(Refused) as refused:
        client.call("Reserve", **parameters)
    assert refused.value.name == error
    assert held(daemon) == []


def test_a_client_that_is_killed_holds_nothing(daemon: Daemon, client: Client) -> None:
    script = (
        "import lazyd, sys, time\n"
        "with lazyd.connect() as c, c.reserve('ram', 100 << 20):\n"
        "    print('held', flush=True)\n"
        "    time.sleep(60)\n"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        env={**os.environ, "LAZYD_SOCKET": daemon.socket},
        text=True,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    assert [one["pid"] for one in held(daemon)] == [holder.pid]
    holder.kill()
    holder.wait()
    holder.stdout.close()
    daemon.until(lambda: not held(daemon))
    assert client.call("Health")["live"]


def connections(daemon: Daemon) -> int:
    """How many the daemon has, but for the one that asks."""
    with daemon.client() as client:
        text = client.call("Metrics")["text"]
    return int(float(text.partition("\nlazyd_clients ")[2].partition("\n")[0])) - 1


def restart(daemon: Daemon) -> None:
    """Kills the manager, and returns when there is another one and what one client holds was claimed."""
    daemon.kill()
    daemon.start().close()
    daemon.until(lambda: connections(daemon) == 1)


def test_the_library_holds_it_through_the_death_of_the_manager(daemon: Daemon, client: Client) -> None:
    client.close()
    with lazyd.Client(daemon.socket) as library, library.reserve("ram", 100 * MIB, command="mine") as reservation:
        before = reservation.id
        restart(daemon)
        (kept,) = held(daemon)
        assert (kept["id"], kept["bytes"], kept["command"]) == (before, 100 * MIB, "mine")
        assert ram(daemon)["reservedBytes"] == 100 * MIB
        assert (reservation.id, reservation.lost) == (before, None)
    daemon.until(lambda: not held(daemon))


def test_nobody_can_claim_what_its_client_still_holds(daemon: Daemon, client: Client) -> None:
    mine = client.call("Reserve", device="ram", bytes=100 * MIB)["reservation"]
    with daemon.client() as other:
        theirs = other.call("Reserve", device="ram", bytes=100 * MIB, resume=mine)["reservation"]
        assert theirs != mine
    daemon.until(lambda: [one["id"] for one in held(daemon)] == [mine])
    client.close()
    daemon.until(lambda: not held(daemon))


@contextlib.contextmanager
def following(daemon: Daemon) -> Iterator[Iterator[dict[str, Any]]]:
    """What happens from now on."""
    with daemon.client() as reader:
        reader.send("Subscribe", more=True)
        with daemon.client() as other:
            other.call("Health")  # by then that has been heard
        yield iter(reader.result, None)


def test_events_tell_of_reservations(daemon: Daemon, client: Client) -> None:
    with following(daemon) as happening:
        with daemon.client() as mine:
            mine.call("Reserve", device="ram", bytes=100 * MIB, command="train.py")
        told = next(event for event in happening if event["kind"] == "reserved")
        assert (told["device"], told["reason"]) == ("ram", '100 MiB of ram for "train.py"')
        assert next(event for event in happening if event["kind"] == "unreserved")["device"] == "ram"
    assert client.call("Health")["live"]


# The command.


def test_lazyctl_runs_a_program_inside_a_reservation(
    daemon: Daemon, client: Client, reserve: Callable[..., subprocess.Popen[str]]
) -> None:
    command = reserve("ram", "100MiB", "--", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES begun; read line; exit 7")
    assert command.stdout is not None
    assert command.stdout.readline() == " begun\n".lstrip()
    (one,) = held(daemon)
    assert (one["pid"], one["bytes"]) == (command.pid, 100 * MIB)
    assert one["command"].startswith("sh -c echo")
    out, err = command.communicate("\n", timeout=LIMIT_S)
    assert (command.returncode, out, err) == (7, "", "")
    daemon.until(lambda: not held(daemon))
    assert client.call("Health")["live"]


def test_lazyctl_claims_it_again_after_a_restart_of_the_manager(
    daemon: Daemon, client: Client, reserve: Callable[..., subprocess.Popen[str]]
) -> None:
    command = reserve("ram", "100MiB", "--", "sh", "-c", "echo begun; read line")
    assert command.stdout is not None
    assert command.stdout.readline() == "begun\n"
    (before,) = held(daemon)
    client.close()
    for _ in range(2):
        restart(daemon)
        assert held(daemon) == [before]
    _, err = command.communicate("\n", timeout=LIMIT_S)
    assert (command.returncode, err) == (0, "")
    daemon.until(lambda: not held(daemon))


def test_when_lazyctl_is_killed_the_memory_is_free_and_the_program_goes_on(
    daemon: Daemon, client: Client, reserve: Callable[..., subprocess.Popen[str]]
) -> None:
    command = reserve("ram", "100MiB", "--", "sh", "-c", "echo begun; read line; echo ended")
    assert command.stdout is not None
    assert command.stdout.readline() == "begun\n"
    command.send_signal(signal.SIGKILL)
    assert command.wait(LIMIT_S) == -signal.SIGKILL
    daemon.until(lambda: not held(daemon))
    assert command.stdin is not None
    command.stdin.write("\n")
    command.stdin.flush()
    assert command.stdout.readline() == "ended\n"
    assert client.call("Health")["live"]


def test_without_room_lazyctl_says_who_holds_it_and_runs_nothing(
    client: Client, reserve: Callable[..., subprocess.Popen[str]]
) -> None:
    client.call("Reserve", device="ram", bytes=500 * MIB)
    command = reserve("ram", "500MiB", "--no-wait", "--", "echo", "it ran")
    out, err = command.communicate(timeout=LIMIT_S)
    assert (command.returncode, out) == (75, "")
    assert err.startswith('lazyctl: no room for "echo it ran" on ram: it needs 500 MiB')
    assert err.count("\n") == 1


def test_status_lists_it(daemon: Daemon, client: Client) -> None:
    client.call("Reserve", device="ram", bytes=100 * MIB, command="train.py --epochs 3")
    environment = {**os.environ, "LAZYD_SOCKET": daemon.socket, "COLUMNS": "80"}
    out = subprocess.run([LAZYCTL, "status"], env=environment, capture_output=True, text=True, check=True).stdout
    assert "RESERVED" in out.splitlines()[2]
    assert "train.py 100 MiB" in out
    assert f"100 MiB  ram  {os.getpid()}  train.py --epochs 3" in out
    raw = subprocess.run([LAZYCTL, "--json", "status"], env=environment, capture_output=True, text=True, check=True)
    assert json.loads(raw.stdout)["reservations"][0]["bytes"] == 100 * MIB


# What is configured and not there.


def test_a_gpu_that_is_not_there_is_said_and_leaves_everything_else_alone(daemon: Daemon) -> None:
    daemon.configure(
        '@echo\n[budget]\ngpu7 = "20GiB"\n[models.far]\nruntime = "python"\nfactory = "a:b"\ndevice = "gpu7"\n'
    )
    client = daemon.start()
    warnings = daemon.until(lambda: client.call("Status")["daemon"].get("warnings"))
    assert any("budget.gpu7: there is no gpu7 here" in line for line in warnings)
    assert any("models.far.device: there is no gpu7 here, so it cannot be loaded" in line for line in warnings)
    daemon.until(lambda: "models.far.device: there is no gpu7 here" in daemon.log_text())
    reloaded = client.call("Reload")
    assert reloaded["warnings"] == warnings
    with pytest.raises(Refused) as refused:
        client.call("Load", model="far")
    assert refused.value.name == "io.lazyd.NoRoom"
    assert isinstance(errors.from_varlink(refused.value.name, refused.value.parameters), lazyd.NoRoom)
    daemon.configure("@echo")
    assert "warnings" not in client.call("Reload")
    assert "warnings" not in client.call("Status")["daemon"]


def test_status_says_why_only_if_it_is_asked(client: Client, daemon: Daemon) -> None:
    daemon.configure("@echo")
    client.call("Reload")
    (plain,) = client.call("Status", model="echo")["models"]
    assert "why" not in plain
    (told,) = client.call("Status", model="echo", why=True)["models"]
    assert told["why"] == ["It is cold: nobody has asked for it yet."]
    with pytest.raises(Refused, match="InvalidParameter"):
        client.call("Status", why=True)
