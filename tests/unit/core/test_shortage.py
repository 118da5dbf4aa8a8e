"""Out of memory: told apart, learned from, tried once more, then refused."""

from lazyd.core import answers, effects, events
from lazyd.core.lifecycle import State
from lazyd.core.needs import Forecast, Need
from lazyd.core.spec import GIB, Settings

from .story import Story, spec

NO_MARGIN = Settings(budget={}, gpu_margin_bytes=0)


def loading() -> tuple[Story, int]:
    story = Story(spec("a", device=("gpu0",)), gpus_gib=(10,), sizes={"a": 4}, settings=NO_MARGIN)
    request = story.get("a", timeout=100)
    story.wait(1)
    return story, request


def runs_out(story: Story) -> None:
    worker = story.worker("a")
    story.tell(events.ObjectFailed(worker=worker, model="a", reason="CUDA error: out of memory", out_of_memory=True))
    story.tell(events.WorkerExited(worker=worker, status=0))


def learned(story: Story) -> list[effects.Learn]:
    return [effect for effect in story.effects if isinstance(effect, effects.Learn)]


def test_a_load_that_runs_out_of_memory_is_tried_once_more() -> None:
    story, request = loading()
    runs_out(story)
    assert story.state("a") is State.LOADING
    assert story.count(effects.StartWorker) == 2
    story.ready("a")
    assert story.granted(request)


def test_the_second_time_it_is_refused_clearly_and_pauses() -> None:
    story, request = loading()
    runs_out(story)
    runs_out(story)
    refused = story.answers[request]
    assert isinstance(refused, answers.NoRoom)
    assert refused.reason == "it ran out of memory twice: CUDA error: out of memory"
    assert story.state("a") is State.FAILED


def test_a_booking_that_was_exceeded_is_learned_to_be_more() -> None:
    story, _ = loading()
    story.holds[story.worker("a"), "gpu0"] = 5 * GIB
    story.sample("gpu0")
    runs_out(story)
    assert learned(story)[0].peak.gpu_bytes == (int(5.5 * GIB),)


def test_running_out_because_a_stranger_has_come_teaches_nothing() -> None:
    story, _ = loading()
    story.holds[story.worker("a"), "gpu0"] = 3 * GIB
    story.strangers["gpu0"] = int(6.5 * GIB)
    story.sample("gpu0")
    runs_out(story)
    assert learned(story) == []


def test_a_stranger_that_is_seen_only_afterwards_is_the_cause_too() -> None:
    story, _ = loading()
    story.strangers["gpu0"] = int(6.5 * GIB)
    runs_out(story)
    assert learned(story) == []


def test_what_runs_out_although_all_that_was_booked_was_there_needs_more_than_was_there() -> None:
    story = Story(
        *(spec(n, device=("gpu0",)) for n in "ab"), gpus_gib=(10,), sizes={"a": 4, "b": 3}, settings=NO_MARGIN
    )
    story.hot("b")
    story.get("a", timeout=100)
    runs_out(story)
    assert learned(story)[-1].peak.gpu_bytes == (7 * GIB + 1,)


def test_what_was_seen_to_have_taken_nearly_all_that_was_there_needs_more_than_that() -> None:
    """A sample may have missed its last steps: what it was seen with, and a tenth, might fit beside the other again."""
    story = Story(
        *(spec(n, device=("gpu0",)) for n in "ab"), gpus_gib=(10,), sizes={"a": 1, "b": 4}, settings=NO_MARGIN
    )
    story.hot("b")
    story.get("a", timeout=100)
    story.holds[story.worker("a"), "gpu0"] = 5 * GIB
    story.sample("gpu0")
    runs_out(story)
    assert [each.peak.gpu_bytes for each in learned(story)] == [(int(5.5 * GIB),), (6 * GIB + 1,)]


