"""Room: who leaves for whom, and how long anybody waits."""

from lazyd.core import answers, effects, events
from lazyd.core.lifecycle import State
from lazyd.core.spec import GIB, Settings

from .day import Day
from .story import RESIDENT, Story, spec


def test_the_least_recently_used_leaves_and_no_more_than_needed() -> None:
    story = Story(*map(spec, "abcd"), sizes={"a": 3, "b": 3, "c": 3, "d": 3})
    for name in "abc":
        story.hot(name)
        story.wait(10)
    story.get("d")
    assert [story.state(name) for name in "abc"] == [State.DRAINING, State.READY, State.READY]


def test_the_smallest_sufficient_set_leaves() -> None:
    story = Story(*map(spec, "abc"), sizes={"a": 1, "b": 6, "c": 7})
    story.hot("a")
    story.wait(10)
    story.hot("b")
    story.wait(10)
    story.get("c")
    assert story.state("a") is State.READY
    assert story.state("b") is State.DRAINING


def test_nothing_leaves_before_every_victim_has_drained() -> None:
    story = Story(*map(spec, "abc"), sizes={"a": 4, "b": 4, "c": 9})
    story.hot("a")
    story.hot("b")
    story.wait(10)
    request = story.get("c")
    story.answer_drain("a")
    assert story.state("a") is State.DRAINING
    story.answer_drain("b")
    assert story.state("a") is story.state("b") is State.UNLOADING
    story.exit("a", status=0)
    story.exit("b", status=0)
    story.ready("c")
    story.granted(request)


def test_a_plan_that_loses_a_victim_lets_the_others_serve_again() -> None:
    story = Story(*map(spec, "abc"), sizes={"a": 4, "b": 4, "c": 9})
    story.hot("a")
    call = story.get("b")
    story.ready("b")
    story.end_call(story.call(call))
    story.wait(10)
    story.get("c")
    story.answer_drain("a")
    story.tell(events.LeaseBusy(worker=story.worker("b"), lease=story.granted(call).lease))
    story.answer_drain("b", busy=True)
    assert story.state("a") is story.state("b") is State.READY
    assert story.count(effects.StopWorker) == 0


def test_a_plan_is_dropped_with_its_waiter() -> None:
    story = Story(*map(spec, "ab"), sizes={"a": 6, "b": 6})
    story.hot("a")
    story.wait(10)
    request = story.get("b")
    story.tell(events.Cancel(request=request))
    assert story.state("a") is State.READY


def test_nothing_is_evicted_for_a_load_that_cannot_happen() -> None:
    story = Story(*map(spec, "ab"), sizes={"a": 6, "b": 11})
    story.hot("a")
    story.wait(10)
    refused = story.answers[story.get("b")]
    assert isinstance(refused, answers.NoRoom)
    assert refused.reason == (
        "it needs 11.0 GiB of ram, whose budget is 10.0 GiB; "
        "10.0 GiB of ram can be had once all that may leave has left"
    )
    assert story.state("a") is State.READY


def test_a_refusal_names_what_is_kept() -> None:
    story = Story(spec("risk", tier=RESIDENT), spec("b"), sizes={"risk": 6, "b": 5})
    story.ready("risk")
    refused = story.answers[story.get("b")]
    assert isinstance(refused, answers.NoRoom)
    assert refused.reason == (
        "it needs 5.0 GiB of ram, whose budget is 10.0 GiB; risk holds 6.0 GiB and is resident; "
        "4.0 GiB of ram can be had"
    )
    assert (refused.needed_bytes, refused.free_bytes) == (5 * GIB, 4 * GIB)


def test_strangers_take_from_what_can_be_booked() -> None:
    story = Story(spec("a"), sizes={"a": 6})
    story.strangers["ram"] = 5 * GIB
    story.strangers_last()
    refused = story.answers[story.get("a")]
    assert isinstance(refused, answers.NoRoom)
    assert "other programs use 5.0 GiB" in refused.reason


def test_strangers_are_not_blamed_for_what_they_do_not_take() -> None:
    small = Settings(budget={"ram": 5 * GIB})
    story = Story(spec("kept", pin=True), spec("a"), sizes={"kept": 2, "a": 4}, settings=small)
    story.hot("kept")
    for _ in range(2):
        story.strangers["ram"] = 4 * GIB
        story.sample("ram")
    refused = story.answers[story.get("a")]
    assert isinstance(refused, answers.NoRoom)
    assert "kept holds 2.0 GiB" in refused.reason
    assert "other programs" not in refused.reason


