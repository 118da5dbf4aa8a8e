"""What strangers use is known between bounds; admissions count on the upper, evictions on the lower one."""

from lazyd.core import effects, events
from lazyd.core.answers import NoRoom
from lazyd.core.ledger import Device
from lazyd.core.lifecycle import State
from lazyd.core.spec import GIB, MIB, Settings
from lazyd.core.strangers import note_low

from .story import Story, spec, ways

NO_MARGIN = Settings(budget={}, gpu_margin_bytes=0)


def on_gpu(*names: str, gib: float = 10, settings: Settings = NO_MARGIN, **sizes: float) -> Story:
    """Models that go to one GPU only."""
    specs = (spec(name, device=("gpu0",)) for name in names)
    return Story(*specs, gpus_gib=(gib,), sizes=sizes, settings=settings)


def bounds(story: Story, device: str = "gpu0") -> tuple[float, float]:
    """What strangers are sure to use, and may use at most, in GiB."""
    found = story.core.world.ledger.devices[device]
    return found.sure_foreign_bytes / GIB, found.foreign_bytes / GIB


def test_what_a_loading_worker_has_not_taken_yet_does_not_hide_strangers() -> None:
    story = on_gpu("a", a=6)
    story.get("a")
    story.holds[story.worker("a"), "gpu0"] = 1 * GIB
    story.strangers["gpu0"] = 3 * GIB
    story.sample("gpu0")
    story.sample("gpu0")
    assert bounds(story) == (0, 3)  # used 4, booked 6
    assert story.free("gpu0") == 1


def test_a_growing_stranger_lowers_what_may_be_booked_at_once() -> None:
    story = on_gpu("a", a=6)
    story.strangers["gpu0"] = 5 * GIB
    story.sample("gpu0")
    story.get("a", timeout=60)
    assert story.state("a") is State.COLD
    assert story.count(effects.StartWorker) == 0


def test_idle_models_leave_for_strangers_when_the_lower_bound_says_so_twice() -> None:
    story = on_gpu("a", a=6)
    story.hot("a")
    story.wait(10)
    story.strangers["gpu0"] = 5 * GIB
    story.sample("gpu0")
    assert story.state("a") is State.READY
    story.sample("gpu0")
    assert story.state("a") is State.DRAINING


def test_a_busy_model_never_leaves_for_strangers() -> None:
    story = on_gpu("a", a=6)
    request = story.get("a")
    story.ready("a")
    story.call(request)
    story.wait(10)
    story.strangers["gpu0"] = 5 * GIB
    for _ in range(5):
        story.sample("gpu0")
    assert story.state("a") is State.READY


def test_a_worker_that_the_driver_does_not_show_is_not_taken_for_a_stranger() -> None:
    story = on_gpu("a", "b", a=4, b=4)
    story.strangers["gpu0"] = 1 * GIB
    story.sample("gpu0")
    story.hot("a")
    story.sample("gpu0", held_bytes={})
    assert bounds(story) == (1, 1)
    assert story.core.world.workers[story.worker("a")].measured_bytes["gpu0"] == 4 * GIB


def test_a_stranger_beside_a_hidden_worker_is_one_beyond_what_is_booked() -> None:
    story = on_gpu("a", a=4)
    story.hot("a")
    story.strangers["gpu0"] = 3 * GIB
    story.sample("gpu0", held_bytes={})
    assert bounds(story)[1] == 3


def test_listed_strangers_do_not_pass_for_bytes_on_their_way_back() -> None:
    story = on_gpu("a", a=4)
    story.hot("a")
    unload = story.unload("a")
    story.answer_drain("a")
    story.exit("a", status=0)
    story.strangers["gpu0"] = 4 * GIB
    story.sample("gpu0", listed_bytes=4 * GIB)
    assert unload in story.answers


def test_ram_that_our_workers_hold_is_not_foreign() -> None:
    story = Story(spec("a"), sizes={"a": 4})
    story.hot("a")
    story.strangers["ram"] = 2 * GIB
    story.sample("ram")
    assert bounds(story, "ram") == (0, 2)
    story.sample("ram")
    assert bounds(story, "ram") == (2, 2)


def test_file_pages_that_are_booked_do_not_hide_strangers() -> None:
    predicted = events.Predicted(model="a", ways=ways(ram_gib=1), files={"8:1": 5 * GIB})
    story = Story(spec("a"), predictions={"a": predicted})
    story.hot("a")
    story.strangers["ram"] = 3 * GIB
    story.sample("ram")
    story.sample("ram")
    assert bounds(story, "ram") == (3, 3)
    assert story.free_gib == 1


