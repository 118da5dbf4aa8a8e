"""Which model answers for a name that means several."""

from collections import Counter

import pytest

from lazyd.core import answers, effects, events, routes
from lazyd.core.lifecycle import State
from lazyd.core.spec import Config, Split

from .story import Story, spec

OCR = (spec("ocr:3"), spec("ocr:4"))
NINE_TO_ONE = {"reader": Split(weights={"ocr:3": 90, "ocr:4": 10})}


def hot(*models: str, **fields: object) -> Story:
    """Those models are in memory, and idle."""
    story = Story(*OCR, splits=NINE_TO_ONE, **fields)  # type: ignore[arg-type]
    for model in models:
        story.hot(model)
    return story


def version(story: Story, request: int) -> str:
    return story.granted(request).version


def asked(story: Story, times: int) -> list[str]:
    return [version(story, story.get("reader")) for _ in range(times)]


def test_a_name_means_the_highest_version_an_alias_of_it_too_and_a_promotion_comes_first() -> None:
    config = Config(models={s.key: s for s in (spec("ocr:9"), spec("ocr:10"), spec("gemma"))}, aliases={"a": "ocr"})
    assert routes.meanings_of(config, {}) == {"ocr": "ocr:10", "a": "ocr:10"}
    assert routes.meanings_of(config, {"ocr": "ocr:9"}) == {"ocr": "ocr:9", "a": "ocr:9"}
    assert routes.meanings_of(config, {"a": "gemma"}) == {"ocr": "ocr:10", "a": "gemma"}


def test_a_model_without_a_version_keeps_its_name_beside_others_that_have_one() -> None:
    config = Config(models={s.key: s for s in (spec("ocr"), spec("ocr:1"))})
    assert routes.meanings_of(config, {}) == {}


def test_each_model_answers_as_often_as_its_weight_says_and_the_lesser_one_in_between() -> None:
    seen = asked(hot("ocr:3", "ocr:4"), 20)
    assert Counter(seen) == {"3": 18, "4": 2}
    assert "4" not in (seen[0], seen[-1])


def test_a_name_with_weights_asks_anew_for_each_call_but_not_with_a_sticky_key() -> None:
    story = hot("ocr:3", "ocr:4")
    assert story.granted(story.get("reader")).takes_turns
    assert not story.granted(story.get("reader", sticky="u")).takes_turns
    assert not story.granted(story.get("ocr")).takes_turns
    assert not story.granted(story.get("ocr:3")).takes_turns


def test_a_sticky_key_always_leads_to_the_same_version_and_many_keys_to_all_by_weight() -> None:
    story = hot("ocr:3", "ocr:4")
    keys = [f"user-{n}" for n in range(1000)]
    first = [version(story, story.get("reader", sticky=key)) for key in keys]
    assert first == [version(story, story.get("reader", sticky=key)) for key in keys]
    assert 60 < first.count("4") < 140


NAMES = [f"user-{n}" for n in range(500)]


def moved(before: dict[str, int], after: dict[str, int]) -> set[tuple[str, str]]:
    """From which share to which keys move."""
    pairs = [(routes.by_key(before, name), routes.by_key(after, name)) for name in NAMES]
    return {(old, new) for old, new in pairs if old != new}


def test_a_share_that_grows_takes_keys_and_no_other_key_moves() -> None:
    assert moved({"ocr:3": 90, "ocr:4": 10}, {"ocr:3": 50, "ocr:4": 50}) == {("ocr:3", "ocr:4")}
    shrunk_and_grown = moved({"a": 50, "b": 40, "c": 10}, {"a": 40, "b": 40, "c": 20})
    assert shrunk_and_grown == {("a", "b"), ("a", "c"), ("b", "c")}, "none from what is as it was to what is as it was"
    assert moved({"a": 60, "b": 40}, {"a": 60, "b": 40, "c": 10}) == {("a", "c"), ("b", "c")}


def test_no_key_moves_if_the_same_shares_are_written_otherwise() -> None:
    assert moved({"a": 60, "b": 30, "c": 10}, {"c": 1, "a": 6, "b": 3}) == set()


def test_keys_are_spread_by_weight() -> None:
    seen = Counter(routes.by_key({"a": 70, "b": 25, "c": 5}, f"user-{n}") for n in range(4000))
    assert 2700 < seen["a"] < 2900
    assert 900 < seen["b"] < 1100
    assert 150 < seen["c"] < 250


def test_a_version_that_is_cold_is_loaded_behind_one_that_is_ready_and_nobody_waits_for_it() -> None:
    story = hot("ocr:3")
    seen = asked(story, 10)
    assert set(seen) == {"3"}
    assert story.state("ocr:4") is State.LOADING
    story.ready("ocr:4")
    assert set(asked(story, 10)) == {"3", "4"}


