"""A model that cannot be had in time: its fallback answers, marked as such, and its load goes on."""

from __future__ import annotations

from typing import Any

import pytest

from lazyd.core import effects, events
from lazyd.core.answers import (
    Cancelled,
    LoadFailed,
    ModelNotFound,
    NoRoom,
    ShuttingDown,
    Substituted,
    Timeout,
)
from lazyd.core.lifecycle import State
from lazyd.core.spec import Fallback, ModelSpec, Settings

from .story import Story, spec


def with_value(name: str = "wanted", value: Any = "sorry", after_s: float = 5.0, **fields: Any) -> ModelSpec:
    return spec(name, fallback=Fallback(value=value, after_s=after_s), **fields)


def with_model(name: str = "wanted", model: str = "small", after_s: float = 5.0, **fields: Any) -> ModelSpec:
    return spec(name, fallback=Fallback(model=model, after_s=after_s), **fields)


def progress(story: Story, model: str, fraction: float, phase: str = "weights") -> None:
    story.tell(events.LoadProgress(worker=story.worker(model), model=model, phase=phase, fraction=fraction))


def substituted(story: Story, request: int) -> Substituted:
    outcome = story.answers[request]
    assert isinstance(outcome, Substituted), outcome
    return outcome


def timed_out(story: Story, request: int) -> Timeout:
    outcome = story.answers[request]
    assert isinstance(outcome, Timeout), outcome
    return outcome


# A value.


def test_a_value_answers_when_the_model_was_not_ready_in_time_and_says_why() -> None:
    story = Story(with_value(value={"text": "sorry"}))
    request = story.get("wanted")
    progress(story, "wanted", 0.4)
    story.wait(4.9)
    assert request not in story.answers
    story.wait(0.1)
    outcome = substituted(story, request)
    assert outcome.value == {"text": "sorry"}
    assert outcome.degraded == "wanted is not ready after 5.0 s (loading: weights 40 %)"
    assert outcome.waited_s == 5.0


def test_the_load_goes_on_after_a_value_has_answered() -> None:
    story = Story(with_value())
    story.get("wanted")
    story.wait(6.0)
    assert story.state("wanted") is State.LOADING
    assert story.core.world.models["wanted"].waiting == 0
    story.ready("wanted")
    assert not story.granted(story.get("wanted")).degraded
    assert not story.core.world.models["wanted"].waiters


def test_a_load_that_waits_for_room_goes_on_waiting_after_a_value_has_answered() -> None:
    """Otherwise requests that come one by one would each take the value, and it would never be loaded."""
    story = Story(with_value(), spec("big"), sizes={"wanted": 6, "big": 6})
    busy = story.get("big")
    story.ready("big")
    story.call(busy)
    request = story.get("wanted")
    story.wait(5.0)
    assert "(queued)" in substituted(story, request).degraded
    story.wait(20.0)
    story.end_call(busy)
    story.close(busy)
    story.answer_drain("big")
    story.exit("big")
    assert story.state("wanted") is State.LOADING
    story.ready("wanted")
    assert story.granted(story.get("wanted")).model == "wanted"


def test_nothing_is_loaded_for_a_wish_that_nobody_has_repeated_for_long() -> None:
    story = Story(with_value(), host=False, settings=Settings(budget={}, first_call_timeout_s=60.0))
    story.get("wanted")
    story.wait(64.0)
    assert story.core.world.models["wanted"].waiters
    story.wait(2.0)
    assert not story.core.world.models["wanted"].waiters
    story.tell(events.HostFound())
    assert story.state("wanted") is State.COLD


def test_half_of_the_callers_own_limit_is_sooner_than_after() -> None:
    story = Story(with_value())
    request = story.get("wanted", timeout=4.0)
    story.wait(1.9)
    assert request not in story.answers
    story.wait(0.1)
    assert substituted(story, request).waited_s == 2.0


def test_a_caller_without_any_time_gets_the_value_at_once() -> None:
    story = Story(with_value())
    assert substituted(story, story.get("wanted", timeout=0.0)).degraded == "wanted is not ready (queued)"


