"""What a model uses: admitted with it or not at all, and kept as long as it is."""

from __future__ import annotations

from typing import Any

import pytest

from lazyd.core import answers, effects, events
from lazyd.core.lifecycle import State
from lazyd.core.spec import Prewarm, PrewarmWhen, Settings

from .story import RESIDENT, TRANSIENT, Story, spec, ways

OCR = spec("ocr", uses=("det", "rec"))
"""A model that calls two others."""


def ocr(*others: str, **fields: Any) -> Story:
    """With the two that it uses."""
    return Story(OCR, *map(spec, ("det", "rec", *others)), **fields)


def started(story: Story) -> list[str]:
    return [effect.model for effect in story.effects if isinstance(effect, effects.StartWorker)]


def test_what_is_used_is_begun_before_what_uses_it() -> None:
    story = ocr()
    story.get("ocr")
    assert started(story) == ["det", "rec", "ocr"]


def test_what_is_used_by_what_is_used_is_begun_first_and_once() -> None:
    pipeline = spec("pipeline", uses=("ocr", "det"))
    story = Story(pipeline, OCR, spec("det"), spec("rec"), aliases={"reader": "pipeline"})
    story.get("reader")
    assert started(story) == ["det", "rec", "ocr", "pipeline"]


def test_without_room_for_all_none_is_begun() -> None:
    story = ocr("hog", sizes={"ocr": 2, "det": 3, "rec": 3, "hog": 3})
    hog = story.get("hog")
    story.ready("hog")
    story.call(hog)
    story.get("ocr", timeout=100)
    assert started(story) == ["hog"]
    story.end_call(hog)
    story.close(hog)
    story.wait(3)
    story.answer_drain("hog")
    story.exit("hog", status=0)
    assert started(story) == ["hog", "det", "rec", "ocr"]


def test_room_is_made_for_all_at_once() -> None:
    story = ocr("a", "b", sizes={"a": 4, "b": 4, "ocr": 2, "det": 4, "rec": 4})
    story.hot("a")
    story.hot("b")
    story.wait(10)
    story.get("ocr")
    assert [story.state(name) for name in ("a", "b")] == [State.DRAINING, State.DRAINING]


def test_what_is_in_memory_already_needs_no_room_and_does_not_leave_for_its_user() -> None:
    story = ocr("a", sizes={"det": 4, "ocr": 2, "rec": 4, "a": 2})
    story.hot("det")
    story.hot("a")
    story.wait(10)
    story.get("ocr")
    assert story.state("det") is State.READY
    assert story.state("a") is State.DRAINING


def test_two_that_use_much_do_not_get_half_each() -> None:
    """Without `uses` each would have begun, and waited for the other's bytes."""
    story = Story(
        spec("p", uses=("x",)), spec("q", uses=("y",)), spec("x"), spec("y"), sizes={"p": 3, "q": 3, "x": 4, "y": 4}
    )
    story.get("p", timeout=100)
    story.get("q", timeout=100)
    assert started(story) == ["x", "p"]


def test_what_can_never_be_had_together_is_refused_and_says_with_what() -> None:
    story = ocr(sizes={"ocr": 4, "det": 4, "rec": 4})
    refusal = story.answers[story.get("ocr")]
    assert isinstance(refusal, answers.NoRoom)
    assert refusal.model == "ocr"
    assert refusal.needed_bytes == 12 << 30
    assert refusal.reason.startswith("together with det and rec, which it uses, it needs 12.0 GiB of ram")
    assert started(story) == []


def test_one_that_uses_what_no_device_suits_is_refused_and_told_which() -> None:
    story = Story(spec("ocr", uses=("det",)), spec("det", device=("gpu",)))
    refusal = story.answers[story.get("ocr")]
    assert isinstance(refusal, answers.NoRoom)
    assert refusal.reason.startswith("it uses det: no device of this machine suits it")


