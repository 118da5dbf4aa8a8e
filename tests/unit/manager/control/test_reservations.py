"""`Reserve`: answered when the memory is held, and held as long as the connection."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from lazyd.core.answers import NoRoom, Outcome, Reserved
from lazyd.core.effects import Answer, Effect
from lazyd.core.events import Cancel, Event, Reserve, Unreserve
from lazyd.core.records import Reservation
from lazyd.manager.control.requests import Requests
from lazyd.manager.control.reservations import LONGEST_COMMAND, Reservations, shown_command
from lazyd.manager.driver import Driver
from lazyd.varlink import parameters
from lazyd.varlink.connection import Connection
from lazyd.varlink.parameters import MOST_BYTES
from lazyd.varlink.service import Method, Service

from ..conftest import until

ROLES = frozenset({"admin"})


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    def send(self, **given: Any) -> None:
        message = {"method": "io.lazyd.Reserve", "parameters": {"device": "gpu0", "bytes": 100, **given}}
        self._writer.write(msgspec.json.encode(message) + b"\0")

    async def receive(self) -> Any:
        async with asyncio.timeout(20):
            return msgspec.json.decode((await self._reader.readuntil(b"\0"))[:-1])

    async def reserve(self, **given: Any) -> Any:
        self.send(**given)
        return await self.receive()

    def leave(self) -> None:
        self._writer.close()


class Seen(asyncio.Future[None]):
    """The driver has shown its GPUs; `waiting` is how many have asked to be told."""

    waiting = 0

    def add_done_callback(self, *args: Any, **options: Any) -> None:
        self.waiting += 1
        super().add_done_callback(*args, **options)


class Stage:
    """The manager's half of `Reserve`, and a core that a test answers for."""

    def __init__(self, directory: str) -> None:
        self.path = os.path.join(directory, "control.sock")
        self.told: list[Event] = []
        self.answers: list[Outcome | None] = []
        """What the core answers, one after the other; None: nothing yet."""
        self.devices = ["gpu0", "ram"]
        self.seen = Seen()
        self.reserved: dict[str, Reservation] = {}
        self.ending = False
        self.are_all = True
        self.connections: set[Connection] = set()
        self.driver = Driver(self, lambda: pytest.fail("the core has failed"))
        self.requests = Requests(self.driver)
        self.driver.connect({Answer: self.requests.answer})
        self.service = Service("1", lambda _: "admin", ROLES)
        reservations = Reservations(
            self.driver,
            self.requests,
            devices=lambda: self.devices,
            seen=self.seen,
            are_all=lambda: self.are_all,
            reserved=lambda: self.reserved,
            is_ending=lambda: self.ending,
        )
        self.service.add("io.lazyd.Reserve", Method(reservations.reserve, parameters.Reserve, roles=ROLES))

    def handle(self, event: Event, now: float) -> list[Effect]:  # noqa: ARG002  # the core's shape
        self.told.append(event)
        if isinstance(event, Reserve) and (outcome := self.answers.pop(0)) is not None:
            return [Answer(request=event.request, outcome=outcome)]
        return []

    def next_deadline(self) -> float | None:
        return None

    @property
    def asked(self) -> Reserve:
        """What the core was asked for last."""
        return next(event for event in reversed(self.told) if isinstance(event, Reserve))

    @property
    def unreserved(self) -> list[str]:
        return [event.reservation for event in self.told if isinstance(event, Unreserve)]

    @contextlib.asynccontextmanager
    async def client(self) -> AsyncIterator[Client]:
        reader, writer = await asyncio.open_unix_connection(self.path)
        yield Client(reader, writer)
        writer.close()


@pytest.fixture
async def starting(directory: str) -> AsyncIterator[Stage]:
    """One whose driver has yet to show its GPUs."""
    stage = Stage(directory)
    listening = await asyncio.get_running_loop().create_unix_server(
        lambda: Connection(stage.service, stage.connections), stage.path
    )
    yield stage
    listening.close()
    for connection in list(stage.connections):
        connection.close()


@pytest.fixture
async def stage(starting: Stage) -> Stage:
    starting.seen.set_result(None)
    return starting


async def test_a_reservation_is_asked_for_in_the_clients_name(stage: Stage) -> None:
    stage.answers = [Reserved(reservation="r1", uuid="GPU-1")]
    async with stage.client() as client:
        reply = await client.reserve(command="python  train.py\n--all")
        assert reply == {"parameters": {"reservation": "r1", "uuid": "GPU-1"}}
        asked = stage.asked
        assert (asked.device, asked.bytes, asked.holder, asked.pid) == ("gpu0", 100, os.getuid(), os.getpid())
        assert (asked.wait, asked.deadline, asked.resume, asked.command) == (True, None, None, "python train.py --all")
        assert not stage.unreserved


async def test_without_waiting_and_with_a_limit(stage: Stage) -> None:
    full = NoRoom(model="", device="gpu0", needed_bytes=100, free_bytes=1, reason="full")
    stage.answers = [full]
    async with stage.client() as client:
        before = asyncio.get_running_loop().time()
        reply = await client.reserve(wait=False, timeoutSec=5)
        assert reply["error"] == "io.lazyd.NoRoom"
        assert reply["parameters"]["neededBytes"] == 100
        assert not stage.asked.wait
        assert stage.asked.deadline == pytest.approx(before + 5, abs=2)


async def test_it_ends_with_its_connection(stage: Stage) -> None:
    stage.answers = [Reserved(reservation="r1"), Reserved(reservation="r2")]
    async with stage.client() as client, stage.client() as other:
        await client.reserve()
        await other.reserve()
        client.leave()
        await until(lambda: stage.unreserved == ["r1"])