def test_a_model_that_is_ready_in_time_answers_itself() -> None:
    story = Story(with_value())
    request = story.get("wanted")
    story.ready("wanted", after=4.0)
    assert story.granted(request).degraded is None
    story.wait(10.0)
    assert story.count(effects.Answer) == 1


def test_who_only_loads_is_never_degraded() -> None:
    story = Story(with_value())
    request = story.load("wanted")
    story.wait(10.0)
    assert request not in story.answers


def test_who_comes_while_others_wait_in_vain_is_answered_at_once() -> None:
    story = Story(with_value())
    story.get("wanted")
    story.wait(5.0)
    assert substituted(story, story.get("wanted")).waited_s == 0.0


def test_who_comes_when_the_load_is_about_to_end_waits_for_it() -> None:
    story = Story(with_value())
    story.load("wanted")
    story.ready("wanted", after=8.0)
    story.unload("wanted")
    story.answer_drain("wanted")
    story.exit("wanted")
    first = story.get("wanted")
    story.wait(6.0)
    substituted(story, first)
    second = story.get("wanted")
    assert second not in story.answers
    story.ready("wanted", after=2.0)
    assert story.granted(second).degraded is None


# Refusals.


def test_a_value_answers_at_once_for_a_model_that_is_paused() -> None:
    story = Story(with_value())
    request = story.get("wanted")
    story.tell(events.ObjectFailed(worker=story.worker("wanted"), model="wanted", reason="bad weights"))
    assert substituted(story, request).degraded == "wanted could not be loaded: bad weights"
    assert substituted(story, story.get("wanted")).waited_s == 0.0


def test_a_value_answers_at_once_where_there_never_will_be_room() -> None:
    story = Story(with_value(), sizes={"wanted": 20})
    assert substituted(story, story.get("wanted")).degraded.startswith("there is no room for wanted: it needs 20")


def test_what_is_not_configured_is_not_stood_in_for() -> None:
    story = Story(with_value())
    assert isinstance(story.answers[story.get("wnated")], ModelNotFound)
    request = story.get("wanted")
    story.configure()
    assert isinstance(story.answers[request], ModelNotFound)


def test_an_unload_and_a_stop_are_not_stood_in_for() -> None:
    story = Story(with_model(), spec("small"))
    request = story.get("wanted")
    story.unload("wanted")
    assert isinstance(story.answers[request], Cancelled)
    request = story.get("wanted")
    story.wait(6.0)
    story.tell(events.Stop(deadline=story.now + 10))
    assert isinstance(story.answers[request], ShuttingDown)


def test_a_load_is_refused_as_without_a_fallback() -> None:
    story = Story(with_value(), sizes={"wanted": 20})
    assert isinstance(story.answers[story.load("wanted")], NoRoom)


# Another model.


def test_another_model_that_is_ready_answers() -> None:
    story = Story(with_model(), spec("small"))
    story.hot("small")
    request = story.get("wanted")
    story.wait(5.0)
    granted = story.granted(request)
    assert (granted.model, granted.waited_s) == ("small", 5.0)
    assert granted.degraded is not None
    assert granted.degraded.startswith("wanted is not ready after 5.0 s (loading")
    story.ready("wanted")
    assert story.granted(story.get("wanted")).degraded is None


def test_another_model_is_loaded_and_answers_if_it_is_ready_first() -> None:
    story = Story(with_model(), spec("small"))
    request = story.get("wanted")
    story.wait(5.0)
    assert story.state("small") is State.LOADING
    story.ready("small")
    assert story.granted(request).model == "small"
    assert story.granted(request).degraded.startswith("wanted is not ready after 6.0 s")  # type: ignore[union-attr]
    assert story.state("wanted") is State.LOADING


def test_the_wanted_model_answers_undegraded_if_it_is_ready_first() -> None:
    story = Story(with_model(), spec("small"))
    request = story.get("wanted")
    story.wait(5.0)
    story.ready("wanted")
    assert (story.granted(request).model, story.granted(request).degraded) == ("wanted", None)
    story.ready("small")
    assert story.count(effects.Answer) == 1
    assert not story.core.world.models["small"].waiters


