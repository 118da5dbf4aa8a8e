"""A configuration that changes in the middle of something: policy is in force at once."""

from lazyd.core import answers, events
from lazyd.core.lifecycle import State

from .story import RESIDENT, Story, spec


def loading(story: Story) -> int:
    request = story.get("a")
    story.wait(10)
    return request


def test_a_limit_that_is_taken_away_during_a_load_is_none() -> None:
    story = Story(spec("a", load_timeout_s=120.0))
    loading(story)
    story.configure(spec("a", load_timeout_s=None))
    story.wait(200)
    assert story.state("a") is State.LOADING


def test_a_limit_that_grows_during_a_load_holds_from_its_last_progress() -> None:
    story = Story(spec("a", load_timeout_s=120.0))
    request = loading(story)
    story.configure(spec("a", load_timeout_s=200.0))
    story.wait(189)
    assert request not in story.answers
    story.wait(1)
    refusal = story.answers[request]
    assert isinstance(refusal, answers.LoadFailed)
    assert "no progress for 200 s" in refusal.reason


def test_a_limit_that_shrinks_during_a_load_holds_at_once() -> None:
    story = Story(spec("a", load_timeout_s=120.0))
    request = loading(story)
    story.configure(spec("a", load_timeout_s=5.0))
    story.wait(0)
    assert isinstance(story.answers[request], answers.LoadFailed)


def test_places_that_are_taken_away_end_the_plan_for_one() -> None:
    story = Story(spec("s/*", max_loaded=1))
    story.hot("s/a")
    story.wait(60)
    story.get("s/b")
    assert story.state("s/a") is State.DRAINING
    story.configure(spec("s/*"))
    assert story.state("s/a") is State.READY
    assert story.state("s/b") is State.LOADING


def test_what_becomes_resident_stands_though_it_was_unloaded_by_name_before() -> None:
    story = Story(spec("a"))
    story.hot("a")
    story.unload("a")
    story.answer_drain("a")
    story.exit("a", status=0)
    story.configure(spec("a", tier=RESIDENT))
    assert story.state("a") is State.LOADING


def test_a_resident_that_was_unloaded_by_name_stays_so_when_something_else_changes() -> None:
    story = Story(spec("a", tier=RESIDENT))
    story.ready("a")
    story.unload("a")
    story.answer_drain("a")
    story.exit("a", status=0)
    story.configure(spec("a", tier=RESIDENT), spec("b"))
    story.tell(events.Tick())
    assert story.state("a") is State.COLD
