"""How a model comes: one load, all are answered, and failures are met with patience."""

import pytest

from lazyd.core import answers, effects, events
from lazyd.core.failure import pause_s
from lazyd.core.lifecycle import IllegalTransition, State, step

from .story import RESIDENT, Story, spec


def test_four_first_requests_at_once_make_one_load_and_all_are_answered() -> None:
    story = Story(spec("gemma"))
    requests = [story.get("gemma") for _ in range(4)]
    story.ready("gemma")
    assert story.count(effects.StartWorker) == story.count(effects.LoadObject) == 1
    tokens = {story.granted(request).token for request in requests}
    assert len(tokens) == 4
    assert all(story.granted(request).cold_start for request in requests)


def test_memory_is_booked_before_the_worker_exists() -> None:
    story = Story(spec("gemma"), sizes={"gemma": 4})
    story.get("gemma")
    assert story.free_gib == 6
    assert story.state("gemma") is State.LOADING


def test_a_second_load_counts_the_one_under_way() -> None:
    story = Story(spec("a"), spec("b"), sizes={"a": 6, "b": 6})
    story.get("a")
    story.get("b")
    assert story.count(effects.StartWorker) == 1


def test_the_load_goes_on_when_its_first_client_leaves() -> None:
    story = Story(spec("gemma"))
    first, second = story.get("gemma"), story.get("gemma")
    story.tell(events.Cancel(request=first))
    story.ready("gemma")
    assert first not in story.answers
    story.granted(second)


def test_the_load_goes_on_when_nobody_waits_any_more() -> None:
    story = Story(spec("gemma"))
    request = story.get("gemma", timeout=5)
    story.wait(6)
    assert isinstance(story.answers[request], answers.Timeout)
    story.ready("gemma", after=2)
    assert story.state("gemma") is State.READY
    assert story.granted(story.get("gemma")).cold_start is False


def test_a_hot_model_answers_at_once_and_names_the_worker() -> None:
    story = Story(spec("gemma"))
    story.hot("gemma")
    granted = story.granted(story.get("gemma"))
    assert granted.worker == story.worker("gemma")
    assert granted.waited_s == 0
    assert granted.cold_start is False


def test_a_caller_without_a_deadline_waits_for_the_first_call_timeout() -> None:
    story = Story(spec("gemma", load_timeout_s=None))
    request = story.get("gemma")
    story.wait(299)
    assert request not in story.answers
    story.wait(2)
    timeout = story.answers[request]
    assert isinstance(timeout, answers.Timeout)
    assert timeout.timeout_sec == 300


def test_a_timeout_names_the_phase_of_the_load() -> None:
    story = Story(spec("gemma"))
    request = story.get("gemma", timeout=5)
    story.tell(events.LoadProgress(worker=story.worker("gemma"), model="gemma", phase="weights", fraction=0.4))
    story.wait(6)
    assert story.answers[request] == answers.Timeout(model="gemma", phase="weights", timeout_sec=5, expected_sec=7.5)


def test_a_load_without_progress_fails_and_one_with_progress_does_not() -> None:
    story = Story(spec("slow", load_timeout_s=10.0))
    request = story.get("slow")
    for _ in range(5):
        story.wait(8)
        story.tell(events.LoadProgress(worker=story.worker("slow"), model="slow", phase="weights", fraction=0.1))
    assert story.state("slow") is State.LOADING
    story.wait(11)
    failed = story.answers[request]
    assert isinstance(failed, answers.LoadFailed)
    assert "no progress for 10 s while weights" in failed.reason


def test_a_failing_model_is_paused_longer_each_time_and_says_when_it_is_tried_again() -> None:
    story = Story(spec("bad"))
    for failures in range(1, 4):
        request = story.get("bad")
        story.tell(events.ObjectFailed(worker=story.worker("bad"), model="bad", reason="no such file"))
        failed = story.answers[request]
        assert failed == answers.LoadFailed(model="bad", reason="no such file", retry_after_sec=2.0 ** (failures - 1))
        story.exit("bad", status=0)
        again = story.answers[story.get("bad")]
        assert isinstance(again, answers.LoadFailed)
        story.wait(2.0 ** (failures - 1))
    assert story.count(effects.StartWorker) == 3


def test_the_pause_ends_at_five_minutes() -> None:
    assert [pause_s(n) for n in (0, 1, 2, 3, 9, 10, 1000)] == [0, 1, 2, 4, 256, 300, 300]


def test_a_model_that_failed_is_tried_again_after_its_pause() -> None:
    story = Story(spec("bad"))
    story.get("bad")
    story.tell(events.ObjectFailed(worker=story.worker("bad"), model="bad", reason="busy disk"))
    story.exit("bad")
    story.wait(1.5)
    request = story.get("bad")
    story.ready("bad")
    story.granted(request)


def test_a_missing_file_fails_without_a_worker() -> None:
    story = Story(spec("ghost"))
    story.core.handle(events.Get(request=7, model="ghost", holder=0), story.now)
    unpredictable = events.Unpredictable(model="ghost", number=1, reason="no file x.gguf")
    found = story.core.handle(unpredictable, story.now)
    assert (
        effects.Answer(
            request=7, outcome=answers.LoadFailed(model="ghost", reason="no file x.gguf", retry_after_sec=1.0)
        )
        in found
    )
    assert story.count(effects.StartWorker) == 0