def test_each_part_has_its_own_device() -> None:
    story = ocr(gpus_gib=(8, 8), ram_gib=20, sizes={"ocr": 4, "det": 5, "rec": 3})
    story.get("ocr")
    assert story.devices_of("ocr") == ["gpu0", "ram"]
    assert story.devices_of("det") == ["gpu1", "ram"]
    assert story.devices_of("rec") == ["gpu0", "ram"]


def test_a_file_that_two_of_them_map_is_counted_once() -> None:
    mapped = {name: events.Predicted(model=name, ways=ways(1), files={"/weights": 6 << 30}) for name in ("ocr", "det")}
    story = Story(spec("ocr", uses=("det",)), spec("det"), predictions=mapped)
    story.get("ocr")
    assert started(story) == ["det", "ocr"]
    assert story.free_gib == pytest.approx(2)


def test_members_of_a_family_share_the_worker_that_is_booked() -> None:
    family = spec("s/*", max_loaded=3)
    story = Story(spec("p", uses=("s/a", "s/b")), family, sizes={"s/*": 6, "s/a": 6, "s/b": 6, "p": 3})
    story.get("p")
    assert started(story) == ["s/*", "p"]
    assert story.state("s/a") is story.state("s/b") is State.LOADING


def test_a_member_uses_what_its_family_uses() -> None:
    story = Story(spec("s/*", uses=("embedder",)), spec("embedder"))
    story.get("s/a")
    assert started(story) == ["embedder", "s/*"]
    story.get("s/b")
    assert started(story) == ["embedder", "s/*"]


def test_what_has_failed_holds_up_nobody() -> None:
    story = ocr()
    story.unpredictable.add("det")
    request = story.get("ocr")
    assert started(story) == ["rec", "ocr"]
    story.ready("ocr")
    story.granted(request)


def test_what_is_used_is_idle_no_sooner_than_its_user() -> None:
    story = Story(spec("ocr", uses=("det",), idle_timeout_s=300), spec("det", idle_timeout_s=10, tier=TRANSIENT))
    request = story.get("ocr")
    story.ready("det")
    story.ready("ocr", after=60)
    story.call(request)
    story.wait(1000)
    assert story.state("det") is State.READY
    story.end_call(request)
    story.close(request)
    story.wait(299)
    assert story.state("det") is State.READY
    story.wait(1)
    assert story.state("ocr") is State.DRAINING
    assert story.state("det") is State.DRAINING


def test_what_a_resident_uses_is_never_idle() -> None:
    story = Story(spec("ocr", uses=("det",), tier=RESIDENT), spec("det", idle_timeout_s=10))
    story.ready("det")
    story.ready("ocr")
    story.wait(1000)
    assert story.state("det") is State.READY


def rivalled() -> tuple[Story, int]:
    """`p` is in a call and uses `x`, for whose bytes somebody waits. The call."""
    story = Story(spec("p", uses=("x",)), spec("x"), spec("rival"), sizes={"p": 2, "x": 4, "rival": 5})
    request = story.get("p")
    story.ready("x")
    story.ready("p")
    story.call(request)
    story.wait(100)
    story.get("rival", timeout=100)
    return story, request


def test_a_plan_does_not_take_away_what_a_busy_model_uses() -> None:
    story, request = rivalled()
    assert story.state("x") is State.READY
    story.end_call(request)
    story.close(request)
    assert story.state("x") is State.DRAINING


def test_but_who_has_waited_for_long_may_have_it() -> None:
    story, _ = rivalled()
    story.wait(2)
    assert story.state("x") is State.DRAINING


def test_what_is_expected_brings_what_it_uses_and_that_yields_too() -> None:
    prewarm = Prewarm(when=PrewarmWhen.SCHEDULE, schedule=("0 9 * * *",))
    story = Story(spec("ocr", uses=("det",), prewarm=prewarm), spec("det"), spec("rival"), sizes={"rival": 10})
    story.tell(events.Scheduled(model="ocr", at=story.now + 100))
    story.wait(95)
    assert started(story) == ["det", "ocr"]
    story.ready("det", after=0)
    story.ready("ocr", after=0)
    story.get("rival")
    assert story.state("ocr") is story.state("det") is State.DRAINING