def test_a_model_that_just_became_ready_serves_for_a_quantum() -> None:
    story = Story(*map(spec, "ab"), sizes={"a": 6, "b": 6})
    story.hot("a", after=4)  # its quantum is 2 x 4 s
    request = story.get("b", timeout=60)
    story.wait(7.5)
    assert story.state("a") is State.READY
    story.wait(0.5)
    assert story.state("a") is State.DRAINING
    assert request not in story.answers


def test_two_alternating_models_do_not_swap_at_every_request() -> None:
    story = Story(spec("a", min_residency_s=30.0), spec("b", min_residency_s=30.0), sizes={"a": 6, "b": 6})
    story.hot("a")
    story.get("b", timeout=120)
    for _ in range(10):
        story.hot("a")
        story.wait(2)
    assert story.count(effects.StartWorker) == 1


def test_requests_for_two_alternating_models_are_gathered_and_none_waits_beyond_the_bound() -> None:
    day = Day(spec("a"), spec("b"), sizes={"a": 6, "b": 6}, load_s=4.0)
    quantum_s, max_wait_s, release_s, seconds = 2 * day.load_s, 2.0, 0.1, 300
    for _ in range(seconds):
        for name in "ab":
            day.visit(name)
            day.wait(0.5)
    day.wait(60)
    turn_s = quantum_s + release_s + day.load_s
    assert day.count(effects.LoadObject) <= seconds / turn_s + 2
    assert len(day.waits) == 2 * seconds, "all are served"
    assert max(day.waits.values()) <= max_wait_s + turn_s + day.load_s


def test_a_waiter_past_its_max_wait_makes_a_busy_victim_drain() -> None:
    story = Story(spec("a"), spec("b", max_wait_s=5.0), sizes={"a": 6, "b": 6})
    call = story.get("a")
    story.ready("a")
    story.call(call)
    story.wait(10)
    story.get("b")
    story.wait(4)
    assert story.state("a") is State.READY
    story.wait(1)
    assert story.state("a") is State.DRAINING
    late = story.get("a")
    assert late not in story.answers
    story.end_call(call)
    story.answer_drain("a")
    story.exit("a", status=0)
    assert story.state("b") is State.LOADING


def test_a_held_lease_is_not_drained_until_its_time_is_over() -> None:
    story = Story(spec("a"), spec("b"), sizes={"a": 6, "b": 6})
    call = story.get("a", hold_s=60.0)
    story.ready("a")
    story.end_call(story.call(call))
    story.get("b", timeout=120)
    story.wait(59)
    assert story.state("a") is State.READY
    story.wait(2)
    assert story.state("a") is State.DRAINING


def test_a_fresh_lease_is_safe_until_its_first_call() -> None:
    story = Story(spec("a"), spec("b"), sizes={"a": 6, "b": 6})
    story.get("a")
    story.ready("a", after=0.1)
    story.get("b", timeout=60)
    story.wait(4.5)
    assert story.state("a") is State.READY
    story.wait(1)
    assert story.state("a") is State.DRAINING


def test_later_requests_do_not_take_the_bytes_that_an_overdue_one_waits_for() -> None:
    story = Story(spec("a"), spec("big", max_wait_s=1.0), spec("small"), sizes={"a": 6, "big": 8, "small": 3})
    call = story.get("a", hold_s=60.0)
    story.ready("a")
    story.call(call)
    story.get("big", timeout=100)
    story.wait(2)
    story.get("small", timeout=100)
    assert story.state("small") is State.COLD
    assert story.free_gib == 4


def test_a_request_that_fits_passes_one_that_does_not_yet() -> None:
    story = Story(spec("a"), spec("big", max_wait_s=30.0), spec("small"), sizes={"a": 6, "big": 8, "small": 3})
    call = story.get("a", hold_s=60.0)
    story.ready("a")
    story.call(call)
    story.get("big", timeout=100)
    story.get("small", timeout=100)
    assert story.state("small") is State.LOADING


def test_bytes_on_their_way_are_waited_for_rather_than_evicting_more() -> None:
    story = Story(*map(spec, "abc"), sizes={"a": 5, "b": 5, "c": 5})
    story.hot("a")
    story.hot("b")
    story.wait(10)
    story.unload("a")
    story.answer_drain("a")
    story.get("c")
    assert story.state("b") is State.READY
    story.exit("a", status=0)
    assert story.state("c") is State.LOADING


def test_a_load_that_nobody_waits_for_gives_way() -> None:
    story = Story(*map(spec, "ab"), sizes={"a": 6, "b": 6})
    first = story.get("a")
    story.tell(events.Cancel(request=first))
    assert story.state("a") is State.LOADING
    story.get("b")
    assert story.state("a") is State.UNLOADING


