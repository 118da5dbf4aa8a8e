"""Out of memory: told apart, learned from, tried once more, then refused."""

from lazyd.core import answers, effects, events
from lazyd.core.lifecycle import State
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


def test_running_out_within_its_booking_teaches_nothing() -> None:
    story, _ = loading()
    story.holds[story.worker("a"), "gpu0"] = 3 * GIB
    story.sample("gpu0")
    runs_out(story)
    assert learned(story) == []


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
