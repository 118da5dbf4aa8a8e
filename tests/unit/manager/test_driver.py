"""The core is told events one at a time, and its effects are carried out in order."""

from __future__ import annotations

import asyncio
from time import monotonic

import pytest

from lazyd.core.answers import Done, NoSuchLease
from lazyd.core.effects import Answer, Effect, Note, Progress
from lazyd.core.events import Cancel, Event, HostLost, Load, Release, Tick
from lazyd.manager.control.requests import Refused, Requests
from lazyd.manager.driver import Driver

from .conftest import until


class ScriptedCore:
    """Answers each event with the effects that a test has laid out for it."""

    def __init__(self) -> None:
        self.script: dict[type[Event], list[Effect]] = {}
        self.told: list[Event] = []
        self.deadline: float | None = None
        self.broken = False

    def handle(self, event: Event, now: float) -> list[Effect]:
        assert abs(now - monotonic()) < 1
        if self.broken:
            raise ZeroDivisionError("made for a test")
        if isinstance(event, Tick):
            self.deadline = None
        self.told.append(event)
        return self.script.get(type(event), [])

    def next_deadline(self) -> float | None:
        return self.deadline


class Stage:
    def __init__(self) -> None:
        self.core = ScriptedCore()
        self.bugs = 0
        self.notes: list[str] = []
        self.driver = Driver(self.core, self.bug)
        self.requests = Requests(self.driver)
        self.driver.connect(
            {Answer: self.requests.answer, Progress: self.requests.progress, Note: lambda note: self.note(note.kind)}
        )

    def bug(self) -> None:
        self.bugs += 1

    def note(self, kind: str) -> None:
        if kind == "explode":
            raise OSError("made for a test")
        self.notes.append(kind)
        if kind == "again":
            self.driver.tell(HostLost())
            self.notes.append("told again")


@pytest.fixture
async def stage() -> Stage:
    return Stage()


async def test_effects_are_carried_out_in_order_before_tell_returns(stage: Stage) -> None:
    stage.core.script[Tick] = [Note(kind="one"), Note(kind="two")]
    stage.driver.tell(Tick())
    assert stage.notes == ["one", "two"]


async def test_an_event_that_comes_up_in_an_effect_waits_for_its_turn(stage: Stage) -> None:
    stage.core.script[Tick] = [Note(kind="again"), Note(kind="last")]
    stage.core.script[HostLost] = [Note(kind="lost")]
    stage.driver.tell(Tick())
    assert stage.notes == ["again", "told again", "last", "lost"]


async def test_a_timer_rings_when_the_core_wants_it(stage: Stage) -> None:
    stage.core.deadline = monotonic() + 0.05
    stage.driver.tell(HostLost())
    began = monotonic()
    await until(lambda: Tick() in stage.core.told)
    assert monotonic() - began >= 0.04


async def test_an_alarm_that_moved_on_does_not_disturb_the_core(stage: Stage) -> None:
    stage.core.deadline = monotonic() + 0.02
    stage.driver.tell(HostLost())
    stage.core.deadline = monotonic() + 0.1
    stage.driver.tell(HostLost())
    began = monotonic()
    await until(lambda: Tick() in stage.core.told)
    assert monotonic() - began >= 0.08


async def test_an_alarm_that_moved_forward_rings_earlier(stage: Stage) -> None:
    stage.core.deadline = monotonic() + 60
    stage.driver.tell(HostLost())
    stage.core.deadline = monotonic() + 0.02
    stage.driver.tell(HostLost())
    await until(lambda: Tick() in stage.core.told)


async def test_an_effect_that_fails_does_not_stop_those_after_it(stage: Stage) -> None:
    stage.core.script[Tick] = [Note(kind="explode"), Note(kind="after")]
    stage.driver.tell(Tick())
    assert stage.notes == ["after"]
    assert stage.bugs == 0


async def test_a_bug_in_the_core_ends_the_manager(stage: Stage) -> None:
    stage.core.broken = True
    stage.driver.tell(Tick())
    assert stage.bugs == 1


async def test_an_answer_goes_to_the_one_who_asked(stage: Stage) -> None:
    stage.core.script[Release] = [Answer(request=1, outcome=Done())]
    outcome = await stage.requests.ask(lambda n: Release(request=n, lease="x", holder=0))
    assert outcome == Done()


async def test_a_refusal_is_raised_to_the_one_who_asked(stage: Stage) -> None:
    stage.core.script[Release] = [Answer(request=1, outcome=NoSuchLease(lease="x"))]
    with pytest.raises(Refused) as refused:
        await stage.requests.ask(lambda n: Release(request=n, lease="x", holder=0))
    assert refused.value.refusal == NoSuchLease(lease="x")


async def test_who_stops_waiting_cancels_the_request(stage: Stage) -> None:
    task = asyncio.create_task(stage.requests.ask(lambda n: Load(request=n, model="m")))
    await until(lambda: stage.core.told)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert stage.core.told == [Load(request=1, model="m"), Cancel(request=1)]


async def test_progress_goes_to_the_one_who_waits_and_to_nobody_afterwards(stage: Stage) -> None:
    seen: list[str] = []
    number = stage.requests.open(lambda _: None, lambda progress: seen.append(progress.phase))
    news = Progress(request=number, state="loading", phase="reading", fraction=None)
    stage.core.script[Tick] = [news, Answer(request=number, outcome=Done()), news]
    stage.driver.tell(Tick())
    assert seen == ["reading"]
