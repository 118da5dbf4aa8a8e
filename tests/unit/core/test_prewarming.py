"""Models that are expected are loaded before they are asked for, and nobody waits for that."""

from __future__ import annotations

import random
from typing import Any

import pytest

from lazyd.core import effects, events
from lazyd.core.habits import Habit, Window
from lazyd.core.lifecycle import State
from lazyd.core.spec import Prewarm, PrewarmWhen, Tier

from .day import Day
from .story import spec

BY_SCHEDULE = Prewarm(when=PrewarmWhen.SCHEDULE, schedule=("0 9 * * *",))
LEARNED = Prewarm()


class Fixed(Habit):
    """A habit that says the same after every arrival."""

    says: tuple[Window, ...] = ()

    def may_leave_within(self, age_s: float) -> bool:  # noqa: ARG002
        return True

    def windows(self, price_s: float, load_s: float) -> tuple[Window, ...]:  # noqa: ARG002
        return self.says


def visited(day: Day, name: str, *windows: Window) -> float:
    """A first visit, after which it is expected as `windows` say; when that was."""
    day.visit(name)
    day.wait(day.load_s + 1)
    model = day.core.world.models[name]
    assert model.habit is not None
    assert model.habit.last is not None
    model.habit = Fixed(last=model.habit.last, visits=[500.0, 500.0], says=windows)
    model.spans_at = None
    return model.habit.last or 0.0


def every_five_minutes(day: Day, name: str, times: int, jitter_s: float = 2.0) -> list[bool]:
    """Visits by a cron job; for each whether the model was hot."""
    chance = random.Random(5)
    begin, hot = day.now, []
    for beat in range(times):
        day.until(begin + 300 * beat + chance.uniform(0, jitter_s))
        hot.append(day.is_hot(name))
        day.visit(name)
    day.wait(30)
    return hot


def test_who_comes_every_five_minutes_is_served_hot_from_the_third_time_on_and_freed_in_between() -> None:
    day = Day(spec("alpha"))
    assert all(every_five_minutes(day, "alpha", 12)[2:])
    last = day.now
    day.until(last + 120)
    assert day.state("alpha") is State.COLD
    assert day.core.world.models["alpha"].loads > 5


def cold_starts(seed: int, gap_s: float, **fields: Any) -> int:
    """Of somebody who comes at random."""
    day, chance = Day(spec("a", **fields)), random.Random(seed)
    cold = 0
    for _ in range(120):
        cold += not day.is_hot("a")
        day.visit("a")
        day.wait(day.load_s + chance.expovariate(1 / gap_s))
    return cold


@pytest.mark.parametrize("gap_s", [300.0, 900.0, 2700.0])
def test_who_comes_at_random_meets_hardly_more_cold_starts_than_without_learning(gap_s: float) -> None:
    learned = cold_starts(1, gap_s)
    assert 1 < learned <= 1.05 * cold_starts(1, gap_s, prewarm=Prewarm(when=PrewarmWhen.OFF))


def test_the_default_idle_time_of_who_comes_at_random_begins_after_the_last_call() -> None:
    day = Day(spec("a"))
    for gap_s in (700.0, 3000.0, 1800.0, 4500.0, 700.0):
        day.visit("a")
        day.wait(gap_s)
    request = day.get("a")
    day.wait(day.load_s + 1)
    day.call(request)
    day.wait(2000)
    day.end_call(request)
    day.close(request)
    day.wait(590)
    assert day.is_hot("a")
    day.wait(20)
    assert day.state("a") is State.COLD


def test_a_guess_does_not_take_the_room_of_what_its_default_idle_time_keeps() -> None:
    day = Day(spec("a"), spec("b"), sizes={"a": 6, "b": 6})
    for gap_s in (700.0, 3000.0, 1800.0, 4500.0):
        day.visit("b")
        day.wait(gap_s)
    last = visited(day, "a", Window(500, 520))
    day.until(last + 450)
    day.visit("b")
    day.until(last + 515)
    assert day.is_hot("b")
    assert not day.is_hot("a")


