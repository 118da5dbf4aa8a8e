"""What people are shown of devices, of who waits for room, and of who makes it."""

from __future__ import annotations

from lazyd.core import answers, effects, events, view
from lazyd.core.spec import GIB, Settings

from .story import Story, spec

NO_MARGIN = Settings(budget={}, gpu_margin_bytes=0, max_reserved=1.0)


def story_of(*names: str, gpus: int = 1, device: tuple[str, ...] = ("gpu0",), **sizes: float) -> Story:
    """Models for GPUs of 10 GiB."""
    specs = [spec(name, device=device) for name in names]
    return Story(*specs, gpus_gib=(10,) * gpus, sizes=sizes, settings=NO_MARGIN)


def reserve(story: Story, gib: float, command: str | None = "render.sh") -> int:
    request = next(story.requests)
    wish = {"device": "gpu0", "bytes": int(gib * GIB), "holder": 1000, "pid": 4711, "command": command}
    story.tell(events.Reserve(request=request, **wish))  # type: ignore[arg-type]
    return request


def busy(story: Story, name: str) -> None:
    """A call is in flight in a model."""
    story.hot(name)
    story.call(story.get(name))


def test_a_reservation_that_waits_is_shown_with_what_it_waits_for() -> None:
    story = story_of("a", a=6)
    busy(story, "a")
    reserve(story, 8)
    story.wait(1)
    (wish,) = view.wishes(story.core, story.now)
    assert (wish.device, wish.bytes, wish.pid, wish.command) == ("gpu0", 8 * GIB, 4711, "render.sh")
    assert wish.waited_sec == 1
    assert wish.why == [
        "It needs 8.0 GiB of gpu0, where 4.0 GiB of 10.0 GiB are free: a holds 6.0 GiB: a call is in flight."
    ]
    assert view.reservations(story.core) == []


def test_what_is_held_is_not_waited_for() -> None:
    story = story_of()
    reserve(story, 8)
    assert view.wishes(story.core, story.now) == []
    assert [held.bytes for held in view.reservations(story.core)] == [8 * GIB]


def test_who_leaves_for_a_program_says_so_by_its_command() -> None:
    story = story_of("a", a=6)
    story.hot("a")
    story.wait(10)
    reserve(story, 8)
    drained = next(e for e in story.effects if isinstance(e, effects.Note) and e.kind == "draining")
    assert drained.reason == 'room for "render.sh"'
    (wish,) = view.wishes(story.core, story.now)
    assert 'a holds 6.0 GiB and is leaving: room for "render.sh".' in wish.why[-1]


def test_who_stands_before_one_in_the_line_is_named_by_its_command() -> None:
    story = story_of("a", a=6)
    busy(story, "a")
    reserve(story, 5, command="first.sh")
    story.wait(1)
    reserve(story, 5, command=None)
    first, second = view.wishes(story.core, story.now)
    assert "in the line" not in " ".join(first.why)
    assert second.why[-1] == 'Before it in the line: "first.sh".'


def test_a_device_names_whose_memory_never_came_back() -> None:
    story = story_of("a", a=6)
    story.hot("a")
    story.tell(events.WorkerStarted(worker=story.worker("a"), pid=77))
    story.stick("a", "gpu0")
    story.exit("a", signal=9)
    story.wait(30)
    gpu = next(device for device in view.devices(story.core) if device.name == "gpu0")
    assert gpu.quarantined is not None
    assert [(left.model, left.pid, left.bytes) for left in gpu.quarantined] == [("a", 77, 6 * GIB)]
    ram = next(device for device in view.devices(story.core) if device.name == "ram")
    assert ram.quarantined is None


def test_a_refusal_tells_of_every_gpu_and_first_of_the_one_with_most() -> None:
    big, kept = spec("big", device=("gpu0", "gpu1")), spec("kept", device=("gpu0",), pin=True)
    story = Story(big, kept, gpus_gib=(10, 10), sizes={"big": 9, "kept": 4}, settings=NO_MARGIN)
    story.hot("kept")
    story.strangers["gpu1"] = 2 * GIB
    story.strangers_last()
    refused = story.answers[story.get("big")]
    assert isinstance(refused, answers.NoRoom)
    assert (refused.device, refused.free_bytes) == ("gpu1", 8 * GIB)
    assert refused.reason == (
        "it needs 9.0 GiB of gpu1, whose budget is 10.0 GiB; other programs use 2.0 GiB; "
        "8.0 GiB of gpu1 can be had; "
        "it needs 9.0 GiB of gpu0, whose budget is 10.0 GiB; kept holds 4.0 GiB and is pinned; "
        "6.0 GiB of gpu0 can be had"
    )


def test_a_wish_that_never_fits_says_what_to_do_about_it() -> None:
    story = story_of("big", big=12)
    for refused in (story.answers[story.get("big")], story.answers[reserve(story, 12)]):
        assert isinstance(refused, answers.NoRoom)
        assert refused.remedy == "it never fits there: let it need less or use another device"
