"""Workers that have answered enough calls, or grown enough, and are restarted for that."""

from __future__ import annotations

import pytest

from lazyd.core import effects, events
from lazyd.core.lifecycle import State
from lazyd.core.spec import GIB

from .story import RESIDENT, Story, spec


def used(story: Story, model: str, calls: int) -> None:
    """So many calls have ended in its worker."""
    story.tell(events.WorkerUsed(worker=story.worker(model), calls=calls))


def measure(story: Story, model: str, gib: float) -> None:
    story.tell(events.WorkerMeasured(worker=story.worker(model), bytes_by_device={"ram": int(gib * GIB)}))


def worn(story: Story) -> list[str | None]:
    """What was said of workers that have served long enough."""
    return [effect.reason for effect in story.effects if isinstance(effect, effects.Note) and effect.kind == "worn"]


def restart(story: Story, model: str) -> None:
    """It drains, and loads again in another worker while the old one ends: there is room for both."""
    old = story.worker(model)
    assert story.state(model) is State.DRAINING
    story.answer_drain(model)
    assert story.state(model) is State.LOADING
    assert story.worker(model) != old
    story.tell(events.WorkerExited(worker=old, status=0))


def test_after_so_many_calls_it_is_restarted_when_it_is_idle_and_loaded_at_once() -> None:
    story = Story(spec("a", max_calls=10))
    request = story.get("a")
    story.ready("a")
    story.call(request)
    used(story, "a", 10)
    assert story.state("a") is State.READY  # a call is in flight
    story.end_call(request)
    restart(story, "a")
    story.ready("a")
    assert story.state("a") is State.READY
    assert worn(story) == ["it has answered 10 calls (max_calls): it is restarted when it is idle"]


def test_fewer_calls_change_nothing() -> None:
    story = Story(spec("a", max_calls=10))
    story.hot("a")
    used(story, "a", 9)
    assert story.state("a") is State.READY
    assert not worn(story)


def test_a_worker_that_grows_by_so_much_is_restarted() -> None:
    story = Story(spec("a", max_growth_bytes=GIB), sizes={"a": 3})
    story.hot("a")
    for gib in (2, 2.5, 2.9):
        measure(story, "a", gib)
        assert story.state("a") is State.READY
    measure(story, "a", 3)
    (told,) = worn(story)
    assert told == "it has grown by 1.0 GiB on ram since it was ready (max_growth): it is restarted when it is idle"
    restart(story, "a")
    story.ready("a")
    measure(story, "a", 3)  # what it holds when it is ready is no growth
    assert story.state("a") is State.READY


def test_what_a_load_takes_is_no_growth() -> None:
    story = Story(spec("a", max_growth_bytes=GIB), sizes={"a": 3})
    story.get("a")
    measure(story, "a", 0.1)
    story.ready("a")
    measure(story, "a", 3)
    assert story.state("a") is State.READY


def test_what_comes_with_another_object_of_a_family_is_no_growth_but_what_was_before_counts() -> None:
    story = Story(spec("s/*", max_growth_bytes=GIB), sizes={"s/1": 3})
    story.hot("s/1")
    measure(story, "s/1", 1)
    measure(story, "s/1", 1.6)
    story.get("s/2")
    measure(story, "s/1", 2)
    story.ready("s/2")
    measure(story, "s/1", 3)
    assert story.state("s/1") is story.state("s/2") is State.READY
    measure(story, "s/1", 3.3)
    assert not worn(story)
    measure(story, "s/1", 3.5)
    assert len(worn(story)) == 1


def test_under_calls_without_a_pause_it_finishes_them_after_max_wait() -> None:
    story = Story(spec("a", max_calls=10, max_wait_s=2.0))
    first = story.get("a")
    story.ready("a")
    story.call(first)
    used(story, "a", 10)
    story.wait(1.9)
    assert story.state("a") is State.READY
    second = story.get("a")  # it serves meanwhile
    story.end_call(story.call(second))
    story.wait(0.2)
    assert story.state("a") is State.DRAINING
    assert [effect.finish for effect in story.effects if isinstance(effect, effects.Drain)] == [True]
    third = story.get("a")
    assert third not in story.answers
    story.end_call(first)
    restart(story, "a")
    story.ready("a")
    assert story.granted(third)


