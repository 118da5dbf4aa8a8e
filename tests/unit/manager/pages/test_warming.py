"""Orders to read files, without a host: what a manager makes of what it is told."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from lazyd.core.answers import Cancelled, LoadFailed, NoRoom
from lazyd.core.events import Event, FilesUnlocked, MemoryPressure
from lazyd.core.spec import GIB, MIB, ModelSpec
from lazyd.devices.source import HOST, Sample
from lazyd.manager.control.requests import Refused, Requests
from lazyd.manager.pages import warming
from lazyd.manager.pages.known import Known
from lazyd.manager.pages.orders import Order
from lazyd.manager.pages.warming import NothingToRead, Warming
from lazyd.manager.processes.messages import Pages
from lazyd.manager.tasks import Background

from ..waiting import until


class Link:
    """A host that is told things."""

    def __init__(self) -> None:
        self.told: list[dict[str, Any]] = []
        self.ended = asyncio.Event()

    def send(self, message: dict[str, Any]) -> None:
        self.told.append(message)


class Memory:
    free_bytes = 8 * GIB

    def sample(self) -> Sample:
        return Sample(name="ram", kind=HOST, total_bytes=10 * GIB, used_bytes=10 * GIB - self.free_bytes, begun=0.0)


class Machine:
    """A manager's part that reads, with all that is around it."""

    def __init__(self, path: Path | None) -> None:
        self.spec = ModelSpec(name="a", runtime="python", path=str(path) if path else None)
        self.link = Link()
        self.memory = Memory()
        self.events: list[Event] = []
        self.notes: list[tuple[str, str]] = []
        background = Background()
        requests: Requests = None  # type: ignore[assignment]  # nothing here is locked
        self.warming = Warming(
            requests,
            self.events.append,
            dict,
            lambda: self.link,  # type: ignore[arg-type,return-value]
            self.memory,
            Known(lambda _: self.spec, background),
            background,
            self.note,
        )

    def note(self, kind: str, **about: Any) -> None:
        self.notes.append((kind, about["reason"]))

    async def begun(self) -> Order:
        """An order that the host has been told of."""
        order = self.warming.begin("a", self.spec)
        await until(lambda: any(message["do"] == "warm" for message in self.link.told))
        return order

    def says(self, order: Order, stage: str, **more: Any) -> None:
        self.warming.hear(Pages(model="a", id=order.number, stage=stage, total=MIB, **more))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "weights"
    path.write_bytes(bytes(MIB))
    return path


def refused(order: Order) -> Any:
    error = order.over.exception()
    assert isinstance(error, Refused), error
    return error.refusal


async def test_whoever_wants_the_same_joins_the_order(file: Path) -> None:
    machine = Machine(file)
    order = await machine.begun()
    assert machine.warming.begin("a", machine.spec) is order
    machine.says(order, "warm", done=MIB)
    assert await order.over is None
    again = machine.warming.begin("a", machine.spec)
    assert again is not order
    assert again.number != order.number


async def test_it_stops_once_others_need_the_memory(file: Path) -> None:
    machine = Machine(file)
    order = await machine.begun()
    machine.says(order, "reading", done=MIB // 2)
    assert not order.over.done()
    machine.memory.free_bytes = GIB // 2
    machine.says(order, "reading", done=MIB // 2)
    refusal = refused(order)
    assert isinstance(refusal, NoRoom)
    assert "512 MiB of memory are available, of which 512 MiB are left to others" in refusal.reason
    assert machine.link.told[-1] == {"do": "let_go", "model": "a"}


async def test_it_does_not_begin_without_room_for_all_of_it(file: Path) -> None:
    machine = Machine(file)
    machine.memory.free_bytes = GIB // 2
    order = machine.warming.begin("a", machine.spec)
    await order.begun.wait()
    assert isinstance(refused(order), NoRoom)
    assert machine.link.told == []


async def test_where_programs_stall_nothing_is_read(file: Path) -> None:
    machine = Machine(file)
    order = await machine.begun()
    machine.warming.hear_event(MemoryPressure())
    assert refused(order).reason == "programs stall for want of memory"


async def test_a_disk_that_does_not_answer_is_given_up(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warming, "SILENCE_S", 0.05)
    machine = Machine(file)
    order = await machine.begun()
    machine.says(order, "reading", done=1)
    await asyncio.wait([order.over], timeout=20)
    refusal = refused(order)
    assert isinstance(refusal, LoadFailed)
    assert "do not answer" in refusal.reason
    assert machine.link.told[-1]["do"] == "let_go"


async def test_one_that_waits_for_its_turn_is_not_taken_for_silent(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warming, "SILENCE_S", 0.05)
    machine = Machine(file)
    order = await machine.begun()
    machine.says(order, "queued")
    await asyncio.wait([order.over], timeout=0.3)
    assert not order.over.done()


async def test_what_is_told_of_an_earlier_order_changes_nothing(file: Path) -> None:
    machine = Machine(file)
    first = await machine.begun()
    machine.warming.cancel("a")
    assert isinstance(refused(first), Cancelled)
    machine.link.told.clear()
    second = await machine.begun()
    machine.says(first, "gone")
    assert not second.over.done()
    assert not any(isinstance(event, FilesUnlocked) for event in machine.events)


async def test_a_model_without_files_has_nothing_to_read() -> None:
    machine = Machine(None)
    order = machine.warming.begin("a", machine.spec)
    await order.begun.wait()
    assert isinstance(order.over.exception(), NothingToRead)


async def test_what_fails_is_noted_with_its_reason(file: Path) -> None:
    machine = Machine(file)
    order = await machine.begun()
    machine.says(order, "failed", reason="/x: Input/output error")
    assert refused(order).reason == "/x: Input/output error"
    assert ("not warmed", "/x: Input/output error") in machine.notes