def test_what_takes_longer_than_the_wanted_model_still_needs_is_not_loaded() -> None:
    story = Story(with_model(after_s=1.0), spec("small"))
    for model, load_s in (("wanted", 4.0), ("small", 6.0)):
        story.hot(model, after=load_s)
        story.unload(model)
        story.answer_drain(model)
        story.exit(model)
    request = story.get("wanted")
    story.wait(3.0)
    assert story.state("small") is State.COLD
    story.wait(1.5)  # by now it should have been ready, and is not
    assert story.state("small") is State.LOADING
    assert request not in story.answers


def test_nothing_leaves_for_a_fallback_while_the_wanted_model_is_in_the_line() -> None:
    story = Story(
        with_model(after_s=1.0), spec("small"), spec("busy"), spec("idle"), sizes={"wanted": 7, "busy": 6, "idle": 4}
    )
    request = story.get("busy")
    story.ready("busy")
    story.call(request)
    story.hot("idle")
    story.wait(10.0)
    story.get("wanted", timeout=100.0)
    story.wait(1.5)
    assert "small" in story.core.world.wanting
    assert story.state("idle") is State.READY


def test_a_fallback_takes_no_room_that_the_wanted_model_waits_for() -> None:
    story = Story(with_model(after_s=1.0), spec("small"), spec("busy"), sizes={"wanted": 9, "busy": 6})
    request = story.get("busy")
    story.ready("busy")
    story.call(request)
    story.get("wanted")
    story.wait(1.5)
    assert story.free_gib >= 1
    assert story.state("small") is State.COLD
    assert story.core.world.models["small"].waiters


def test_others_leave_for_a_fallback_once_the_wanted_model_loads() -> None:
    story = Story(with_model(), spec("small"), spec("idle"), sizes={"wanted": 5, "small": 2, "idle": 4})
    story.hot("idle")
    story.wait(10.0)
    request = story.get("wanted")
    assert story.state("wanted") is State.LOADING
    story.wait(5.0)
    story.answer_drain("idle")
    story.exit("idle")
    story.ready("small")
    assert story.granted(request).model == "small"
    assert story.state("wanted") is State.LOADING


def test_fallbacks_of_fallbacks_follow_each_other() -> None:
    story = Story(with_model(), with_value("small", value="nothing", after_s=3.0))
    request = story.get("wanted")
    story.wait(7.9)
    assert request not in story.answers
    story.wait(0.1)
    assert substituted(story, request).model == "wanted"
    assert substituted(story, request).degraded.startswith("wanted is not ready after 8.0 s")


def test_a_fallback_that_fails_gives_way_to_its_own_and_the_wanted_model_is_waited_for() -> None:
    story = Story(with_model(), with_value("small", value="nothing"), with_model("other", model="bare"), spec("bare"))
    request, other = story.get("wanted"), story.get("other")
    story.wait(5.0)
    for model in ("small", "bare"):
        story.tell(events.ObjectFailed(worker=story.worker(model), model=model, reason="bad"))
    assert substituted(story, request).value == "nothing"
    assert other not in story.answers
    story.ready("other")
    assert story.granted(other).degraded is None


def test_fallbacks_that_go_round_end() -> None:
    story = Story(with_model("a", "b"), with_model("b", "c"), with_model("c", "b"))
    request = story.get("a")
    story.wait(100.0)
    story.ready("c")
    assert story.granted(request).model == "c"


def test_another_model_answers_for_one_that_is_refused() -> None:
    story = Story(with_model(), spec("small"), sizes={"wanted": 20})
    request = story.get("wanted")
    assert story.state("small") is State.LOADING
    story.ready("small")
    granted = story.granted(request)
    assert granted.model == "small"
    assert granted.degraded is not None
    assert granted.degraded.startswith("there is no room for wanted")


def test_a_model_that_was_refused_and_is_ready_after_all_answers_itself() -> None:
    story = Story(with_model(), spec("small"))
    request = story.get("wanted")
    story.tell(events.ObjectFailed(worker=story.worker("wanted"), model="wanted", reason="bad"))
    story.exit("wanted")
    assert story.state("small") is State.LOADING
    story.wait(2.0)  # the pause is over, and somebody else asks
    other = story.load("wanted")
    story.ready("wanted")
    assert other in story.answers
    assert (story.granted(request).model, story.granted(request).degraded) == ("wanted", None)
    assert not story.core.world.models["small"].waiters


