"""Warm-ups as the core sees them: ordered with a load, before or beside the calls of others."""

from __future__ import annotations

from typing import Any

import pytest

from lazyd.core import effects, events, view
from lazyd.core.answers import Granted, LoadFailed, NoRoom, Timeout, Unloaded
from lazyd.core.lifecycle import State
from lazyd.core.monitoring import Past
from lazyd.core.spec import Warmup, WarmupMode

from .story import RESIDENT, Story, spec

SYNC, ASYNC, ON_DEMAND = WarmupMode.SYNC, WarmupMode.ASYNC, WarmupMode.ON_DEMAND


def warm(name: str = "a", mode: WarmupMode = SYNC, timeout_s: float = 60.0, **fields: Any) -> Any:
    return spec(name, warmup=Warmup(mode=mode, calls=3, timeout_s=timeout_s), **fields)


def order(story: Story) -> effects.LoadObject:
    return [effect for effect in story.effects if isinstance(effect, effects.LoadObject)][-1]


def notes(story: Story, kind: str) -> list[effects.Note]:
    return [effect for effect in story.effects if isinstance(effect, effects.Note) and effect.kind == kind]


def warming(story: Story, call: int = 1, runs: bool = True, spent_s: float = 0.0, model: str = "a") -> None:
    """A call of its warm-up begins or ends."""
    about: Any = {"worker": story.worker(model), "model": model, "call": call, "calls": 3}
    story.tell(events.ObjectWarming(**about, spent_s=spent_s, runs=runs))


def ready(story: Story, warmup: str = "done", runtime: str = "1.0", **fields: Any) -> None:
    story.tell(events.ObjectReady(worker=story.worker("a"), model="a", warmup=warmup, runtime=runtime, **fields))


def ended(story: Story, problem: str | None = None, **fields: Any) -> None:
    story.tell(events.WarmupEnded(worker=story.worker("a"), model="a", runtime="1.0", problem=problem, **fields))


def shown(story: Story, model: str = "a") -> Any:
    return view.model(story.core, model, story.now)


def fail(story: Story, reason: str = "warm-up: output is empty (call 1 of 3)", **fields: Any) -> None:
    story.tell(events.ObjectFailed(worker=story.worker("a"), model="a", reason=reason, **fields))


# Before the first call.


def test_a_model_is_ready_only_after_its_synchronous_warm_up() -> None:
    story = Story(warm())
    request = story.get("a")
    assert order(story).warmup == "sync"
    assert order(story).table == Warmup(calls=3)
    assert shown(story).warmup == "pending"
    warming(story, call=1)
    assert story.state("a") is State.WARMING
    assert shown(story).warmup == "running"
    assert request not in story.answers
    warming(story, call=2)
    progress = [effect for effect in story.effects if isinstance(effect, effects.Progress)][-1]
    assert (progress.state, progress.phase) == ("warming", "warm-up 2/3")
    ready(story)
    assert shown(story).warmup == "done"
    assert isinstance(story.answers[request], Granted)


def test_a_warm_up_that_fails_is_a_failed_load_and_nobody_is_served() -> None:
    story = Story(warm())
    request = story.get("a")
    warming(story)
    fail(story)
    refusal = story.answers[request]
    assert isinstance(refusal, LoadFailed)
    assert refusal.reason == "warm-up: output is empty (call 1 of 3)"
    assert story.state("a") is State.FAILED
    assert shown(story).warmup == "failed"
    assert shown(story).warmup_success == 0.0


def test_a_warm_up_that_hangs_fails_by_its_own_limit_and_its_worker_is_ended() -> None:
    story = Story(warm(timeout_s=200, load_timeout_s=10))
    request = story.get("a")
    warming(story)
    story.wait(199)
    assert story.state("a") is State.WARMING, "load_timeout does not cut it short"
    story.wait(2)
    refusal = story.answers[request]
    assert isinstance(refusal, LoadFailed)
    assert "warmup.timeout" in refusal.reason
    assert story.count(effects.StopWorker) == 1


