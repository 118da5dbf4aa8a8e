"""What a worker held of a GPU is free when the driver shows it, and not before."""

import pytest

from lazyd.core import effects, events, release
from lazyd.core.answers import Unloaded
from lazyd.core.lifecycle import State
from lazyd.core.spec import GIB, Settings

from .story import Story, spec


def two_rivals() -> Story:
    """Two models of 6 GiB, and one GPU of 10."""
    story = Story(
        *(spec(name, device=("gpu0",)) for name in "ab"),
        gpus_gib=(10,),
        sizes={"a": 6, "b": 6},
        settings=Settings(budget={}, gpu_margin_bytes=0),
    )
    story.hot("a")
    story.wait(10)
    return story


def leave(story: Story, model: str) -> None:
    """It drains and its process ends."""
    story.answer_drain(model)
    story.exit(model, status=0)


def notes(story: Story, kind: str) -> list[effects.Note]:
    return [effect for effect in story.effects if isinstance(effect, effects.Note) and effect.kind == kind]


def test_an_unload_is_answered_when_the_bytes_are_seen_to_be_free() -> None:
    story = two_rivals()
    story.stick("a", "gpu0")
    request = story.unload("a")
    leave(story, "a")
    assert request not in story.answers
    assert story.state("a") is State.UNLOADING
    assert story.free("gpu0") == 4
    story.wait(1)
    story.unstick("gpu0")
    assert story.answers[request] == Unloaded(unloaded=("a",))
    assert (story.state("a"), story.free("gpu0")) == (State.COLD, 10)


def test_the_next_load_starts_with_the_sample_that_shows_the_bytes() -> None:
    story = two_rivals()
    story.stick("a", "gpu0")
    story.get("b", timeout=60)
    leave(story, "a")
    assert story.state("b") is State.COLD
    story.wait(0.8)
    story.sample("gpu0")
    assert story.state("b") is State.COLD
    story.unstick("gpu0")
    assert story.state("b") is State.LOADING


def test_a_sample_begun_before_the_exit_shows_nothing() -> None:
    story = two_rivals()
    story.stick("a", "gpu0")
    request = story.unload("a")
    before = story.now
    story.wait(0.5)
    leave(story, "a")
    story.sample("gpu0", used_bytes=0, begun=before)
    assert request not in story.answers


@pytest.mark.parametrize("shown", [True, False], ids=["shown", "hidden"])
def test_what_a_worker_took_after_the_last_sample_is_waited_for_too(shown: bool) -> None:
    story = Story(
        spec("a", device=("gpu0",)), gpus_gib=(10,), sizes={"a": 6}, settings=Settings(budget={}, gpu_margin_bytes=0)
    )
    story.load("a")
    taken = GIB // 4 if shown else 0  # so far
    story.sample("gpu0", used_bytes=taken, held_bytes={story.worker("a"): taken} if shown else {})
    story.silent = {"gpu0"}
    story.ready("a")
    story.stick("a", "gpu0")
    request = story.unload("a")
    leave(story, "a")
    story.sample("gpu0")
    assert request not in story.answers
    device = story.core.world.ledger.devices["gpu0"]
    assert (device.booked_bytes, device.foreign_bytes) == (6 * GIB, 0)
    story.unstick("gpu0")
    assert story.answers[request] == Unloaded(unloaded=("a",))


def test_what_does_not_come_back_is_quarantined_by_name_and_the_ledger_stays_honest() -> None:
    story = two_rivals()
    story.stick("a", "gpu0")
    request = story.unload("a")
    leave(story, "a")
    story.wait(6)
    assert isinstance(story.answers[request], Unloaded)
    device = story.core.world.ledger.devices["gpu0"]
    assert [(lost.model, lost.bytes) for lost in device.quarantine] == [("a", 6 * GIB)]
    assert device.booked_bytes == 0
    assert device.foreign_bytes == 6 * GIB
    assert notes(story, "quarantined")
    story.get("b", timeout=60)
    assert story.state("b") is State.COLD