def test_a_worker_that_its_driver_hides_and_that_runs_out_needs_more_too() -> None:
    """In a container: it is never seen beyond its booking, and what it takes beyond looks like others'."""
    story, _ = loading()
    for used in (2, 9.9):
        story.sample("gpu0", used_bytes=int(used * GIB), held_bytes={})
    story.sticky["hidden", "gpu0"] = int(9.9 * GIB)
    runs_out(story)
    assert learned(story) == []
    story.unstick("gpu0")
    (only,) = learned(story)
    assert 4 * GIB < only.peak.gpu_bytes[0] <= 10 * GIB
    assert story.core.world.ledger.held(story.worker("a"))["gpu0"] == 4 * GIB  # the story foretells the same again


def test_one_failure_does_not_raise_it_beyond_measure_or_beyond_what_there_is() -> None:
    story = Story(spec("a", device=("gpu0",)), gpus_gib=(10,), sizes={"a": 1}, settings=NO_MARGIN)
    story.get("a", timeout=100)
    runs_out(story)
    assert learned(story)[-1].peak.gpu_bytes == (4 * GIB,)
    story, _ = loading()
    runs_out(story)
    assert learned(story)[-1].peak.gpu_bytes == (10 * GIB,)


def test_what_was_learned_to_be_less_than_its_author_says_is_that_again_when_it_runs_out() -> None:
    story = Story(spec("a", device=("gpu0",), memory_bytes=6 * GIB), gpus_gib=(10,), sizes={"a": 4})
    story.get("a", timeout=100)
    runs_out(story)
    assert learned(story)[-1].peak.gpu_bytes == (6 * GIB,)


def test_the_next_try_waits_until_it_is_known_what_the_last_one_has_taught() -> None:
    story, _ = loading()
    story.stick("a", "gpu0")
    runs_out(story)
    assert story.count(effects.StartWorker) == 1
    story.unstick("gpu0")
    assert story.count(effects.StartWorker) == 2


def test_what_samples_have_missed_once_does_not_make_its_booking_smaller_any_more() -> None:
    story, request = loading()
    runs_out(story)
    promised = story.core.world.workers[story.worker("a")].promised["gpu0"]
    story.ready("a")
    story.call(request)
    story.end_call(request)
    story.holds[story.worker("a"), "gpu0"] = GIB
    story.sample("gpu0")
    story.exit("a", status=0)
    assert learned(story)[-1].peak.gpu_bytes == (promised,)


def test_the_kernel_s_kill_for_memory_is_one_too() -> None:
    story, request = loading()
    story.exit("a", signal=9, out_of_memory=True)
    assert story.state("a") is State.LOADING
    assert request not in story.answers


def test_a_failure_that_is_not_memory_evicts_nobody_and_is_not_repeated() -> None:
    story = Story(
        *(spec(name, device=("gpu0",)) for name in "ab"),
        gpus_gib=(10,),
        sizes={"a": 4, "b": 4},
        settings=NO_MARGIN,
    )
    story.hot("b")
    story.wait(10)
    request = story.get("a")
    story.tell(events.ObjectFailed(worker=story.worker("a"), model="a", reason="no such file"))
    assert isinstance(story.answers[request], answers.LoadFailed)
    assert story.state("b") is State.READY
    assert story.count(effects.Drain) == 0


def test_a_call_that_runs_out_is_told_and_the_model_serves_on() -> None:
    story = Story(spec("a"))
    story.hot("a")
    story.tell(events.RanOut(worker=story.worker("a"), model="a"))
    assert story.state("a") is State.READY
    assert any(isinstance(e, effects.Note) and e.kind == "out of memory" for e in story.effects)


def test_a_call_that_runs_out_has_its_model_booked_with_what_it_was_promised() -> None:
    forecast = Forecast(peak=Need(gpu_bytes=(6 * GIB,)), service=Need(gpu_bytes=(3 * GIB,)), source="learned")
    known = {"a": events.Predicted(model="a", ways={"gpu": forecast})}
    story = Story(spec("a", device=("gpu0",)), gpus_gib=(10,), predictions=known, settings=NO_MARGIN)
    story.hot("a")
    story.holds[story.worker("a"), "gpu0"] = 3 * GIB
    story.sample("gpu0")
    assert story.free("gpu0") == 7
    story.tell(events.RanOut(worker=story.worker("a"), model="a"))
    assert story.free("gpu0") == 4