def test_an_idle_time_that_was_written_down_is_kept() -> None:
    day = Day(spec("alpha", idle_timeout_s=60.0, idle_written=True))
    every_five_minutes(day, "alpha", 6)
    day.wait(25)
    assert day.is_hot("alpha")
    day.wait(15)
    assert not day.is_hot("alpha")


def test_it_is_loaded_so_early_that_it_is_ready_when_its_window_begins() -> None:
    day = Day(spec("a"), load_s=40.0)
    last = visited(day, "a", Window(500, 520))
    day.until(last + 440)
    assert day.state("a") is State.COLD
    day.until(last + 500)
    assert day.is_hot("a")
    assert [note.model for note in day.notes("prewarm")] == ["a"]


def test_a_wrong_guess_leaves_at_the_end_of_its_window_and_is_not_counted_as_use() -> None:
    day = Day(spec("a"))
    last = visited(day, "a", Window(500, 520))
    rate = day.core.world.models["a"].heat.count
    day.until(last + 519)
    assert day.is_hot("a")
    day.until(last + 522)
    assert day.state("a") is State.COLD
    assert day.core.world.models["a"].heat.count == rate
    assert [note.data["wrong_guesses"] for note in day.notes("not used")] == [1]


def test_wrong_guesses_damp_themselves_and_are_tried_again_the_next_day() -> None:
    windows = [Window(1000.0 * n, 1000.0 * n + 250) for n in range(1, 200)]
    day = Day(spec("a"))
    last = visited(day, "a", *windows)
    day.until(last + 20_000)
    guesses = len(day.notes("prewarm"))
    assert 1 <= guesses <= 3
    day.until(last + 110_000)
    assert guesses < len(day.notes("prewarm")) <= 2 * guesses + 2


def test_a_guess_that_comes_true_may_be_made_again() -> None:
    day = Day(spec("a"))
    for _ in range(10):
        last = visited(day, "a", Window(1000, 1250))
        day.until(last + 1100)
        assert day.is_hot("a")
    assert len(day.notes("prewarm")) == 10


def test_a_guess_takes_only_room_that_is_free() -> None:
    day = Day(spec("a"), spec("busy"), sizes={"a": 6, "busy": 6})
    last = visited(day, "a", Window(500, 520))
    day.until(last + 450)
    day.visit("busy")  # used a moment ago: its own time is not over
    day.until(last + 519)
    assert day.state("a") is State.COLD
    assert day.is_hot("busy")
    assert not day.core.world.plans


def test_a_guess_takes_the_room_of_what_is_past_its_own_time() -> None:
    day = Day(spec("a"), spec("old", idle_timeout_s=3600.0, idle_written=True), sizes={"a": 6, "old": 6})
    last = visited(day, "a", Window(500, 520))
    day.until(last + 100)
    visited(day, "old", Window(0, 60))
    day.until(last + 505)
    assert day.is_hot("a")
    assert not day.is_hot("old")


def test_a_guess_yields_to_whoever_waits_while_it_loads_and_when_it_is_ready() -> None:
    for moment in (498.0, 505.0):
        day = Day(spec("a"), spec("b"), sizes={"a": 6, "b": 6}, load_s=10.0)
        last = visited(day, "a", Window(500, 600))
        day.until(last + moment - 7)
        assert day.state("a") in (State.LOADING, State.READY)
        request = day.visit("b")
        day.wait(15)
        assert day.waits[request] < 11
        assert not day.is_hot("a")


def test_no_guess_is_made_while_somebody_waits_for_room() -> None:
    day = Day(spec("a"), spec("b"), spec("c"), sizes={"a": 3, "b": 9, "c": 5})
    last = visited(day, "a", Window(500, 600))
    day.until(last + 400)
    held = day.get("c", hold_s=300.0)
    day.wait(10)
    day.granted(held)
    day.get("b")
    day.until(last + 550)
    assert day.state("a") is State.COLD


def test_what_was_unloaded_by_name_is_not_brought_back_by_a_guess() -> None:
    day = Day(spec("a"))
    last = visited(day, "a", Window(0, 100), Window(500, 520))
    day.unload("a")
    day.until(last + 510)
    assert day.state("a") is State.COLD


