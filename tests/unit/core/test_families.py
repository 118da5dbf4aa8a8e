"""An object of a family that does not leave its worker: the others serve on, and it begins anew in another worker."""

from lazyd.core import answers, effects, events
from lazyd.core.lifecycle import State
from lazyd.core.lives import ABORT_GRACE_S, STUCK_S

from .story import Story, spec


def hung() -> tuple[Story, int, str]:
    """`s/bad` hangs in its load beside `s/good`, which is in a call."""
    story = Story(spec("s/*", load_timeout_s=10.0))
    good = story.get("s/good")
    story.ready("s/good")
    story.call(good)
    bad = story.get("s/bad")
    worker = story.worker("s/bad")
    story.wait(10)
    assert isinstance(story.answers[bad], answers.LoadFailed)
    story.wait(ABORT_GRACE_S + STUCK_S)
    return story, good, worker


def test_it_is_loaded_again_in_another_worker() -> None:
    story, good, worker = hung()
    story.wait(60)
    again = story.get("s/bad")
    assert story.worker("s/bad") != worker
    story.ready("s/bad")
    story.granted(again)
    assert story.granted(good).worker == worker
    assert story.state("s/good") is State.READY


def test_others_begin_in_another_worker_too() -> None:
    story, _, worker = hung()
    story.get("s/other")
    assert story.worker("s/other") != worker


def test_the_worker_ends_when_the_others_have_left_it() -> None:
    story, good, worker = hung()
    story.end_call(good)
    story.close(good)
    story.unload("s/good")
    story.answer_drain("s/good")
    assert [e.worker for e in story.effects if isinstance(e, effects.StopWorker)] == [worker]


def test_one_that_leaves_in_time_keeps_its_worker_open() -> None:
    story = Story(spec("s/*"))
    story.get("s/good")
    story.ready("s/good")
    story.hot("s/bad")
    worker = story.worker("s/bad")
    story.unload("s/bad")
    story.answer_drain("s/bad")
    story.tell(events.ObjectUnloaded(worker=worker, model="s/bad"))
    story.wait(60)
    story.get("s/bad")
    assert story.worker("s/bad") == worker