def test_who_asks_while_it_leaves_does_not_keep_it() -> None:
    story = Story(spec("a", max_calls=10))
    story.hot("a")
    used(story, "a", 10)
    request = story.get("a")
    restart(story, "a")
    story.ready("a")
    assert story.granted(request)


def test_one_that_turns_out_to_be_busy_serves_on_and_is_asked_again() -> None:
    story = Story(spec("a", max_calls=10, max_wait_s=60.0))
    story.hot("a")
    used(story, "a", 10)
    story.answer_drain("a", busy=True)
    assert story.state("a") is State.READY
    story.wait(1)
    restart(story, "a")


def test_all_objects_of_a_family_are_restarted_together_and_none_joins_them() -> None:
    story = Story(spec("s/*", max_calls=10))
    story.hot("s/1")
    story.hot("s/2")
    used(story, "s/1", 10)
    old = story.worker("s/1")
    story.get("s/3")
    for model in ("s/1", "s/2"):
        story.answer_drain(model)
    story.tell(events.WorkerExited(worker=old, status=0))
    assert {story.state(f"s/{i}") for i in (1, 2, 3)} == {State.LOADING}
    assert len({story.worker(f"s/{i}") for i in (1, 2, 3)}) == 1
    assert story.worker("s/3") != old


def test_what_would_leave_for_being_idle_anyway_is_not_loaded_again() -> None:
    story = Story(spec("a", max_growth_bytes=GIB, idle_timeout_s=5.0), sizes={"a": 3})
    story.hot("a")
    measure(story, "a", 1)
    story.wait(4.9)
    measure(story, "a", 2)
    assert story.state("a") is State.DRAINING
    story.answer_drain("a")
    story.exit("a", status=0)
    story.wait(1)
    assert story.state("a") is State.COLD


def test_a_restart_does_not_prolong_its_idle_time() -> None:
    story = Story(spec("a", max_growth_bytes=GIB, idle_timeout_s=5.0), sizes={"a": 3})
    story.hot("a")
    measure(story, "a", 1)
    story.wait(3)
    measure(story, "a", 2)
    restart(story, "a")
    story.ready("a", after=0.1)
    story.wait(1.8)
    assert story.state("a") is State.READY
    story.wait(0.2)
    assert story.state("a") is State.DRAINING


def test_a_resident_stands_again() -> None:
    story = Story(spec("a", max_calls=10, tier=RESIDENT))
    story.ready("a")
    used(story, "a", 10)
    restart(story, "a")


def test_a_pinned_model_is_restarted_too() -> None:
    story = Story(spec("a", max_calls=10, pin=True))
    story.hot("a")
    used(story, "a", 10)
    restart(story, "a")


def test_a_limit_that_is_taken_back_in_time_restarts_nothing() -> None:
    story = Story(spec("a", max_calls=10))
    request = story.get("a")
    story.ready("a")
    story.call(request)
    used(story, "a", 10)
    story.configure(spec("a"))
    story.wait(5)
    story.end_call(request)
    assert story.state("a") is State.READY


@pytest.mark.parametrize("calls", [9, 10])
def test_the_next_manager_knows_how_many_calls_there_were(calls: int) -> None:
    story = Story(spec("a", max_calls=10), host=False)
    memo = {"model": "a", "identity": spec("a").identity, "booking": {"ram": GIB}}
    ready = events.ObjectReport(model="a", state="ready", since=90.0, load_s=2.0, last_used=99.0)
    report = events.WorkerReport(
        worker="w", pid=7, started=50.0, endpoint="/w.sock", memo=memo, objects=(ready,), calls=calls
    )
    story.tell(events.HostFound(workers=(report,)))
    assert (story.state("a") is State.DRAINING) == (calls == 10)
