"""A device that holds more than it may: idle models leave, the busy and the kept stay."""

from lazyd.core import effects
from lazyd.core.lifecycle import State
from lazyd.core.spec import GIB, Settings

from .story import Story, spec


def with_budget(story: Story, gib: int, *names: str, pins: tuple[str, ...] = ()) -> None:
    """The same models under a smaller budget."""
    story.settings = Settings(budget={"ram": gib * GIB})
    story.configure(*map(spec, names), pins=pins)


def sample(story: Story, foreign_gib: int) -> None:
    """Somebody else uses so much of the RAM."""
    story.strangers["ram"] = foreign_gib * GIB
    story.sample("ram")


def test_a_smaller_budget_makes_the_least_recently_used_leave_and_no_more() -> None:
    story = Story(*map(spec, ("old", "new", "busy")), sizes={"old": 3, "new": 3, "busy": 3})
    story.hot("old")
    story.wait(1)
    story.hot("new")
    request = story.get("busy")
    story.ready("busy")
    story.call(request)
    story.wait(10)
    with_budget(story, 7, "old", "new", "busy")
    assert story.state("old") is State.DRAINING
    assert story.state("new") is story.state("busy") is State.READY
    story.answer_drain("old")
    story.exit("old", status=0)
    story.wait(10)
    assert story.state("new") is story.state("busy") is State.READY


def test_what_is_busy_leaves_a_crowded_device_when_it_is_idle() -> None:
    story = Story(spec("busy"), sizes={"busy": 5})
    request = story.get("busy")
    story.ready("busy")
    story.call(request)
    with_budget(story, 3, "busy")
    story.wait(10)
    assert story.state("busy") is State.READY
    story.end_call(request)
    assert story.state("busy") is State.DRAINING


def test_strangers_are_believed_when_two_samples_in_a_row_say_so() -> None:
    story = Story(spec("idle"), sizes={"idle": 5})
    story.hot("idle")
    story.wait(10)
    sample(story, 8)
    assert story.state("idle") is State.READY
    sample(story, 0)
    sample(story, 8)
    assert story.state("idle") is State.READY
    sample(story, 8)
    assert story.state("idle") is State.DRAINING


def test_what_is_kept_stays_on_a_crowded_device() -> None:
    story = Story(spec("pinned"), sizes={"pinned": 5})
    story.hot("pinned")
    story.pin("pinned")
    story.wait(10)
    with_budget(story, 3, "pinned", pins=("pinned",))
    story.wait(10)
    assert story.count(effects.Drain) == 0
    assert story.state("pinned") is State.READY


def test_a_request_rescues_what_is_about_to_leave_a_crowded_device() -> None:
    story = Story(spec("idle"), sizes={"idle": 5})
    story.hot("idle")
    story.wait(10)
    with_budget(story, 3, "idle")
    assert story.state("idle") is State.DRAINING
    story.granted(story.get("idle"))
