"""Why a model is where it is: what is said of its warm-up, its fallback, and of when it is expected."""

from __future__ import annotations

from typing import Any

import pytest

from lazyd.core import events
from lazyd.core.lifecycle import State
from lazyd.core.monitoring import Past
from lazyd.core.spec import Fallback, Prewarm, PrewarmWhen, Tier, Warmup, WarmupMode
from lazyd.core.why import why

from .day import Day
from .story import RESIDENT, Story, spec
from .test_prewarming import Window, visited

SYNC, ASYNC, ON_DEMAND = WarmupMode.SYNC, WarmupMode.ASYNC, WarmupMode.ON_DEMAND
BY_SCHEDULE = Prewarm(when=PrewarmWhen.SCHEDULE, schedule=("0 9 * * *",))


def said(story: Story, name: str = "a") -> list[str]:
    return why(story.core.world, story.core.world.models[name])


# Its warm-up.


@pytest.mark.parametrize(
    ("mode", "sentence"),
    [
        (SYNC, "It serves only after its warm-up."),
        (ASYNC, "It serves as soon as it is loaded, and is warmed up beside the calls of others."),
        (ON_DEMAND, "It serves only after its warm-up, unless that has been made since the machine started."),
    ],
)
def test_a_model_that_loads_says_whether_it_is_warmed_up_first(mode: WarmupMode, sentence: str) -> None:
    story = Story(spec("a", warmup=Warmup(mode=mode)))
    story.get("a")
    assert sentence in said(story)


def test_a_warm_up_that_runs_says_whether_it_is_waited_for() -> None:
    for mode, sentence in (
        (SYNC, "Its warm-up is running, and it serves when that is over."),
        (ASYNC, "Its warm-up is running: it serves meanwhile, and the calls of others go first."),
    ):
        story = Story(spec("a", warmup=Warmup(mode=mode)))
        story.get("a")
        worker = story.worker("a")
        if mode is ASYNC:
            story.tell(events.ObjectReady(worker=worker, model="a", warmup="waiting"))
        story.tell(events.ObjectWarming(worker=worker, model="a", call=1, calls=1))
        assert sentence in said(story)
        story.tell(events.WarmupEnded(worker=worker, model="a"))
        if mode is ASYNC:
            assert not [clause for clause in said(story) if "warm-up" in clause]


def test_a_model_whose_warm_up_has_failed_says_so_while_it_leaves() -> None:
    story = Story(spec("a", warmup=Warmup(mode=ASYNC)))
    request = story.get("a")
    story.tell(events.ObjectReady(worker=story.worker("a"), model="a", warmup="waiting"))
    story.call(request)
    story.tell(events.WarmupEnded(worker=story.worker("a"), model="a", problem="output is empty"))
    assert said(story)[0] == "It has been leaving for 0.0 s: its warm-up failed."
    assert "Its warm-up has failed: output is empty." in said(story)


def test_a_model_that_fell_back_says_why_and_what_ends_it() -> None:
    story = Story(spec("a", warmup=Warmup(mode=ASYNC)))
    story.get("a")
    model = story.core.world.models["a"]
    model.past = Past(fell_back="a load took 30 s, more than 3 times the usual 2.0 s", good=1)
    because = "because a load took 30 s, more than 3 times the usual 2.0 s."
    start = "Its warm-ups are made in mode sync instead of async until"
    assert f"{start} 2 more loads in a row go well, {because}" in said(story)
    model.past = Past(fell_back=model.past.fell_back, good=2)
    assert f"{start} one more load goes well, {because}" in said(story)


# Its fallback.


def wanted(model: str | None = None) -> Story:
    fallback = Fallback(model=model, value="sorry", after_s=5.0)
    return Story(spec("a", fallback=fallback), spec("small"), sizes={"a": 6, "small": 3})


def test_a_model_says_when_its_fallback_answers_and_then_that_it_does() -> None:
    story = wanted()
    story.get("a")
    story.wait(2)
    assert "Its fallback answers in 3.0 s (a value), unless it is ready by then." in said(story)
    story.wait(10)
    answers = "Its fallback answers in its place (a value) until it is there; it has been missing for 12 s."
    assert answers in said(story)
    assert not [clause for clause in said(story) if "waits for it" in clause or "unless it is ready" in clause]
    story.ready("a")
    assert not [clause for clause in said(story) if "fallback" in clause]


def test_a_model_that_only_its_wish_keeps_in_the_line_does_not_count_that_as_a_request() -> None:
    story = Story(spec("a", fallback=Fallback(value="sorry", after_s=5.0)), host=False)
    story.get("a")
    story.wait(12)
    assert "It is wanted: its fallback has answered who came for it, the first 12 s ago." in said(story)


def test_a_request_in_two_lines_is_told_of_in_both() -> None:
    story = wanted("small")
    story.get("a")
    story.wait(5)
    assert "Its fallback is waited for as well (small): who is ready first answers." in said(story)
    assert "It is waited for as the fallback of a." in said(story, "small")


def test_a_model_that_failed_says_who_answers_until_it_is_tried_again() -> None:
    story = wanted()
    story.get("a")
    story.tell(events.ObjectFailed(worker=story.worker("a"), model="a", reason="no such file"))
    assert "Until it is tried again its fallback answers (a value)." in said(story)
    story.wait(3)
    assert not [clause for clause in said(story) if "fallback" in clause]


# When it is expected.


def regular(**fields: Any) -> Day:
    """Somebody has come every ten minutes, and just now."""
    day = Day(spec("a", **fields))
    for _ in range(5):
        day.visit("a")
        day.wait(600)
    day.visit("a")
    return day