def test_memory_pressure_frees_what_is_cheapest_one_at_a_time() -> None:
    story = Story(*map(spec, ("a", "b")), sizes={"a": 2, "b": 2})
    story.hot("a")
    story.hot("b")
    story.wait(10)
    story.tell(events.MemoryPressure())
    leaving = [name for name in "ab" if story.state(name) is State.DRAINING]
    assert len(leaving) == 1
    story.tell(events.MemoryPressure())
    assert story.count(effects.Drain) == 1
    story.answer_drain(leaving[0])
    story.exit(leaving[0], status=0)
    story.tell(events.MemoryPressure())
    assert story.count(effects.Drain) == 2


def test_memory_pressure_disturbs_nothing_busy_or_pinned() -> None:
    story = Story(*map(spec, ("busy", "pinned")))
    request = story.get("busy")
    story.ready("busy")
    story.call(request)
    story.hot("pinned")
    story.pin("pinned")
    story.wait(10)
    story.tell(events.MemoryPressure())
    assert story.count(effects.Drain) == 0


def test_a_margin_is_left_free_on_every_gpu() -> None:
    story = on_gpu("a", settings=Settings(budget={}, gpu_margin_bytes=512 * MIB), a=9.6)
    refused = story.answers[story.get("a")]
    assert refused.reason.startswith("it needs 9.6 GiB of gpu0")  # type: ignore[attr-defined]


def test_a_budget_larger_than_its_device_is_the_device() -> None:
    story = on_gpu("a", settings=Settings(budget={"gpu0": 64 * GIB}, gpu_margin_bytes=0), a=11)
    assert story.core.world.ledger.devices["gpu0"].budget_bytes == 10 * GIB
    assert "whose budget is 10.0 GiB" in story.answers[story.get("a")].reason  # type: ignore[attr-defined]


def test_memory_pressure_disturbs_nothing_that_gives_back_little_while_something_gives_back_much() -> None:
    on_gpu = [spec(f"small-{number}", device=("gpu",)) for number in range(3)]
    sizes = {"large": 3.0, **{model.name: 0.5 for model in on_gpu}}  # on a GPU, and a tenth of that in RAM
    story = Story(*on_gpu, spec("large", device=("ram",)), gpus_gib=(10,), sizes=sizes)
    story.hot("large")
    for model in on_gpu:
        story.hot(model.name)
    story.wait(60)
    story.tell(events.MemoryPressure())
    assert story.state("large") is State.DRAINING
    assert {story.state(model.name) for model in on_gpu} == {State.READY}


def test_a_driver_that_takes_more_than_a_second_to_answer_admits_all_the_same() -> None:
    story = Story(spec("a", device=("gpu",)), gpus_gib=(10,))
    story.wait(5)
    story.silent = {"gpu0"}
    story.get("a", timeout=60)
    asked = story.now
    story.wait(1.2)
    story.sample("gpu0", begun=asked)
    assert story.state("a") is State.LOADING


def test_a_worker_that_the_driver_shows_without_bytes_is_hidden() -> None:
    story = Story(spec("a", device=("gpu",)), gpus_gib=(10,), sizes={"a": 4})
    story.hot("a")
    story.sample("gpu0", used_bytes=4 * GIB, held_bytes={story.worker("a"): 0})
    assert story.core.world.ledger.devices["gpu0"].foreign_bytes == 0


# What has just ended may still be shown.


def test_nobody_is_refused_for_what_a_driver_may_only_not_have_taken_back_yet() -> None:
    story = Story(spec("a", device=("gpu0",)), gpus_gib=(8,), sizes={"a": 5}, settings=Settings(budget={}))
    story.strangers["gpu0"] = 7 * GIB  # those of an earlier manager, say, that have ended a moment ago
    for _ in range(3):
        story.sample("gpu0")
    request = story.get("a", timeout=60)
    for _ in range(3):
        story.wait(0.5)
        story.sample("gpu0")
    assert request not in story.answers
    story.strangers["gpu0"] = 0
    story.sample("gpu0")
    story.sample("gpu0")
    assert story.state("a") is State.LOADING


def test_who_waits_is_refused_once_strangers_have_stayed() -> None:
    story = Story(spec("a", device=("gpu0",)), gpus_gib=(8,), sizes={"a": 5}, settings=Settings(budget={}))
    story.strangers["gpu0"] = 7 * GIB
    story.sample("gpu0")
    request = story.get("a", timeout=60)
    story.strangers_last()
    refused = story.answers[request]
    assert isinstance(refused, NoRoom)
    assert "other programs use 7.0 GiB" in refused.reason


def test_how_long_strangers_have_been_there_is_known_of_each_amount() -> None:
    device = Device(name="gpu0", kind="cuda", total_bytes=100, budget_bytes=100)
    found = []
    for now, lower in ((0, 30), (2, 50), (4, 20), (5, 60), (6, 60), (9, 50), (10, 70), (14, 70), (16, 10)):
        note_low(device, lower, now)
        found.append(device.lasting_foreign_bytes)
    assert found == [0, 0, 0, 20, 20, 20, 50, 50, 10]
    assert len(device.lows) == 1