def test_with_a_sticky_key_one_waits_for_the_version_that_it_leads_to() -> None:
    story = hot("ocr:3")
    key = next(f"k{n}" for n in range(1000) if routes.by_key({"ocr:3": 90, "ocr:4": 10}, f"reader\0k{n}") == "ocr:4")
    request = story.get("reader", sticky=key)
    assert request not in story.answers
    story.ready("ocr:4")
    assert version(story, request) == "4"


def test_the_share_of_a_version_that_fails_goes_to_the_others_and_that_is_told_once() -> None:
    story = hot()
    first = story.get("reader")
    assert story.state("ocr:3") is State.LOADING
    story.tell(events.ObjectFailed(worker=story.worker("ocr:3"), model="ocr:3", reason="no warm-up"))
    story.ready("ocr:4")
    assert version(story, first) == "4"
    assert set(asked(story, 5)) == {"4"}
    told = [e for e in story.effects if isinstance(e, effects.Note) and e.kind == "share"]
    assert [note.model for note in told] == ["ocr:3"]


def test_if_all_have_failed_the_failure_is_the_answer() -> None:
    story = hot()
    story.unpredictable = {"ocr:3", "ocr:4"}
    request = story.get("reader")
    assert isinstance(story.answers[request], answers.LoadFailed)


def test_a_version_that_is_loaded_in_the_background_takes_no_room_from_the_one_that_answers() -> None:
    story = hot(ram_gib=10, sizes={"ocr:3": 6, "ocr:4": 6})
    story.hot("ocr:3")
    story.wait(60)
    assert set(asked(story, 10)) == {"3"}
    story.wait(20)
    assert story.state("ocr:3") is State.READY
    assert story.state("ocr:4") is State.COLD


def test_what_waits_for_room_in_the_background_keeps_no_other_from_it() -> None:
    story = Story(*OCR, spec("other"), splits=NINE_TO_ONE, ram_gib=10, sizes={"ocr:3": 6, "ocr:4": 6, "other": 3})
    story.hot("ocr:3")
    asked(story, 10)
    story.wait(30)
    story.get("other")
    story.wait(1)
    assert story.state("other") is State.LOADING


@pytest.mark.parametrize("weights", [{"ocr:3": 1, "ocr:4": 1}, {"ocr:3": 90, "ocr:4": 10}])
def test_a_lease_by_a_name_may_be_claimed_again_and_takes_no_turn(weights: dict[str, int]) -> None:
    story = Story(*OCR, splits={"reader": Split(weights=weights)})
    story.hot("ocr:3")
    story.hot("ocr:4")
    request = story.get("reader")
    granted = story.granted(request)
    again = story.granted(story.get("reader", lease=granted.lease))
    assert again.lease == granted.lease


def test_a_shadow_is_loaded_behind_the_calls_of_others_and_the_worker_is_told() -> None:
    story = Story(*OCR, splits={"reader": Split(weights={"ocr:3": 1}, shadow="ocr:4")})
    request = story.get("reader")
    assert story.state("ocr:4") is State.COLD
    story.ready("ocr:3")
    assert version(story, request) == "3"
    grant = next(e for e in story.effects if isinstance(e, effects.Grant))
    assert (grant.route, grant.shadow) == ("reader", "ocr:4")
    assert story.state("ocr:4") is State.LOADING


def test_a_shadow_that_has_left_is_loaded_again_though_nobody_asks_for_another_lease() -> None:
    story = Story(*OCR, splits={"reader": Split(weights={"ocr:3": 1}, shadow="ocr:4")})
    story.get("reader")
    story.ready("ocr:3")
    story.ready("ocr:4")
    story.exit("ocr:4", status=3)
    assert story.state("ocr:4") is State.COLD
    story.tell(events.Shadowed(name="reader", shadow="ocr:4", compared=routes.Compared(equal=1)))
    assert story.state("ocr:4") is State.COLD
    story.tell(events.Shadowed(name="reader", shadow="ocr:4", compared=routes.Compared(skipped=1)))
    assert story.state("ocr:4") is State.LOADING


def test_what_came_of_repeated_calls_is_added_up() -> None:
    story = Story(*OCR, splits={"reader": Split(weights={"ocr:3": 1}, shadow="ocr:4")})
    for _ in range(2):
        compared = routes.Compared(equal=2, different=1)
        story.tell(events.Shadowed(name="reader", shadow="ocr:4", compared=compared))
    assert story.core.world.compared["reader", "ocr:4"] == routes.Compared(equal=4, different=2)


def test_who_waits_for_one_share_is_answered_by_another_that_is_ready_first() -> None:
    story = Story(*OCR, splits={"reader": Split(weights={"ocr:3": 1, "ocr:4": 1})})
    first, second = story.get("reader"), story.get("reader")
    assert {story.state("ocr:3"), story.state("ocr:4")} == {State.LOADING}
    story.ready("ocr:4")
    assert [version(story, request) for request in (first, second)] == ["4", "4"]