def test_a_pinned_model_is_never_evicted() -> None:
    story = Story(spec("a", pin=True), spec("b"), sizes={"a": 6, "b": 6})
    story.hot("a")
    story.wait(100)
    assert isinstance(story.answers[story.get("b")], answers.NoRoom)
    assert story.state("a") is State.READY


def test_growth_is_booked_and_nothing_is_admitted_on_it() -> None:
    story = Story(*map(spec, "ab"), sizes={"a": 3, "b": 6})
    call = story.get("a", hold_s=100.0)
    story.ready("a")
    story.call(call)
    story.tell(events.WorkerMeasured(worker=story.worker("a"), bytes_by_device={"ram": 5 * GIB}))
    assert story.free_gib == 5
    story.get("b", timeout=50)
    assert story.state("b") is State.COLD


def test_a_gpu_comes_before_ram_and_each_device_counts_alone() -> None:
    story = Story(spec("a"), spec("b"), gpus_gib=(8, 8), sizes={"a": 6, "b": 6})
    for number, name in enumerate("ab"):
        story.get(name)
        assert story.devices_of(name) == [f"gpu{number}", "ram"]


def test_a_model_that_names_a_device_goes_nowhere_else() -> None:
    story = Story(spec("a", device=("gpu7",)))
    refused = story.answers[story.get("a")]
    assert isinstance(refused, answers.NoRoom)
    assert refused.device == "gpu7"


def test_a_family_keeps_max_loaded_objects_in_one_worker_and_the_oldest_leaves() -> None:
    story = Story(spec("strategy/*", max_loaded=2))
    for name in ("alpha", "beta"):
        story.hot(f"strategy/{name}")
        story.wait(10)
    assert story.worker("strategy/alpha") == story.worker("strategy/beta")
    request = story.get("strategy/gamma")
    story.answer_drain("strategy/alpha")
    assert story.effects[-1] == effects.UnloadObject(worker=story.worker("strategy/beta"), model="strategy/alpha")
    story.tell(events.ObjectUnloaded(worker=story.worker("strategy/beta"), model="strategy/alpha"))
    story.ready("strategy/gamma")
    story.granted(request)
    assert story.count(effects.StartWorker) == 1


def test_the_worker_of_an_empty_family_exits() -> None:
    story = Story(spec("strategy/*", idle_timeout_s=60.0))
    story.hot("strategy/alpha")
    worker = story.worker("strategy/alpha")
    story.wait(60)
    story.answer_drain("strategy/alpha")
    assert story.effects[-1] == effects.StopWorker(worker=worker, grace_s=5.0)


def test_a_pin_that_comes_during_an_eviction_is_kept() -> None:
    story = Story(*map(spec, "ab"), sizes={"a": 6, "b": 6})
    story.hot("a")
    story.wait(10)
    request = story.get("b")
    assert story.state("a") is State.DRAINING
    assert story.answers[story.pin("a")] == answers.Done()
    assert story.state("a") is State.READY
    assert isinstance(story.answers[request], answers.NoRoom)


def test_an_object_that_failed_keeps_its_place_until_it_is_gone() -> None:
    story = Story(spec("strategy/*", max_loaded=2, load_timeout_s=10.0))
    story.hot("strategy/alpha")
    story.get("strategy/stuck")
    story.wait(11)
    assert story.state("strategy/stuck") is State.FAILED
    worker = story.worker("strategy/alpha")
    story.wait(20)
    story.get("strategy/beta", timeout=100)
    assert story.state("strategy/beta") is State.COLD, "alpha drains for it, or stuck goes"
    story.tell(events.ObjectUnloaded(worker=worker, model="strategy/stuck"))
    assert story.state("strategy/beta") is State.LOADING


def test_cold_starts_beyond_what_fits_queue_and_none_is_refused() -> None:
    story = Story(*map(spec, "abcd"), sizes=dict.fromkeys("abcd", 6.0))
    requests = [story.get(name, timeout=600) for name in "abcd"]
    for name in "abcd":
        story.ready(name, after=0.1)
        story.wait(6)  # nobody uses the lease
        if name != "d":
            story.answer_drain(name)
            story.exit(name, status=0)
    for request in requests:
        story.granted(request)