def test_the_limit_is_that_of_all_calls_together() -> None:
    story = Story(warm(timeout_s=10))
    request = story.get("a")
    warming(story, call=1)
    story.wait(6)
    warming(story, call=2, spent_s=6)
    story.wait(3.9)
    assert request not in story.answers
    story.wait(0.2)
    assert isinstance(story.answers[request], LoadFailed)


def test_a_warm_up_of_the_models_own_without_a_table_is_as_a_load_without_progress() -> None:
    story = Story(spec("a", load_timeout_s=10))
    request = story.get("a")
    assert order(story).warmup == ""
    warming(story)
    story.wait(9)
    assert story.state("a") is State.WARMING
    story.wait(2)
    refusal = story.answers[request]
    assert isinstance(refusal, LoadFailed)
    assert "load_timeout" in refusal.reason


def test_an_unload_ends_a_warm_up() -> None:
    story = Story(warm())
    story.get("a")
    warming(story)
    story.unload("a")
    assert story.state("a") is State.UNLOADING
    assert story.count(effects.StopWorker) == 1
    story.exit("a")
    story.wait(100)  # longer than its limit
    assert story.state("a") is State.COLD


def test_a_warm_up_that_runs_out_of_memory_is_tried_once_more() -> None:
    story = Story(warm())
    request = story.get("a")
    warming(story)
    fail(story, "warm-up: MemoryError (call 1 of 3)", out_of_memory=True)
    assert request not in story.answers
    assert story.count(effects.LoadObject) == 2
    warming(story)
    fail(story, "warm-up: MemoryError (call 1 of 3)", out_of_memory=True)
    assert isinstance(story.answers[request], NoRoom)


def test_the_peak_of_a_warm_up_is_the_loads() -> None:
    story = Story(warm())
    story.get("a")
    warming(story)
    worker = story.worker("a")
    story.tell(events.WorkerMeasured(worker=worker, bytes_by_device={"ram": 7 << 30}))
    assert story.core.world.workers[worker].load_peak["ram"] == 7 << 30


def test_a_warm_up_that_nobody_waits_for_gives_way_like_a_load() -> None:
    story = Story(warm("a"), spec("b"), sizes={"a": 6, "b": 6})
    request = story.get("a")
    warming(story)
    story.tell(events.Cancel(request=request))
    other = story.get("b")
    story.exit("a")
    story.ready("b")
    assert isinstance(story.answers[other], Granted)


def test_a_model_that_comes_back_from_being_parked_is_not_warmed_up() -> None:
    story = Story(warm(device=("gpu",), idle_timeout_s=10, idle_written=True), gpus_gib=[8])
    request = story.get("a")
    warming(story)
    ready(story, parks=True)
    story.close(story.call(request))
    story.wait(11)
    story.answer_drain("a")
    story.tell(events.ObjectParked(worker=story.worker("a"), model="a"))
    story.sample("gpu0")
    request = story.get("a")
    assert story.count(effects.LoadObject) == 1
    assert story.count(effects.UnparkObject) == 1
    ready(story, warmup="", parks=True)
    assert isinstance(story.answers[request], Granted)
    assert shown(story).warmup == "done"


# Beside the calls of others.


def beside(story: Story) -> int:
    """The model is ready, and a call of its warm-up runs. A request that was served."""
    request = story.get("a")
    assert order(story).warmup == "async"
    ready(story, warmup="waiting")
    warming(story)
    return request


def test_a_model_serves_while_its_warm_up_goes_on_and_says_when_it_is_done() -> None:
    story = Story(warm(mode=ASYNC))
    request = beside(story)
    assert isinstance(story.answers[request], Granted)
    assert (story.state("a"), shown(story).warmup) == (State.READY, "running")
    ended(story, warmup_s=2.0)
    assert shown(story).warmup == "done"
    assert shown(story).warmup_median_sec == 2.0
    assert len(notes(story, "warmed up")) == 1


