"""How a model goes: idle, asked, or replaced; never out of somebody's hands."""

from lazyd.core import answers, effects, events
from lazyd.core.lifecycle import State
from lazyd.core.lives import ANSWER_S
from lazyd.core.records import FRESH_LEASE_S
from lazyd.core.why import why

from .story import RESIDENT, TRANSIENT, Story, spec


def test_an_idle_model_is_freed_after_its_time_and_the_daemon_stays() -> None:
    story = Story(spec("gemma", idle_timeout_s=60.0))
    story.hot("gemma")
    story.wait(59)
    assert story.state("gemma") is State.READY
    story.wait(1)
    assert story.state("gemma") is State.DRAINING
    story.answer_drain("gemma")
    assert story.state("gemma") is State.UNLOADING
    story.exit("gemma", status=0)
    assert story.state("gemma") is State.COLD
    assert story.free_gib == 10


def test_a_use_starts_the_idle_time_anew() -> None:
    story = Story(spec("gemma", idle_timeout_s=60.0))
    story.hot("gemma")
    story.wait(59)
    story.hot("gemma")
    story.wait(59)
    assert story.state("gemma") is State.READY
    story.wait(1)
    assert story.state("gemma") is State.DRAINING


def test_an_idle_connection_does_not_pin_a_model() -> None:
    story = Story(spec("gemma", idle_timeout_s=60.0))
    request = story.get("gemma")
    story.ready("gemma")
    story.end_call(story.call(request))
    story.wait(60)
    assert story.state("gemma") is State.DRAINING


def test_a_call_in_flight_protects_the_model_however_long_it_takes() -> None:
    story = Story(spec("gemma", idle_timeout_s=60.0))
    request = story.get("gemma")
    story.ready("gemma")
    story.call(request)
    story.wait(3600)
    assert story.state("gemma") is State.READY
    story.end_call(request)
    story.wait(60)
    assert story.state("gemma") is State.DRAINING


def test_a_request_that_meets_an_idle_drain_rescues_the_model() -> None:
    story = Story(spec("gemma", idle_timeout_s=60.0))
    story.hot("gemma")
    story.wait(60)
    request = story.get("gemma")
    assert story.granted(request).cold_start is False
    assert story.count(effects.Resume) == 1
    assert story.state("gemma") is State.READY


def test_an_answer_that_crossed_a_rescue_changes_nothing() -> None:
    story = Story(spec("gemma", idle_timeout_s=60.0))
    story.hot("gemma")
    story.wait(60)
    story.get("gemma")
    story.tell(events.Drained(worker=story.worker("gemma"), model="gemma", drain=1))
    assert story.state("gemma") is State.READY


def test_a_worker_that_is_busy_after_all_serves_on() -> None:
    story = Story(spec("gemma", idle_timeout_s=60.0))
    story.hot("gemma")
    story.wait(60)
    story.answer_drain("gemma", busy=True)
    assert story.state("gemma") is State.READY
    story.wait(60)
    assert story.state("gemma") is State.DRAINING


def test_a_lease_that_nobody_presents_ends_after_30_seconds() -> None:
    story = Story(spec("gemma"))
    request = story.get("gemma")
    story.ready("gemma")
    story.wait(31)
    assert story.count(effects.Withdraw) == 1
    story.tell(events.Release(request=99, lease=story.granted(request).lease, holder=1000))
    assert isinstance(story.answers[99], answers.NoSuchLease)


def test_a_transient_model_leaves_with_its_last_lease() -> None:
    story = Story(spec("backtest", tier=TRANSIENT))
    first, second = story.get("backtest"), story.get("backtest")
    story.ready("backtest")
    for request in (first, second):
        story.end_call(story.call(request))
    story.close(first)
    assert story.state("backtest") is State.READY
    story.close(second)
    assert story.state("backtest") is State.DRAINING


def test_a_transient_model_that_was_only_loaded_waits_for_its_idle_time() -> None:
    story = Story(spec("backtest", tier=TRANSIENT, idle_timeout_s=60.0))
    story.load("backtest")
    story.ready("backtest")
    story.wait(59)
    assert story.state("backtest") is State.READY
    story.wait(1)
    assert story.state("backtest") is State.DRAINING


def test_a_pinned_model_is_never_idle() -> None:
    story = Story(spec("gemma", idle_timeout_s=60.0))
    story.hot("gemma")
    assert story.answers[story.pin("gemma")] == answers.Done()
    story.wait(3600)
    assert story.state("gemma") is State.READY
    story.pin("gemma", pinned=False)
    assert story.state("gemma") is State.DRAINING