def test_a_parked_model_comes_back_with_what_it_uses() -> None:
    story = Story(spec("p", uses=("x",), idle_timeout_s=10), spec("x", idle_timeout_s=10), gpus_gib=(8,), ram_gib=40)
    request = story.get("p")
    story.tell(events.ObjectReady(worker=story.worker("x"), model="x"))
    story.tell(events.ObjectReady(worker=story.worker("p"), model="p", parks=True))
    story.end_call(story.call(request))
    story.close(request)
    story.wait(10)
    story.answer_drain("p")
    story.answer_drain("x")
    story.tell(events.ObjectParked(worker=story.worker("p"), model="p"))
    story.exit("x", status=0)
    assert [story.state("p"), story.state("x")] == [State.PARKED, State.COLD]
    story.get("p")
    assert [story.state("p"), story.state("x")] == [State.LOADING, State.LOADING]


def test_residents_begin_with_what_they_use() -> None:
    story = Story(
        spec("reader", uses=("det",), tier=RESIDENT, priority=5),
        spec("det"),
        settings=Settings(budget={}, max_pinned=1.0),
    )
    assert started(story) == ["det", "reader"]
    assert story.state("det") is State.LOADING


def test_what_was_found_out_about_what_is_used_is_forgotten_with_the_wish() -> None:
    story = ocr("hog", sizes={"hog": 9})
    hog = story.get("hog")
    story.ready("hog")
    story.call(hog)
    request = story.get("ocr", timeout=100)
    assert story.core.world.models["det"].prediction is not None
    story.tell(events.Cancel(request=request))
    assert story.core.world.models["det"].prediction is None


def test_what_is_wanted_itself_is_begun_once_with_what_uses_it() -> None:
    story = ocr(host=False)
    det = story.get("det")
    story.get("ocr")
    story.tell(events.HostFound())
    assert sorted(started(story)) == ["det", "ocr", "rec"]
    story.ready("det")
    story.granted(det)


def test_one_that_stands_behind_its_user_in_the_line_is_begun_once() -> None:
    story = ocr(host=False)
    story.get("ocr")
    story.get("det")
    story.tell(events.HostFound())
    assert sorted(started(story)) == ["det", "ocr", "rec"]


def test_what_is_pinned_and_used_is_loaded_with_its_user_only_as_far_as_pins_may_hold() -> None:
    story = Story(spec("ocr", uses=("det",)), spec("det", pin=True), sizes={"ocr": 1, "det": 8})
    refusal = story.answers[story.get("ocr")]
    assert isinstance(refusal, answers.NoRoom)
    assert refusal.reason == (
        "together with det, which it uses, pinned and resident models may hold 75% of ram together (max_pinned)"
    )


def test_of_members_that_are_used_a_pinned_one_keeps_the_whole_worker() -> None:
    story = Story(spec("p", uses=("s/a", "s/b")), spec("s/*"), sizes={"s/a": 8, "p": 1})
    story.pin("s/b")
    refusal = story.answers[story.get("p")]
    assert isinstance(refusal, answers.NoRoom)
    assert "max_pinned" in refusal.reason


def test_what_joins_a_worker_is_kept_with_all_of_it() -> None:
    """4 GiB of the worker that `s/b` joins, and 4 of `det`: each alone may be kept, both may not."""
    story = Story(
        spec("p", uses=("s/b", "det")), spec("s/*"), spec("det", pin=True), sizes={"s/a": 4, "det": 4, "p": 1}
    )
    story.hot("s/a")
    story.pin("s/b")
    refusal = story.answers[story.get("p")]
    assert isinstance(refusal, answers.NoRoom)
    assert "max_pinned" in refusal.reason
