"""Guesses among others: what they may cost, who keeps them from being made, and whom they must not disturb."""

from __future__ import annotations

from typing import Any

import pytest

from lazyd.core import effects, events, guesses
from lazyd.core.answers import Done, Reserved
from lazyd.core.habits import Habit, Window
from lazyd.core.records import Waste
from lazyd.core.spec import GIB, Prewarm, PrewarmWhen

from .day import Day
from .story import RESIDENT, spec
from .test_prewarming import visited

LONG = {"idle_timeout_s": 36_000.0}


def left_s(day: Day, name: str = "a") -> float:
    return guesses.left_s(day.core.world.models[name], day.now)


def test_time_in_which_a_guess_was_pinned_costs_nothing() -> None:
    day = Day(spec("a"))
    last = visited(day, "a", Window(500, 520))
    day.until(last + 505)
    day.pin("a")
    day.wait(3 * 86_400)
    day.pin("a", False)
    day.wait(10)
    assert not day.is_hot("a")
    assert left_s(day) > guesses.PRICE_S / 2


def test_a_guess_whose_load_took_hours_leaves_no_debt() -> None:
    day = Day(spec("a", load_timeout_s=None))
    last = visited(day, "a", Window(500, 520))
    day.load_s = 7200
    day.until(last + 8000)
    assert left_s(day) >= 0


def test_a_budget_that_was_kept_by_a_clock_that_was_ahead_is_one_all_the_same() -> None:
    day = Day(spec("a"))
    waste = Waste(left_s=600.0, at=day.now + 4 * 365 * 86_400)
    day.tell(events.Remembered(memories={"a": events.Memory(habit=Habit(), waste=waste)}))
    assert left_s(day) == pytest.approx(600)


class Failing(Day):
    """The load of `bad` always fails."""

    def tell(self, event: events.Event) -> list[effects.Effect]:
        if isinstance(event, events.ObjectReady) and event.model == "bad":
            event = events.ObjectFailed(worker=event.worker, model="bad", reason="ImportError")
        return super().tell(event)


def test_a_resident_that_cannot_be_loaded_keeps_nobody_from_being_expected() -> None:
    day = Failing(spec("a"), spec("bad", tier=RESIDENT))
    day.wait(4000)
    last = visited(day, "a", Window(500, 520))
    day.until(last + 510)
    assert day.is_hot("a")


def planning() -> Day:
    """A plan for the guess `a` is under way: `old` is asked whether it may leave. 4 GiB are free."""

    class Slow(Day):
        def tell(self, event: events.Event) -> list[effects.Effect]:
            return [] if isinstance(event, events.Drained) else super().tell(event)

    day = Slow(
        spec("a"), spec("old", **LONG), spec("other", **LONG), spec("b", ram_lock=True), sizes={"a": 8, "old": 5}
    )
    last = visited(day, "a", Window(500, 520))
    day.until(last + 50)
    visited(day, "other", Window(0, 40_000))
    day.until(last + 100)
    visited(day, "old", Window(0, 60))
    while not day.core.world.plans:
        assert day.now < last + 520
        day.wait(0.25)
    assert day.free_gib == 4
    return day


def ask(day: Day, kind: Any, **fields: Any) -> object:
    request = next(day.requests)
    day.tell(kind(request=request, **fields))
    return day.answers.get(request)


def test_a_reservation_that_does_not_wait_takes_what_a_guess_would_have() -> None:
    answer = ask(planning(), events.Reserve, device="ram", bytes=4 * GIB, holder=1000, wait=False)
    assert isinstance(answer, Reserved)


def test_files_are_locked_in_what_a_guess_would_have_had() -> None:
    answer = ask(planning(), events.LockFiles, model="b", files={"1:1": 4 * GIB})
    assert isinstance(answer, Done)


def test_a_member_that_is_expected_is_not_forgotten_among_many() -> None:
    day = Day(spec("s/*"), spec("busy"), sizes={"s/x": 6, "busy": 6})
    last = visited(day, "s/x", Window(500, 1000))
    day.until(last + 300)
    held = day.get("busy")
    day.wait(5)
    day.call(held)
    day.until(last + 510)
    for n in range(1200):
        request = next(day.requests)
        day.tell(events.Get(request=request, model=f"s/n{n}", holder=1))
        day.tell(events.Cancel(request=request))
    day.end_call(held)
    day.close(held)
    day.unload("busy")
    day.wait(20)
    visit = day.visit("s/x")
    day.wait(1)
    assert day.waits[visit] == 0


def test_what_was_found_out_for_a_guess_ends_with_it() -> None:
    day = Day(spec("a"), spec("busy"), sizes={"a": 6, "busy": 6})
    last = visited(day, "a", Window(500, 520))
    day.until(last + 450)
    day.visit("busy")
    day.until(last + 519)
    assert day.core.world.models["a"].prediction is not None
    day.until(last + 530)
    assert day.core.world.models["a"].prediction is None


def scheduled() -> tuple[Day, float]:
    """`a` is due in 1000 s; when that has come, the next time is told, as the shell does."""
    schedule = Prewarm(when=PrewarmWhen.SCHEDULE, schedule=("0 9 * * *",))
    day = Day(spec("a", prewarm=schedule, idle_timeout_s=36.0), spec("busy"), sizes={"a": 6, "busy": 6})
    due = day.now + 1000
    day.tell(events.Scheduled(model="a", at=due))
    day.after(1000, lambda: day.tell(events.Scheduled(model="a", at=due + 86_400)))
    return day, due


def test_a_model_is_kept_for_a_minute_after_it_was_due_though_the_next_time_is_known() -> None:
    day, due = scheduled()
    day.until(due + 59)
    assert day.is_hot("a")


def test_a_model_for_which_there_was_no_room_in_time_is_loaded_a_little_late() -> None:
    day, due = scheduled()
    day.until(due - 30)
    request = day.get("busy")
    day.wait(5)
    day.call(request)
    day.until(due + 3)
    assert not day.is_hot("a")
    day.end_call(request)
    day.close(request)
    day.unload("busy")
    day.wait(12)
    assert day.is_hot("a")