def test_a_client_that_leaves_after_a_refusal_is_not_answered_later() -> None:
    story = Story(with_model(), spec("small"))
    request = story.get("wanted")
    story.tell(events.ObjectFailed(worker=story.worker("wanted"), model="wanted", reason="bad"))
    story.exit("wanted")
    story.tell(events.Cancel(request=request))
    story.wait(2.0)
    story.load("wanted")
    story.ready("wanted")
    assert request not in story.answers
    assert not story.core.world.waiters


def test_if_the_fallback_cannot_be_had_either_the_wanted_models_refusal_is_the_answer() -> None:
    story = Story(with_model(), spec("small"), sizes={"wanted": 20})
    request = story.get("wanted")
    story.tell(events.ObjectFailed(worker=story.worker("small"), model="small", reason="bad"))
    outcome = story.answers[request]
    assert isinstance(outcome, NoRoom)
    assert outcome.model == "wanted"


def test_at_its_deadline_a_request_is_told_what_the_wanted_model_waits_for() -> None:
    story = Story(with_model(), spec("small"))
    request = story.get("wanted", timeout=20.0)
    story.wait(20.0)
    outcome = timed_out(story, request)
    assert (outcome.model, outcome.timeout_sec) == ("wanted", 20.0)
    assert not story.core.world.waiters
    assert not story.core.world.models["small"].waiters


def test_a_client_that_leaves_gives_its_places_back() -> None:
    story = Story(with_model(), spec("small"))
    request = story.get("wanted")
    story.wait(6.0)
    story.tell(events.Cancel(request=request))
    assert not story.core.world.waiters
    assert not any(model.waiters for model in story.core.world.models.values())
    assert ("deadline", request) not in story.core.world.alarms
    story.ready("small")
    story.ready("wanted")
    assert not story.answers


def test_a_nested_request_is_stood_in_for_too() -> None:
    story = Story(with_model(), spec("small"), spec("caller"))
    caller = story.get("caller")
    story.ready("caller")
    story.call(caller)
    story.hot("small")
    request = story.get("wanted", parent=story.granted(caller).lease)
    story.wait(5.0)
    assert story.granted(request).model == "small"
    assert story.core.world.leases[story.granted(request).lease].parent == story.granted(caller).lease


def test_a_circle_of_calls_is_answered_by_the_fallback() -> None:
    """The caller's model is wanted again: its turn would never come."""
    story = Story(with_value("caller", value="enough"))
    caller = story.get("caller")
    story.ready("caller")
    story.call(caller)
    nested = story.get("caller", parent=story.granted(caller).lease)
    assert substituted(story, nested).value == "enough"


# How long it will take.


def test_a_timeout_says_how_long_the_load_will_take_still() -> None:
    story = Story(spec("gemma"))
    story.hot("gemma", after=20.0)
    story.unload("gemma")
    story.answer_drain("gemma")
    story.exit("gemma")
    request = story.get("gemma", timeout=8.0)
    story.wait(8.0)
    assert timed_out(story, request).expected_sec == pytest.approx(12.0)


def test_a_first_load_says_by_its_progress_how_long_it_will_take() -> None:
    story = Story(spec("gemma"))
    request = story.get("gemma", timeout=8.0)
    story.wait(4.0)
    progress(story, "gemma", 0.25)
    story.wait(4.0)
    assert timed_out(story, request).expected_sec == pytest.approx(24.0)


def test_nothing_is_said_where_nothing_is_known() -> None:
    story = Story(spec("gemma"))
    request = story.get("gemma", timeout=8.0)
    story.wait(8.0)
    assert timed_out(story, request).expected_sec is None


def test_a_load_that_is_refused_by_a_failure_is_so_without_a_fallback() -> None:
    story = Story(spec("gemma"))
    request = story.get("gemma")
    story.tell(events.ObjectFailed(worker=story.worker("gemma"), model="gemma", reason="bad"))
    assert isinstance(story.answers[request], LoadFailed)