def test_pins_and_residents_hold_at_most_their_part_of_a_device() -> None:
    story = Story(spec("a"), spec("b"), sizes={"a": 4, "b": 4})
    story.hot("a")
    story.hot("b")
    assert story.answers[story.pin("a")] == answers.Done()
    refused = story.answers[story.pin("b")]
    assert isinstance(refused, answers.NoRoom)
    assert "max_pinned" in refused.reason


def test_only_the_holder_may_release_a_lease() -> None:
    story = Story(spec("gemma"))
    request = story.get("gemma", holder=1000)
    story.ready("gemma")
    story.tell(events.Release(request=99, lease=story.granted(request).lease, holder=1001))
    assert isinstance(story.answers[99], answers.PermissionDenied)


def test_unload_frees_even_a_pinned_resident_which_stays_cold_until_asked_for() -> None:
    story = Story(spec("risk", tier=RESIDENT, pin=True))
    story.ready("risk")
    request = story.unload("risk")
    story.answer_drain("risk")
    assert request not in story.answers
    story.exit("risk", status=0)
    assert story.answers[request] == answers.Unloaded(unloaded=("risk",))
    story.wait(3600)
    assert story.state("risk") is State.COLD
    story.get("risk")
    assert story.state("risk") is State.LOADING


def test_unload_all_leaves_pinned_and_resident_models_alone_unless_forced() -> None:
    story = Story(spec("risk", tier=RESIDENT), spec("gemma"))
    story.ready("risk")
    story.hot("gemma")
    story.unload(all=True)
    assert story.state("risk") is State.READY
    assert story.state("gemma") is State.DRAINING
    story.unload(all=True, force=True)
    assert story.state("risk") is State.UNLOADING


def test_unload_idle_leaves_busy_models_alone() -> None:
    story = Story(spec("a"), spec("b"))
    story.hot("a")
    request = story.get("b")
    story.ready("b")
    story.call(request)
    story.wait(10)
    story.unload(idle=True)
    assert story.state("a") is State.DRAINING
    assert story.state("b") is State.READY


def test_unload_of_a_model_that_a_client_holds_says_busy_and_who_keeps_it() -> None:
    story = Story(spec("a"))
    story.get("a", hold_s=290)
    story.ready("a")
    story.wait(50)
    assert any(
        "a client holds it for 4 min more" in clause for clause in why(story.core.world, story.core.world.models["a"])
    )
    request = story.unload("a", timeout=40)
    story.wait(41)
    outcome = story.answers[request]
    assert isinstance(outcome, answers.Busy)
    assert (outcome.in_flight, outcome.reason) == (0, "a client holds it for 3 min more")
    assert story.state("a") is State.READY
    forced = story.unload("a", timeout=40, force=True)
    story.exit("a", status=0)
    assert story.answers[forced] == answers.Unloaded(unloaded=("a",))


def test_an_unload_that_takes_too_long_says_what_time_it_had() -> None:
    story = Story(spec("a"))
    story.hot("a")
    request = story.unload("a", timeout=3)
    story.wait(4)
    outcome = story.answers[request]
    assert isinstance(outcome, answers.Timeout)
    assert outcome.timeout_sec == 3


def test_unload_of_a_busy_model_gives_up_at_its_deadline_and_it_serves_again() -> None:
    story = Story(spec("gemma"))
    call = story.get("gemma")
    story.ready("gemma")
    story.call(call)
    request = story.unload("gemma", timeout=30)
    waiting = story.get("gemma")
    story.wait(31)
    assert story.answers[request] == answers.Busy(model="gemma", in_flight=1)
    assert story.state("gemma") is State.READY
    story.granted(waiting)


def test_force_ends_calls() -> None:
    story = Story(spec("gemma"))
    call = story.get("gemma")
    story.ready("gemma")
    story.call(call)
    story.unload("gemma", force=True)
    assert story.state("gemma") is State.UNLOADING
    assert story.effects[-1] == effects.StopWorker(worker=story.worker("gemma"), grace_s=0.0)


def test_unload_ends_a_load_and_tells_those_who_waited() -> None:
    story = Story(spec("gemma"))
    waiting = story.get("gemma")
    request = story.unload("gemma")
    assert story.answers[waiting] == answers.Cancelled(model="gemma")
    story.exit("gemma", status=0)
    assert story.answers[request] == answers.Unloaded(unloaded=("gemma",))


def test_unloading_what_is_cold_is_fine() -> None:
    story = Story(spec("gemma"))
    assert story.answers[story.unload("gemma")] == answers.Unloaded(unloaded=())


def test_unload_makes_a_failed_model_try_again() -> None:
    story = Story(spec("bad"))
    story.get("bad")
    story.exit("bad", status=1)
    story.unload("bad")
    story.get("bad")
    assert story.state("bad") is State.LOADING