async def test_one_connection_may_hold_several_and_go_on_being_used(stage: Stage) -> None:
    full = NoRoom(model="", device="ram", needed_bytes=1, free_bytes=0, reason="full")
    stage.answers = [Reserved(reservation="r1"), full, Reserved(reservation="r2")]
    async with stage.client() as client:
        for device in ("gpu0", "ram", "ram"):
            await client.reserve(device=device)
        assert not stage.unreserved
        client.leave()
        await until(lambda: stage.unreserved == ["r1", "r2"])


async def test_who_leaves_while_it_waits_gets_nothing(stage: Stage) -> None:
    stage.answers = [None]
    async with stage.client() as client:
        client.send()
        await until(lambda: stage.told)
        client.leave()
        await until(lambda: len(stage.told) == 2)
    assert stage.told[1] == Cancel(request=stage.asked.request)


async def test_a_device_that_is_not_there_is_named(stage: Stage) -> None:
    async with stage.client() as client:
        reply = await client.reserve(device="gpu7")
    assert reply == {"error": "io.lazyd.NoSuchDevice", "parameters": {"device": "gpu7"}}
    assert not stage.told


async def test_while_a_driver_does_not_answer_nobody_says_that_there_is_no_such_device(stage: Stage) -> None:
    stage.are_all = False
    stage.answers = [NoRoom(model="train.py", device="gpu7", needed_bytes=5, free_bytes=0, reason="no answer")]
    async with stage.client() as client:
        reply = await client.reserve(device="gpu7")
    assert reply["error"] == "io.lazyd.NoRoom"
    assert stage.asked.device == "gpu7"


async def test_a_gpu_that_its_driver_has_yet_to_show_is_waited_for(starting: Stage) -> None:
    stage = starting
    stage.devices = ["ram"]
    stage.answers = [Reserved(reservation="r1"), Reserved(reservation="r2")]
    async with stage.client() as client, stage.client() as other, stage.client() as wrong, stage.client() as left:
        assert (await other.reserve(device="ram"))["parameters"]["reservation"] == "r1"
        for each, device in ((client, "gpu0"), (wrong, "gpu7"), (left, "gpu0")):
            each.send(device=device)
        await until(lambda: stage.seen.waiting == 3)
        left.leave()
        await until(lambda: len(stage.connections) == 3)
        stage.devices = ["ram", "gpu0"]
        stage.seen.set_result(None)
        assert (await client.receive())["parameters"]["reservation"] == "r2"
        assert (await wrong.receive())["error"] == "io.lazyd.NoSuchDevice"
        assert stage.answers == []
        assert [event.device for event in stage.told if isinstance(event, Reserve)] == ["ram", "gpu0"]


@pytest.mark.parametrize(
    ("given", "parameter"),
    [
        ({"bytes": 0}, "bytes"),
        ({"bytes": -1}, "bytes"),
        ({"bytes": MOST_BYTES + 1}, "bytes"),
        ({"bytes": 2**70}, "bytes"),
        ({"bytes": 1.5}, "bytes"),
        ({"bytes": "8GiB"}, "bytes"),
        ({"bytes": None}, "bytes"),
        ({"device": ""}, "device"),
        ({"device": 0}, "device"),
        ({"timeoutSec": -1}, "timeoutSec"),
        ({"wait": "yes"}, "wait"),
        ({"gpu": 1}, "gpu"),
    ],
)
async def test_nonsense_is_refused_and_named(stage: Stage, given: dict[str, Any], parameter: str) -> None:
    async with stage.client() as client:
        reply = await client.reserve(**given)
    assert reply["error"] == "org.varlink.service.InvalidParameter"
    assert reply["parameters"]["parameter"] == parameter
    assert not stage.told


async def test_the_end_of_the_manager_is_not_the_end_of_a_reservation(stage: Stage) -> None:
    """The next manager finds it kept by the host, and its client claims it again."""
    stage.answers = [Reserved(reservation="r1")]
    async with stage.client() as client:
        await client.reserve()
        stage.ending = True
        client.leave()
        await until(lambda: not stage.connections)
    assert not stage.unreserved


async def test_what_was_held_before_can_be_claimed_although_its_device_was_not_seen_yet(stage: Stage) -> None:
    stage.devices = ["ram"]
    stage.reserved = {"r1": held_before("r1", "gpu0")}
    stage.answers = [Reserved(reservation="r1")]
    async with stage.client() as client:
        assert (await client.reserve(resume="r2"))["error"] == "io.lazyd.NoSuchDevice"
        assert (await client.reserve(resume="r1"))["parameters"]["reservation"] == "r1"
        assert stage.asked.resume == "r1"
        assert (await client.reserve(resume="r1", device="gpu7"))["error"] == "io.lazyd.NoSuchDevice"


def held_before(name: str, device: str) -> Reservation:
    return Reservation(id=name, device=device, bytes=1, holder=1000, pid=5, command=None, since=0.0)


async def test_a_reservation_that_was_claimed_by_another_connection_outlives_the_first(stage: Stage) -> None:
    stage.answers = [Reserved(reservation="r1"), Reserved(reservation="r1")]
    async with stage.client() as client, stage.client() as other:
        await client.reserve()
        await other.reserve(resume="r1")
        client.leave()
        other.leave()
        await until(lambda: stage.unreserved)
    assert stage.unreserved == ["r1"]


def test_a_command_is_shown_on_one_line_and_not_at_any_length() -> None:
    assert shown_command(None) is None
    assert shown_command(" \n") is None
    assert shown_command("a\n b\x1b[2Jc\x00") == "a b [2Jc"
    assert len(shown_command("x" * 1000) or "") == LONGEST_COMMAND