def test_a_resident_that_is_new_waits_like_everybody_before_it_disturbs_a_call() -> None:
    story = Story(spec("a"), sizes={"a": 6, "r": 6})
    request = story.get("a")
    story.ready("a")
    story.call(request)
    story.wait(30)
    story.configure(spec("a"), spec("r", tier=RESIDENT, max_wait_s=2.0))
    assert story.state("a") is State.READY
    story.wait(2.1)
    assert story.state("a") is State.DRAINING


def test_that_a_resident_has_no_room_is_noted_once_whatever_the_sizes() -> None:
    story = Story(gpus_gib=[22], sizes={"v": 15})
    story.strangers["gpu0"] = 10 * GIB
    story.sample("gpu0")
    story.configure(spec("v", tier=RESIDENT, device=("gpu",)))
    for number in range(5):
        story.strangers["gpu0"] = 10 * GIB + number * GIB // 8
        story.wait(1)
        story.sample("gpu0")
    notes = [effect for effect in story.effects if isinstance(effect, effects.Note)]
    assert [note.model for note in notes if note.kind == "no room"] == ["v"]


def test_nobody_is_refused_on_old_news() -> None:
    """At rest a GPU is looked at rarely. Who used it may have gone meanwhile."""
    story = Story(spec("a", device=("gpu",)), gpus_gib=[22], sizes={"a": 12})
    story.strangers["gpu0"] = 20 * GIB
    for _ in range(2):
        story.wait(15)
        story.sample("gpu0")
    story.strangers.clear()
    story.wait(10)
    story.get("a")
    assert story.state("a") is State.LOADING


def test_on_a_driver_that_does_not_answer_one_is_refused_on_what_was_seen_last() -> None:
    story = Story(spec("a", device=("gpu",)), gpus_gib=[22], sizes={"a": 12})
    story.strangers["gpu0"] = 20 * GIB
    for _ in range(2):
        story.wait(15)
        story.sample("gpu0")
    story.silent = {"gpu0"}
    story.wait(10)
    request = story.get("a", timeout=60)
    assert request not in story.answers
    story.wait(1)
    assert isinstance(story.answers[request], answers.NoRoom)


def test_a_process_that_does_not_end_is_not_waited_for_while_an_idle_model_could_leave() -> None:
    gpu = ("gpu",)
    specs = [spec(name, device=gpu) for name in "abc"]
    story = Story(*specs, gpus_gib=[22], sizes=dict.fromkeys("abc", 10))
    story.hot("a")
    story.hot("b")
    story.wait(60)
    story.unload("a")
    story.answer_drain("a")  # its process has the device open, and is not gone for SIGKILL
    story.get("c", timeout=120)
    assert story.state("b") is State.READY
    story.wait(11)
    assert story.state("b") is State.DRAINING
    assert any(effect.kind == "stuck" for effect in story.effects if isinstance(effect, effects.Note))


def test_nobody_leaves_for_a_resident_that_has_been_refused() -> None:
    story = Story(spec("a", device=("gpu",)), gpus_gib=[22], sizes={"a": 12, "r": 15})
    story.hot("a")
    story.wait(60)
    story.configure(spec("a", device=("gpu",)), spec("r", tier=RESIDENT, device=("gpu",)))
    assert story.state("a") is State.DRAINING
    story.strangers["gpu0"] = 8 * GIB
    for _ in range(2):
        story.sample("gpu0")
    assert story.state("a") is State.READY


def test_a_member_joins_no_worker_on_a_device_that_holds_more_than_it_may() -> None:
    story = Story(spec("s/*"), spec("other"), sizes={"s/x": 4, "other": 4})
    story.hot("other")
    story.hot("s/x")
    story.wait(60)
    story.tell(events.WorkerMeasured(worker=story.worker("s/x"), bytes_by_device={"ram": 7 * GIB}))
    request = story.get("s/y", timeout=60)
    assert story.state("other") is State.DRAINING
    assert story.state("s/y") is State.COLD
    story.answer_drain("other")
    story.exit("other", status=0)
    story.ready("s/y")
    assert story.granted(request)


def test_on_each_gpu_a_plan_may_wait_for_what_is_busy() -> None:
    specs = [spec(name, device=(gpu,)) for name, gpu in zip("abcd", ["gpu0", "gpu1"] * 2, strict=True)]
    story = Story(*specs, gpus_gib=[10, 10], ram_gib=40, sizes=dict.fromkeys("abcd", 8))
    for name in "ab":
        request = story.get(name)
        story.ready(name)
        story.call(request)
    story.get("c", timeout=60)
    story.get("d", timeout=60)
    story.wait(5)
    assert [story.state(name) for name in "ab"] == [State.DRAINING, State.DRAINING]