def test_a_worker_that_dies_while_loading_pauses_the_model() -> None:
    story = Story(spec("bad"))
    request = story.get("bad")
    story.exit("bad", signal=9, log="loading\nterminate called\n")
    failed = story.answers[request]
    assert isinstance(failed, answers.LoadFailed)
    assert failed.reason == "the worker was killed by signal 9: terminate called"
    assert story.state("bad") is State.FAILED


def test_a_worker_that_dies_while_ready_leaves_the_model_cold_and_the_next_request_loads_it() -> None:
    story = Story(spec("gemma"))
    story.hot("gemma")
    story.exit("gemma", signal=11)
    assert story.state("gemma") is State.COLD
    request = story.get("gemma")
    story.ready("gemma")
    story.granted(request)


def test_a_worker_that_dies_twice_in_a_row_pauses_the_model() -> None:
    story = Story(spec("gemma"))
    for expected in (State.COLD, State.FAILED):
        story.get("gemma")
        story.ready("gemma")
        story.exit("gemma", signal=11)
        assert story.state("gemma") is expected


def test_a_call_that_ended_well_forgives_an_earlier_death() -> None:
    story = Story(spec("gemma"))
    for _ in range(3):
        story.hot("gemma")
        story.exit("gemma", signal=11)
        assert story.state("gemma") is State.COLD


def test_the_reason_of_a_segfault_names_the_fault_and_not_where_the_last_thread_was() -> None:
    story = Story(spec("gemma"))
    story.get("gemma")
    dump = 'Thread 0x1 (most recent call first):\n  File "boot.py", line 41 in <module>\n'
    story.exit("gemma", signal=11, log=f"loading\nFatal Python error: Segmentation fault\n\n{dump}")
    error = story.core.world.models["gemma"].last_error
    assert error == "the worker was killed by signal 11: Fatal Python error: Segmentation fault"


def test_a_lease_of_a_dead_worker_tells_how_it_died_for_a_minute() -> None:
    story = Story(spec("gemma"))
    request = story.get("gemma")
    story.ready("gemma")
    lease = story.granted(request).lease
    story.exit("gemma", signal=9, log="boom")
    story.tell(events.Release(request=90, lease=lease, holder=1000))
    assert story.answers[90] == answers.WorkerDied(model="gemma", signal=9, log="boom")
    story.wait(61)
    story.tell(events.Release(request=91, lease=lease, holder=1000))
    assert story.answers[91] == answers.NoSuchLease(lease=lease)


def test_residents_load_without_being_asked_and_come_back_after_a_crash() -> None:
    story = Story(spec("risk", tier=RESIDENT))
    story.ready("risk")
    assert story.state("risk") is State.READY
    story.exit("risk", signal=6)
    assert story.state("risk") is State.LOADING


def test_a_resident_that_fails_is_tried_again_after_its_pause() -> None:
    story = Story(spec("risk", tier=RESIDENT))
    story.exit("risk", status=1)
    assert story.state("risk") is State.FAILED
    story.wait(1.0)
    assert story.state("risk") is State.LOADING


def test_loads_wait_for_the_host() -> None:
    story = Story(spec("gemma"), host=False)
    request = story.get("gemma")
    assert story.count(effects.StartWorker) == 0
    story.tell(events.HostFound())
    story.ready("gemma")
    story.granted(request)


def test_who_waits_when_the_host_dies_is_served_by_the_next_one() -> None:
    story = Story(spec("gemma"))
    request = story.get("gemma")
    story.tell(events.HostLost())
    assert story.state("gemma") is State.COLD
    story.tell(events.HostFound())
    story.ready("gemma")
    story.granted(request)


def test_an_unknown_model_names_the_nearest() -> None:
    story = Story(spec("gemma"))
    assert story.answers[story.get("gema")] == answers.ModelNotFound(model="gema", nearest="gemma")


def test_a_step_that_the_table_does_not_have_is_a_bug() -> None:
    with pytest.raises(IllegalTransition):
        step(State.COLD, State.READY)


def test_residents_are_loaded_in_the_order_of_their_priority_those_of_the_same_together() -> None:
    first, both = spec("first", tier=RESIDENT, priority=5), [spec(n, tier=RESIDENT, priority=1) for n in ("b", "c")]
    story = Story(spec("last", tier=RESIDENT), *both, first)
    assert [name for name in ("first", "b", "c", "last") if story.state(name) is State.LOADING] == ["first"]
    story.ready("first")
    assert [name for name in ("b", "c", "last") if story.state(name) is State.LOADING] == ["b", "c"]
    story.ready("b")
    assert story.state("last") is State.COLD
    story.ready("c")
    assert story.state("last") is State.LOADING


def test_a_resident_that_somebody_asks_for_does_not_wait_for_others() -> None:
    story = Story(spec("first", tier=RESIDENT, priority=5), spec("last", tier=RESIDENT))
    story.get("last")
    assert story.state("last") is State.LOADING


def test_a_resident_that_fails_or_has_no_room_keeps_no_other_from_loading() -> None:
    broken, large = spec("broken", tier=RESIDENT, priority=5), spec("large", tier=RESIDENT, priority=3)
    story = Story(broken, large, spec("last", tier=RESIDENT), sizes={"large": 40})
    story.tell(events.ObjectFailed(worker=story.worker("broken"), model="broken", reason="no such file"))
    assert story.state("large") is State.COLD
    assert story.state("last") is State.LOADING