def test_what_comes_back_later_is_noticed() -> None:
    story = two_rivals()
    story.stick("a", "gpu0")
    story.unload("a")
    leave(story, "a")
    story.wait(6)
    story.unstick("gpu0")
    assert story.core.world.ledger.devices["gpu0"].quarantine == []
    assert notes(story, "came back")
    story.get("b")
    assert story.state("b") is State.LOADING


def test_a_quarantine_shrinks_as_bytes_return() -> None:
    story = two_rivals()
    story.stick("a", "gpu0")
    story.unload("a")
    leave(story, "a")
    story.wait(6)
    story.sticky = dict.fromkeys(story.sticky, 2 * GIB)
    story.sample("gpu0")
    device = story.core.world.ledger.devices["gpu0"]
    assert (device.quarantined_bytes, device.foreign_bytes) == (2 * GIB, 2 * GIB)


def test_a_worker_that_ends_beside_a_quarantine_is_seen_to_be_free() -> None:
    story = two_rivals()
    story.stick("a", "gpu0")
    story.unload("a")
    leave(story, "a")
    story.wait(6)
    story.sticky = dict.fromkeys(story.sticky, 2 * GIB)
    story.sample("gpu0")
    story.hot("b")
    request = story.unload("b")
    leave(story, "b")
    assert isinstance(story.answers[request], Unloaded)


def test_a_crash_keeps_its_bytes_booked_and_its_model_may_load_elsewhere() -> None:
    story = Story(spec("a"), gpus_gib=(10, 10), sizes={"a": 6}, settings=Settings(budget={}, gpu_margin_bytes=0))
    story.hot("a")
    assert story.devices_of("a")[0] == "gpu0"
    story.stick("a", "gpu0")
    story.exit("a", signal=11)
    assert story.state("a") is State.COLD
    assert story.free("gpu0") == 4
    story.get("a")
    assert story.devices_of("a")[0] == "gpu1"


def test_ram_is_free_when_the_process_is_gone() -> None:
    story = Story(spec("a"), sizes={"a": 6})
    story.hot("a")
    request = story.unload("a")
    leave(story, "a")
    assert isinstance(story.answers[request], Unloaded)
    assert story.free_gib == 10


def test_nothing_is_awaited_of_a_lost_device() -> None:
    story = two_rivals()
    story.stick("a", "gpu0")
    request = story.unload("a")
    leave(story, "a")
    story.tell(events.DeviceLost(name="gpu0", reason="fallen off the bus"))
    assert isinstance(story.answers[request], Unloaded)


def test_the_death_of_the_host_keeps_gpu_bytes_booked_until_they_are_seen_free() -> None:
    story = two_rivals()
    story.stick("a", "gpu0")
    story.tell(events.HostLost())
    assert story.state("a") is State.COLD
    assert story.free("gpu0") == 4
    story.unstick("gpu0")
    assert story.free("gpu0") == 10


def test_a_last_page_that_the_driver_keeps_is_counted_as_foreign() -> None:
    story = two_rivals()
    worker = story.worker("a")
    story.stick("a", "gpu0")
    story.unload("a")
    leave(story, "a")
    story.sticky[worker, "gpu0"] = 1 << 20
    story.sample("gpu0")
    device = story.core.world.ledger.devices["gpu0"]
    assert (device.booked_bytes, device.foreign_bytes) == (0, 1 << 20)


def test_what_the_driver_still_shows_under_a_dead_process_stays_quarantined() -> None:
    story = two_rivals()
    worker = story.worker("a")
    story.stick("a", "gpu0")
    story.unload("a")
    leave(story, "a")
    story.wait(6)
    assert worker in release.counted(story.core.world)
    story.sample("gpu0", used_bytes=6 * GIB, held_bytes={worker: 6 * GIB})
    assert story.core.world.ledger.devices["gpu0"].quarantined_bytes == 6 * GIB
    story.unstick("gpu0")
    assert not release.counted(story.core.world)


def test_a_driver_that_does_not_answer_makes_no_quarantine() -> None:
    story = two_rivals()
    story.silent = {"gpu0"}
    story.unload("a")
    leave(story, "a")
    story.wait(20)
    assert not notes(story, "quarantined")
    story.sample("gpu0")
    assert story.core.world.ledger.devices["gpu0"].booked_bytes == 0