EXPECTED = "Its next use is expected in 8 min, give or take 4.2 s (habit)."


def test_a_model_with_a_habit_says_when_it_is_expected_and_how_long_before_that_it_is_loaded() -> None:
    day = regular()
    day.wait(100)
    assert said(day) == [
        "It is cold: it left 40 s ago (idle).",
        EXPECTED,
        "It is loaded 16 s before that, into room that nobody waits for.",
    ]
    day.wait(485)
    assert day.state("a") is State.LOADING


def test_it_says_that_it_was_loaded_for_a_guess_and_when_it_leaves_if_nobody_comes() -> None:
    day = regular()
    day.wait(597)
    assert day.is_hot("a")
    assert said(day)[-3:] == [
        "Unless it is used, it leaves in 13 s (prewarm).",
        "Its next use is expected in 3.0 s, give or take 4.2 s (habit).",
        "It was loaded because it is expected, and nobody has come yet.",
    ]
    day.visit("a")
    day.wait(1)
    assert not [clause for clause in said(day) if "nobody has come" in clause]


def test_a_model_whose_time_is_learned_does_not_say_that_it_keeps_the_default() -> None:
    day = regular()
    day.wait(4.1)
    assert "When it leaves is decided 5.0 s after its last use (prewarm)." in said(day)
    day.wait(5)
    assert "Unless it is used, it leaves in 51 s (prewarm)." in said(day)


def test_the_default_that_stands_for_who_comes_at_random_is_named() -> None:
    day = Day(spec("a"))
    for gap_s in (700.0, 3000.0, 1800.0, 4500.0):
        day.visit("a")
        day.wait(gap_s)
    day.visit("a")
    day.wait(day.load_s + 100)
    assert "Unless it is used, it leaves in 8 min (idle_timeout)." in said(day)


def test_an_idle_time_that_was_written_down_is_named() -> None:
    day = regular(idle_timeout_s=700.0)
    day.wait(4.1)
    assert "Unless it is used, it leaves in 12 min (idle_timeout)." in said(day)


def test_a_guess_that_cannot_be_made_for_want_of_room_says_what_it_waits_for() -> None:
    day = Day(spec("a"), spec("b"), sizes={"a": 6, "b": 6})
    visited(day, "a", Window(500, 520))
    day.until(day.now + 480)
    held = day.get("b")
    day.wait(5)
    day.call(held)
    day.wait(15)
    assert day.state("a") is State.COLD
    assert "It is to be loaded for that now, as soon as there is room that nobody waits for." in said(day)


def test_wrong_guesses_are_told_of_when_they_keep_it_from_being_loaded() -> None:
    day = Day(spec("a"))
    last = visited(day, "a", *(Window(1000.0 * n, 1000.0 * n + 250) for n in range(1, 20)))
    day.until(last + 5500)
    assert said(day)[1:] == [
        "Its next use is expected in 8 min (habit).",
        "It is not loaded for that: 2 of 2 guesses were wrong, and too little is left of its budget for such ones, "
        "which fills again in a day.",
    ]


def test_what_had_to_leave_while_it_was_expected_is_not_brought_back_for_that() -> None:
    day = Day(spec("a"), spec("b"), sizes={"a": 6, "b": 6})
    last = visited(day, "a", Window(500, 700, 600))
    day.until(last + 510)
    assert day.is_hot("a")
    day.visit("b")
    day.wait(20)
    assert day.state("a") is State.COLD
    assert "It is not loaded for that any more, as it had to leave in that time." in said(day)


def test_by_its_schedule_it_says_so() -> None:
    day = Day(spec("a", prewarm=BY_SCHEDULE), load_s=8.0)
    day.tell(events.Scheduled(model="a", at=day.now + 1000))
    assert said(day)[1:] == [
        "Its next use is expected in 17 min (schedule).",
        "It is loaded 10 s before that, into room that nobody waits for.",
    ]


@pytest.mark.parametrize(
    ("fields", "clauses"),
    [
        ({"tier": Tier.TRANSIENT}, ["It is transient, and is not loaded before somebody asks for it."]),
        ({"tier": RESIDENT}, []),
        ({"prewarm": Prewarm(when=PrewarmWhen.OFF)}, None),
    ],
)
def test_what_is_not_loaded_for_a_guess_does_not_say_that_it_will_be(
    fields: dict[str, Any], clauses: list[str] | None
) -> None:
    day = regular(**fields)
    day.wait(100)
    after = said(day)[said(day).index(EXPECTED) + 1 :] if EXPECTED in said(day) else None
    assert after == clauses


def test_what_was_unloaded_by_name_is_not_loaded_for_a_guess() -> None:
    day = regular()
    day.unload("a")
    day.wait(100)
    assert said(day)[1:] == [EXPECTED, "It was unloaded by name, and is not loaded before somebody asks for it."]


def test_nor_is_what_was_unloaded_by_name_while_it_was_cold() -> None:
    day = regular()
    day.wait(100)
    assert not day.is_hot("a")
    day.unload("a")
    assert said(day)[-2:] == [EXPECTED, "It was unloaded by name, and is not loaded before somebody asks for it."]


def test_looking_changes_nothing() -> None:
    day = regular(warmup=Warmup(mode=ASYNC), fallback=Fallback(value="sorry"))
    day.wait(100)
    before, due, sent = repr(day.core), day.core.next_deadline(), len(day.effects)
    said(day)
    assert (repr(day.core), day.core.next_deadline(), len(day.effects)) == (before, due, sent)
