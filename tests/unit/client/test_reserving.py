"""Reservations, through both clients: held by a connection, claimed again after a restart."""

from __future__ import annotations

import os
import threading
from typing import Any

import pytest

import lazyd
from lazyd import errors
from lazyd.client import reconnect
from lazyd.client.reserving import own_name

from .fakes import FakeDaemon, Hangup, eventually
from .test_requests import raising, restart_soon

GIB = 2**30


@pytest.fixture
def granting(daemon: FakeDaemon) -> FakeDaemon:
    """Grants every reservation; who claims one gets it back."""

    def grant(parameters: dict[str, Any]) -> dict[str, Any]:
        first = f"r{daemon.methods().count('Reserve')}"
        return {"reservation": parameters.get("resume", first), "uuid": "GPU-1"}

    daemon.on["Reserve"] = grant
    return daemon


def claims(daemon: FakeDaemon) -> list[Any]:
    """What was claimed, one after the other; None: asked for anew."""
    return [parameters.get("resume") for method, parameters in daemon.asked if method == "Reserve"]


def connections(client: Any, daemon: FakeDaemon) -> int:
    """How many there are, now that the client's first one is accepted for certain."""
    daemon.on["Health"] = lambda _: {}
    client.health()
    return len(daemon.connections)


def test_nothing_is_asked_before_the_block(client: Any, granting: FakeDaemon) -> None:
    reservation = client.reserve("gpu0", 8 * GIB)
    assert (reservation.id, reservation.uuid, reservation.lost) == ("", None, None)
    assert granting.asked == []


def test_the_block_holds_a_connection_of_its_own(client: Any, granting: FakeDaemon) -> None:
    before = connections(client, granting)
    with client.reserve("gpu0", 8 * GIB, command="train") as reservation:
        assert (reservation.id, reservation.uuid) == ("r1", "GPU-1")
        assert granting.asked[-1] == ("Reserve", {"device": "gpu0", "bytes": 8 * GIB, "command": "train"})
        assert len(granting.connections) == before + 1
    eventually(lambda: len(granting.connections) == before)
    assert reservation.lost is None


def test_several_are_held_at_once(client: Any, granting: FakeDaemon) -> None:
    with client.reserve("gpu0", 1) as one, client.reserve("ram", 2) as two:
        assert (one.id, two.id) == ("r1", "r2")
        assert granting.methods() == ["Reserve", "Reserve"]


def test_limits_are_those_of_the_interface(client: Any, granting: FakeDaemon) -> None:
    with client.reserve("ram", 5, wait=False, timeout=20):
        _, asked = granting.asked[-1]
        assert asked["wait"] is False
        assert 0 < asked["timeoutSec"] <= 20


def test_a_refusal_leaves_nothing_behind(client: Any, daemon: FakeDaemon) -> None:
    before = connections(client, daemon)
    daemon.on["Reserve"] = raising(errors.NoRoom(device="gpu0", needed_bytes=8 * GIB, reason="all of it is in use"))
    with pytest.raises(lazyd.NoRoom), client.reserve("gpu0", 8 * GIB):
        raise AssertionError("it was not granted")
    eventually(lambda: len(daemon.connections) == before)


def test_it_is_claimed_again_after_a_restart(client: Any, granting: FakeDaemon) -> None:
    with client.reserve("gpu0", 8 * GIB, wait=False) as reservation:
        claimed: list[str | None] = [None]
        for _ in range(2):
            granting.kill()
            restart_soon(granting).join()
            claimed.append("r1")
            eventually(lambda: claims(granting) == claimed and granting.connections)
        assert granting.asked[-1][1].items() >= {"device": "gpu0", "bytes": 8 * GIB, "wait": False}.items()
        assert (reservation.id, reservation.lost) == ("r1", None)
    eventually(lambda: not granting.connections)


def test_a_wait_that_a_restart_interrupts_is_begun_anew(client: Any, daemon: FakeDaemon) -> None:
    def die_first(_: dict[str, Any]) -> dict[str, Any]:
        if claims(daemon) == [None]:
            daemon.kill()
            restart_soon(daemon, 0.05)
            raise Hangup
        return {"reservation": "r1"}

    daemon.on["Reserve"] = die_first
    with client.reserve("ram", 1) as reservation:
        assert (reservation.id, reservation.uuid) == ("r1", None)
    assert claims(daemon) == [None, None]


def test_one_that_is_not_given_back_is_lost_and_the_program_goes_on(client: Any, granting: FakeDaemon) -> None:
    told: list[errors.LazydError] = []
    lost = threading.Event()

    def on_lost(error: errors.LazydError) -> None:
        told.append(error)
        lost.set()

    with client.reserve("gpu0", 8 * GIB, on_lost=on_lost) as reservation:
        granting.kill()
        granting.on["Reserve"] = raising(errors.NoRoom(device="gpu0", reason="it was given to another"))
        granting.restart()
        assert lost.wait(10)
        assert reservation.lost is told[0]
        assert isinstance(reservation.lost, lazyd.NoRoom)
    eventually(lambda: not granting.connections)


def test_patience_with_a_daemon_that_does_not_come_back_ends(
    client: Any, granting: FakeDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reconnect, "PATIENCE_S", 0.1)
    with client.reserve("gpu0", 1) as reservation:
        granting.kill()
        eventually(lambda: reservation.lost)
        assert isinstance(reservation.lost, lazyd.Unavailable)


def test_a_stop_is_not_waited_out(client: Any, granting: FakeDaemon) -> None:
    with client.reserve("gpu0", 1) as reservation:
        granting.kill()
        granting.on["Reserve"] = raising(errors.ShuttingDown())
        granting.restart()
        eventually(lambda: reservation.lost)
        assert isinstance(reservation.lost, lazyd.Unavailable)
        assert claims(granting) == [None, "r1"]


def test_the_end_of_the_block_ends_claiming_too(client: Any, granting: FakeDaemon) -> None:
    with client.reserve("gpu0", 1) as reservation:
        granting.kill()
    granting.restart()
    eventually(lambda: not [thread for thread in threading.enumerate() if thread.name == "lazyd reservation"])
    assert reservation.lost is None
    assert claims(granting) == [None]


def test_closing_the_client_ends_its_reservations(client: Any, granting: FakeDaemon) -> None:
    client.reserve("gpu0", 1).__enter__()
    client.close()
    eventually(lambda: not granting.connections)


def test_a_reservation_that_came_without_its_name_is_an_error(client: Any, daemon: FakeDaemon) -> None:
    daemon.on["Reserve"] = lambda _: {}
    with pytest.raises(errors.ProtocolError, match="without its name"), client.reserve("gpu0", 1):
        raise AssertionError("it was not granted")


def test_a_forked_child_leaves_the_parents_reservation_alone(granting: FakeDaemon) -> None:
    with lazyd.connect(str(granting.path)) as client, client.reserve("gpu0", 1) as reservation:
        before = connections(client, granting)
        child = os.fork()
        if child == 0:
            reservation.close()
            client.close()
            os._exit(0)
        assert os.waitpid(child, 0) == (child, 0)
        assert len(granting.connections) == before
        assert client.reserve("ram", 1).__enter__().id == "r2"
        assert claims(granting) == [None, None]


def test_a_program_is_shown_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", ["/opt/x/train.py", "--token", "secret"])
    assert own_name() == "train.py"
    monkeypatch.setattr("sys.argv", ["-c"])
    assert own_name() is None