def test_one_that_fails_finishes_its_calls_leaves_and_is_paused() -> None:
    story = Story(warm(mode=ASYNC))
    call = story.call(beside(story))
    ended(story, "warm-up: output is not finite (call 2 of 3)")
    assert story.state("a") is State.DRAINING
    late = story.get("a")
    refusal = story.answers[late]
    assert isinstance(refusal, LoadFailed)
    assert "not finite" in refusal.reason
    assert story.count(effects.StopWorker) == 0, "a call is in flight"
    story.end_call(call)
    story.answer_drain("a")
    assert story.state("a") is State.FAILED
    assert shown(story).warmup == "failed"
    assert story.count(effects.StopWorker) == 1
    story.exit("a")
    story.wait(2)
    assert story.get("a") not in story.answers, "it is tried again after its pause"


def test_calls_that_end_well_do_not_forgive_a_warm_up_that_has_not_ended() -> None:
    story = Story(warm(mode=ASYNC))
    story.core.world.find("a").failures = 3  # type: ignore[union-attr]
    story.end_call(story.call(beside(story)))
    assert story.core.world.models["a"].failures == 3


def test_one_that_hangs_is_ended_at_once_as_it_holds_up_all_calls() -> None:
    story = Story(warm(mode=ASYNC, timeout_s=10))
    story.call(beside(story))
    story.wait(11)
    assert story.state("a") is State.FAILED
    assert story.count(effects.StopWorker) == 1
    assert "warmup.timeout" in (shown(story).last_error or "")


def test_time_in_the_calls_of_others_is_not_its_time() -> None:
    story = Story(warm(mode=ASYNC, timeout_s=10))
    story.call(beside(story))
    story.wait(4)
    warming(story, call=2, runs=False, spent_s=4)
    story.wait(1000)
    assert story.state("a") is State.READY
    warming(story, call=2, spent_s=4)
    story.wait(5.9)
    assert story.state("a") is State.READY
    story.wait(0.2)
    assert story.state("a") is State.FAILED


def test_a_resident_whose_warm_up_failed_comes_back_after_its_pause() -> None:
    story = Story(warm(mode=ASYNC, tier=RESIDENT))
    ready(story, warmup="waiting")
    warming(story)
    ended(story, "warm-up: output is empty (call 1 of 3)")
    story.answer_drain("a")
    story.exit("a")
    assert story.count(effects.LoadObject) == 1
    story.wait(2)
    assert story.count(effects.LoadObject) == 2


def test_it_is_not_parked_while_its_warm_up_goes_on() -> None:
    story = Story(warm(mode=ASYNC, device=("gpu",), idle_timeout_s=10, idle_written=True), gpus_gib=[8])
    request = story.get("a")
    ready(story, warmup="waiting", parks=True)
    story.close(story.call(request))
    story.wait(11)
    story.answer_drain("a")
    assert story.count(effects.ParkObject) == 0


# Only where it is new.


def cold(story: Story) -> None:
    story.unload("a")
    if story.state("a") is State.DRAINING:
        story.answer_drain("a")
    story.exit("a")
    assert story.state("a") is State.COLD


def test_on_demand_what_was_warmed_up_is_told_by_the_version_of_its_runtime() -> None:
    story = Story(warm(mode=ON_DEMAND))
    story.load("a")
    assert (order(story).warmup, order(story).warmed_by) == ("on-demand", ())
    warming(story)
    ready(story)
    assert story.count(effects.WarmedUp) == 1
    cold(story)
    story.load("a")
    assert order(story).warmed_by == ("1.0",)
    ready(story, warmup="known")
    assert shown(story).warmup == "done"
    assert story.count(effects.WarmedUp) == 1


@pytest.mark.parametrize(
    "changed", [{"options": {"n": 2}}, {"warmup": Warmup(mode=ON_DEMAND, calls=2)}], ids=["options", "calls"]
)
def test_on_demand_another_version_or_other_calls_are_new(changed: dict[str, Any]) -> None:
    story = Story(warm(mode=ON_DEMAND))
    story.load("a")
    ready(story)
    cold(story)
    story.configure(spec("a", **{"warmup": Warmup(mode=ON_DEMAND, calls=3), **changed}))
    story.load("a")
    assert order(story).warmed_by == ()