def test_a_request_during_an_unload_loads_again_beside_the_dying_worker() -> None:
    story = Story(spec("gemma"))
    story.hot("gemma")
    story.unload("gemma")
    story.answer_drain("gemma")
    old = story.worker("gemma")
    request = story.get("gemma")
    assert story.state("gemma") is State.LOADING
    assert story.worker("gemma") != old
    story.tell(events.WorkerExited(worker=old, status=0))
    story.ready("gemma")
    story.granted(request)


def test_an_unload_waits_for_the_life_before_too_if_that_is_still_leaving() -> None:
    story = Story(spec("gemma"))
    story.hot("gemma")
    story.unload("gemma")
    story.answer_drain("gemma")
    old = story.worker("gemma")
    story.get("gemma")
    request = story.unload("gemma")
    story.exit("gemma", status=0)
    assert request not in story.answers
    story.tell(events.WorkerExited(worker=old, status=0))
    assert story.answers[request] == answers.Unloaded(unloaded=("gemma",))


def test_bytes_stay_booked_until_the_worker_is_seen_to_be_gone() -> None:
    story = Story(spec("a"), spec("b"), sizes={"a": 6, "b": 6})
    story.hot("a")
    story.unload("a")
    story.answer_drain("a")
    story.get("b")
    assert story.state("b") is State.COLD
    story.exit("a", status=0)
    assert story.state("b") is State.LOADING


def test_only_a_model_that_changed_is_replaced_and_its_calls_end_first() -> None:
    story = Story(spec("a"), spec("b"))
    story.hot("a")
    call = story.get("b")
    story.ready("b")
    story.call(call)
    story.configure(spec("a"), spec("b", options={"n": 2}))
    assert story.state("a") is State.READY
    assert story.state("b") is State.DRAINING
    request = story.get("b")
    story.end_call(call)
    story.answer_drain("b")
    story.tell(events.WorkerExited(worker=story.granted(call).worker, status=0))
    story.ready("b")
    story.granted(request)


def test_a_change_of_policy_disturbs_nothing() -> None:
    story = Story(spec("a", idle_timeout_s=600.0))
    story.hot("a")
    story.configure(spec("a", idle_timeout_s=10.0))
    assert story.state("a") is State.READY
    story.wait(10)
    assert story.state("a") is State.DRAINING


def test_a_model_no_longer_configured_leaves_and_is_forgotten() -> None:
    story = Story(spec("a"), spec("b"))
    story.hot("a")
    story.configure(spec("b"))
    story.answer_drain("a")
    story.exit("a", status=0)
    assert isinstance(story.answers[story.get("a")], answers.ModelNotFound)
    assert "a" not in story.core.world.models


def test_a_stop_answers_waiters_drains_calls_and_ends_them_at_its_deadline() -> None:
    story = Story(spec("a"), spec("b"))
    call = story.get("a")
    story.ready("a")
    story.call(call)
    waiting = story.get("b")
    story.tell(events.Stop(deadline=story.now + 10))
    assert story.answers[waiting] == answers.ShuttingDown()
    assert story.state("a") is State.DRAINING
    assert story.answers[story.get("a")] == answers.ShuttingDown()
    story.wait(10)
    assert story.state("a") is State.UNLOADING


def test_a_worker_that_does_not_answer_is_ended_and_does_not_hold_up_others() -> None:
    story = Story(spec("hung"), spec("b"), sizes={"hung": 6, "b": 6})
    story.hot("hung")
    story.wait(10)
    request = story.get("b", timeout=60)
    story.wait(4)
    assert story.state("hung") is State.DRAINING
    story.wait(2)
    assert story.state("hung") is State.UNLOADING
    story.exit("hung", signal=9)
    story.ready("b")
    story.granted(request)


def test_a_drain_that_waits_for_a_call_is_not_taken_for_silence() -> None:
    story = Story(spec("gemma"))
    call = story.get("gemma")
    story.ready("gemma")
    story.call(call)
    story.unload("gemma", timeout=30)
    story.wait(29)
    assert story.state("gemma") is State.DRAINING
    story.wait(2)
    assert story.state("gemma") is State.READY


def test_a_worker_has_its_time_to_answer_from_when_a_new_lease_may_be_revoked() -> None:
    """It answers no earlier, as the client may be about to call."""
    story = Story(spec("gemma"))
    story.get("gemma")
    story.ready("gemma")
    story.unload("gemma", timeout=60)
    story.wait(FRESH_LEASE_S + ANSWER_S - 1)
    assert story.state("gemma") is State.DRAINING
    story.wait(2)
    assert story.state("gemma") is State.UNLOADING