def test_a_guess_for_which_there_was_no_room_is_given_up_when_its_model_is_unloaded_by_name() -> None:
    day = Day(spec("a"), spec("b"), sizes={"a": 6, "b": 6})
    last = visited(day, "a", Window(500, 590))
    day.until(last + 450)
    held = day.get("b", hold_s=60.0)
    day.until(last + 500)
    day.granted(held)
    assert day.state("a") is State.COLD
    day.unload("a")
    day.unload("b", force=True)
    day.until(last + 580)
    assert (day.state("a"), day.state("b")) == (State.COLD, State.COLD)


def test_what_was_cold_already_when_it_was_unloaded_by_name_is_not_brought_back_until_somebody_asks() -> None:
    day = Day(spec("a"))
    last = visited(day, "a", Window(500, 520))
    day.until(last + 300)
    assert day.state("a") is State.COLD
    day.unload("a")
    day.until(last + 510)
    assert day.state("a") is State.COLD
    last = visited(day, "a", Window(500, 520))
    day.until(last + 510)
    assert day.is_hot("a")


@pytest.mark.parametrize("fields", [{"prewarm": Prewarm(when=PrewarmWhen.OFF)}, {"tier": Tier.TRANSIENT}])
def test_no_guess_is_made_of_what_is_not_to_be_prewarmed(fields: dict[str, object]) -> None:
    day = Day(spec("a", **fields))
    last = visited(day, "a", Window(500, 520))
    day.until(last + 510 + 600)
    assert not day.notes("prewarm")


def test_by_its_schedule_it_is_there_in_time_and_the_default_idle_time_holds_after_it() -> None:
    day = Day(spec("a", prewarm=BY_SCHEDULE), load_s=8.0)
    due = day.now + 1000
    day.tell(events.Scheduled(model="a", at=due))
    day.until(due)
    assert day.is_hot("a")
    day.visit("a")
    day.wait(500)
    assert day.is_hot("a")
    day.wait(110)
    assert day.state("a") is State.COLD


def test_a_schedule_is_no_guess_and_is_followed_however_often_nobody_came() -> None:
    day = Day(spec("a", prewarm=BY_SCHEDULE))
    for _ in range(20):
        due = day.now + 1000
        day.tell(events.Scheduled(model="a", at=due))
        day.until(due + 30)
        assert day.is_hot("a")
        day.until(due + 70)
        assert day.state("a") is State.COLD


def test_a_load_that_fails_is_not_tried_again_by_guesses() -> None:
    day = Day(spec("a"))
    last = visited(day, "a", Window(500, 520), Window(1000, 1020))
    day.load_s = 1e9
    day.until(last + 498)
    day.tell(events.ObjectFailed(worker=day.worker("a"), model="a", reason="broken"))
    day.until(last + 1500)
    assert len(day.notes("prewarm")) == 1


def test_a_parked_model_comes_back_for_a_guess() -> None:
    day = Day(spec("a"), gpus_gib=(10,))
    last = visited(day, "a", Window(500, 520))
    instance = day.core.world.models["a"].instance
    assert instance is not None
    instance.parks = True
    day.until(last + 20)
    assert day.state("a") is State.PARKING
    day.tell(events.ObjectParked(worker=day.worker("a"), model="a"))
    day.until(last + 498)
    assert day.count(effects.UnparkObject) == 1


def test_when_nothing_is_expected_no_alarm_is_set() -> None:
    day = Day(spec("a"))
    last = visited(day, "a", Window(0, 100))
    day.until(last + 1000)
    assert day.state("a") is State.COLD
    due = day.core.next_deadline()
    assert due is None or due > day.now


def test_a_plan_of_somebody_who_has_gone_does_not_go_on_for_a_guess() -> None:
    day = Day(spec("a"), spec("b"), sizes={"a": 6, "b": 6})
    last = visited(day, "a", Window(0, 100), Window(500, 800))
    day.until(last + 480)
    day.visit("b")
    day.until(last + 510)
    assert day.state("a") is State.COLD  # there was no room for the guess
    request = next(day.requests)
    day.tell(events.Get(request=request, model="a", holder=1000))
    assert day.state("b") is State.DRAINING
    day.tell(events.Cancel(request=request))
    day.wait(10)
    assert (day.state("a"), day.state("b")) == (State.COLD, State.READY)