def test_on_demand_a_warm_up_counts_as_what_it_was_begun_as_whatever_is_configured_when_it_ends() -> None:
    story = Story(warm(mode=ON_DEMAND))
    story.load("a")
    warming(story)
    story.configure(spec("a", warmup=Warmup(mode=ON_DEMAND, calls=2)))
    ready(story)
    cold(story)
    story.load("a")
    assert order(story).warmed_by == ()
    ready(story)
    cold(story)
    story.configure(warm(mode=ON_DEMAND))
    story.load("a")
    assert order(story).warmed_by == ("1.0",)


def test_on_demand_a_warm_up_that_was_made_before_its_worker_heard_that_it_is_to_end_counts() -> None:
    story = Story(warm(mode=ON_DEMAND))
    story.load("a")
    story.unload("a")
    warming(story)
    ready(story)
    assert story.state("a") is State.UNLOADING
    story.exit("a")
    story.load("a")
    assert order(story).warmed_by == ("1.0",)


def test_on_demand_what_an_earlier_manager_has_kept_counts() -> None:
    story = Story(warm(mode=ON_DEMAND))
    story.load("a")
    ready(story)
    (kept,) = [effect for effect in story.effects if isinstance(effect, effects.WarmedUp)]
    later = Story(warm(mode=ON_DEMAND))
    later.tell(events.Remembered(warmed={kept.subject: (kept.runtime,)}))
    later.load("a")
    assert order(later).warmed_by == ("1.0",)


# Another configuration.


def test_another_warm_up_disturbs_nothing_and_is_made_with_the_next_load() -> None:
    story = Story(warm())
    request = story.get("a")
    ready(story)
    story.call(request)
    story.configure(warm(mode=ASYNC))
    assert story.state("a") is State.READY
    assert shown(story).warmup == "done"
    assert story.count(effects.LoadObject) == 1
    story.end_call(request)
    cold(story)
    story.load("a")
    assert order(story).warmup == "async"


def test_a_warm_up_that_is_configured_during_a_load_is_not_made_in_it() -> None:
    story = Story(spec("a"))
    request = story.get("a")
    story.configure(warm())
    assert order(story).warmup == ""
    ready(story, warmup="")
    assert isinstance(story.answers[request], Granted)
    assert shown(story).warmup == "none"


def test_what_failed_by_a_warm_up_is_loaded_at_once_when_another_one_is_configured() -> None:
    story = Story(warm())
    story.get("a")
    warming(story)
    fail(story)
    story.configure(warm())
    assert isinstance(story.answers[story.get("a")], LoadFailed)
    story.configure(warm(mode=ASYNC))
    request = story.get("a")
    ready(story)
    assert isinstance(story.answers[request], Granted)


def test_what_failed_otherwise_is_paused_though_another_warm_up_is_configured() -> None:
    story = Story(warm())
    story.get("a")
    fail(story, "no such file")
    story.configure(warm(mode=ASYNC))
    assert isinstance(story.answers[story.get("a")], LoadFailed)


# Falling back.


def test_a_model_whose_warm_ups_fail_falls_back_to_sync_says_so_once_and_recovers() -> None:
    story = Story(warm(mode=ASYNC))
    call = story.call(beside(story))
    ended(story, "warm-up: output is empty (call 1 of 3)")
    story.end_call(call)
    story.answer_drain("a")
    story.exit("a")
    story.wait(2)
    assert "1 of the last 1 warm-ups failed" in shown(story).fell_back
    for _ in range(3):
        assert len(notes(story, "fell back")) == 1
        assert notes(story, "recovered") == []
        story.load("a")
        assert order(story).warmup == "sync"
        ready(story)
        cold(story)
    assert len(notes(story, "recovered")) == 1
    assert shown(story).fell_back is None
    story.load("a")
    assert order(story).warmup == "async"


def test_a_slow_load_falls_back_and_a_model_without_another_mode_does_not() -> None:
    story = Story(warm(mode=ON_DEMAND), spec("b"))
    for name in ("a", "b"):
        for seconds in (1, 1, 1, 4):
            story.load(name)
            story.ready(name, after=seconds)
            story.unload(name)
            story.answer_drain(name)
            story.exit(name)
    assert "a load took 4.0 s" in shown(story).fell_back
    assert shown(story, "b").fell_back is None
    assert shown(story, "b").load_median_sec == 1.0
    assert shown(story, "b").load_p95_sec == 4.0
    assert [note.model for note in notes(story, "fell back")] == ["a"]


def test_a_warm_up_does_not_make_a_load_slow() -> None:
    story = Story(warm(mode=ON_DEMAND))
    for seconds in (0, 0, 0, 50):
        story.load("a")
        story.wait(1)
        warming(story)
        story.wait(seconds)
        ready(story)
        cold(story)
    assert shown(story).fell_back is None
    assert shown(story).load_p95_sec == 1.0
    assert shown(story).last_load_sec == 51.0


def test_what_an_earlier_manager_knew_of_its_loads_holds_for_the_same_spec_alone() -> None:
    for identity, median in ((warm().identity, 7.0), ("another", None)):
        story = Story(warm())
        story.tell(events.Remembered(pasts={"a": (identity, Past(loads_s=(7.0,)))}))
        assert shown(story).load_median_sec == median
        assert shown(story).expected_load_sec == median


def recalled(spec: Any, **past: Any) -> Story:
    """A manager that has been told what an earlier one knew of the loads of `a`."""
    story = Story(spec)
    story.tell(events.Remembered(pasts={"a": (spec.identity, Past(**past))}))
    return story


@pytest.mark.parametrize(
    ("spec", "seconds"),
    [(warm(mode=SYNC), 9.0), (warm(mode=ASYNC), 7.0), (warm(mode=ON_DEMAND), 7.0), (spec("a"), 9.0)],
    ids=["sync", "async", "on-demand", "a warm-up of the model's own"],
)
def test_a_load_is_expected_to_take_what_it_took_for_an_earlier_manager_with_a_warm_up_that_is_waited_for(
    spec: Any, seconds: float
) -> None:
    story = recalled(spec, loads_s=(7.0, 6.0, 8.0), warmups_s=(2.0, 2.0))
    assert shown(story).expected_load_sec == seconds


def test_only_the_last_loads_of_an_earlier_manager_are_expected_again() -> None:
    story = recalled(spec("a"), loads_s=(90.0,) * 10 + (3.0,) * 5)
    assert shown(story).expected_load_sec == 3.0


def test_loads_of_this_manager_replace_those_of_an_earlier_one() -> None:
    story = recalled(spec("a"), loads_s=(9.0,) * 5)
    for _ in range(3):
        story.hot("a", after=2)
        cold(story)
    assert shown(story).expected_load_sec == pytest.approx(2.0)


def test_who_cannot_wait_is_told_how_long_a_load_takes_that_only_an_earlier_manager_has_seen() -> None:
    story = recalled(spec("a"), loads_s=(7.0,))
    request = story.get("a", deadline=story.now + 1)
    story.wait(2)
    refused = story.answers[request]
    assert isinstance(refused, Timeout)
    assert refused.expected_sec == pytest.approx(6.0)


# Found by another manager.


def found(story: Story, **fields: Any) -> None:
    """A worker of a killed manager with one object `a`."""
    object_ = events.ObjectReport(model="a", since=story.now - 5.0, load_s=2.0, **fields)
    report = events.WorkerReport(
        worker="w1",
        pid=7,
        started=story.now - 10.0,
        endpoint="/run/w1",
        memo={"model": "a", "identity": warm().identity, "booking": {"ram": 1 << 30}, "loads": {"a": 0}},
        objects=(object_,),
    )
    story.tell(events.HostFound(workers=(report,)))


def test_a_warm_up_that_is_found_goes_on_and_then_serves() -> None:
    story = Story(warm(), host=False)
    found(story, state="warming")
    assert (story.state("a"), shown(story).warmup) == (State.WARMING, "running")
    request = story.get("a")
    assert request not in story.answers
    ready(story)
    assert isinstance(story.answers[request], Granted)
    assert shown(story).load_median_sec == 2.0


def test_one_load_that_is_found_says_less_than_what_is_remembered() -> None:
    past = Past(loads_s=(7.0, 7.0, 7.0))
    remembered = events.Remembered(pasts={"a": (warm().identity, past)})
    for is_told_first in (True, False):
        story = Story(warm(), host=False)
        if is_told_first:
            story.tell(remembered)
        found(story, state="ready")
        assert shown(story).expected_load_sec == (7.0 if is_told_first else 2.0)
        story.tell(remembered)
        assert shown(story).expected_load_sec == 7.0


def test_a_warm_up_that_is_found_and_hangs_has_its_limit() -> None:
    story = Story(warm(timeout_s=10), host=False)
    found(story, state="warming")
    story.wait(11)
    assert story.state("a") is State.FAILED


@pytest.mark.parametrize(("told", "seen"), [("running", "running"), ("waiting", "running"), ("done", "done")])
def test_one_beside_calls_is_found_as_it_is(told: str, seen: str) -> None:
    story = Story(warm(mode=ASYNC, timeout_s=10), host=False)
    found(story, state="ready", warmup=told, runtime="1.0")
    assert (story.state("a"), shown(story).warmup) == (State.READY, seen)
    story.wait(11)
    assert story.state("a") is (State.FAILED if told == "running" else State.READY)


def test_one_that_failed_while_no_manager_was_there_leaves() -> None:
    story = Story(warm(mode=ASYNC), host=False)
    found(story, state="ready", warmup="failed", problem="warm-up: output is empty (call 1 of 3)")
    assert story.state("a") is State.DRAINING
    story.answer_drain("a")
    assert story.state("a") is State.FAILED
    assert "output is empty" in (shown(story).last_error or "")


def again(story: Story, **fields: Any) -> None:
    """The connection to the host broke, and the same manager finds its worker again."""
    worker = story.core.world.workers[story.worker("a")]
    told = events.ObjectReport(model="a", since=story.now, load_s=1.0, runtime="1.0", **fields)
    report = events.WorkerReport(
        worker=worker.id, pid=7, started=worker.started, endpoint="/run/w", memo={}, objects=(told,)
    )
    story.tell(events.HostAway())
    story.tell(events.HostFound(workers=(report,)))


def test_a_host_that_is_found_again_tells_how_far_a_warm_up_has_come() -> None:
    story = Story(warm())
    request = story.get("a")
    again(story, state="warming")
    assert story.state("a") is State.WARMING
    again(story, state="ready", warmup="done")
    assert isinstance(story.answers[request], Granted)
    assert shown(story).warmup == "done"


@pytest.mark.parametrize(("told", "state"), [("done", State.READY), ("failed", State.DRAINING)])
def test_the_end_of_a_warm_up_that_was_not_heard_is_heard_of_when_the_host_is_found_again(
    told: str, state: State
) -> None:
    story = Story(warm(mode=ASYNC, timeout_s=10))
    beside(story)
    again(story, state="ready", warmup=told, problem="warm-up: no" if told == "failed" else "")
    assert story.state("a") is state
    assert shown(story).warmup == told
    story.wait(11)  # longer than its limit, which has ended with it
    assert "warmup.timeout" not in (shown(story).last_error or "")


def test_an_unload_of_one_that_fails_meanwhile_is_answered_when_its_bytes_are_back() -> None:
    story = Story(warm(mode=ASYNC, timeout_s=10))
    story.call(beside(story))
    request = story.unload("a", timeout=60)
    story.wait(11)
    assert story.state("a") is State.FAILED
    assert request not in story.answers
    story.exit("a")
    assert isinstance(story.answers[request], Unloaded)
