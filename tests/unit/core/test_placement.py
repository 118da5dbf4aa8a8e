"""Where a model goes: whole on one GPU, else over several, else partly, else in RAM."""

import pytest

from lazyd.core import answers, effects, events
from lazyd.core.lifecycle import State
from lazyd.core.needs import Forecast, Layers, Need
from lazyd.core.spec import GIB, MIB, Settings

from .story import RESIDENT, Story, spec, ways

NO_MARGIN = Settings(budget={}, gpu_margin_bytes=0)


def layered(count: int, layer_gib: float, *, fixed_gib: float = 0.5, ram_gib: float = 0.5) -> events.Predicted:
    """A model that can be divided: `count` layers of the same size, and what is beside them."""
    layers = Layers(
        gpu_layer_bytes=(int(layer_gib * GIB),) * count,
        ram_layer_bytes=(int(layer_gib * GIB),) * count,
        gpu_bytes=int(fixed_gib * GIB),
        ram_bytes=int(ram_gib * GIB),
    )
    whole = Need(ram_bytes=layers.ram_bytes, gpu_bytes=(layers.gpu_bytes + sum(layers.gpu_layer_bytes),))
    in_ram = Need(ram_bytes=layers.ram_bytes + sum(layers.ram_layer_bytes))
    return events.Predicted(
        model="big", ways={"gpu": Forecast(peak=whole), "ram": Forecast(peak=in_ram)}, layers=layers
    )


def start_of(story: Story, model: str) -> effects.StartWorker:
    return next(e for e in reversed(story.effects) if isinstance(e, effects.StartWorker) and e.model == model)


def test_a_model_goes_where_it_fits_best() -> None:
    story = Story(spec("a"), gpus_gib=(10, 6, 8), sizes={"a": 5}, settings=NO_MARGIN)
    story.get("a")
    assert story.devices_of("a") == ["gpu1", "ram"]


def test_a_small_model_is_not_divided() -> None:
    story = Story(spec("big"), gpus_gib=(6, 6), predictions={"big": layered(4, 1)}, settings=NO_MARGIN)
    story.get("big")
    assert start_of(story, "big").layers == {}
    assert story.devices_of("big") == ["gpu0", "ram"]


def test_a_model_that_fits_on_no_gpu_is_divided_over_several() -> None:
    story = Story(spec("big"), gpus_gib=(6, 8), predictions={"big": layered(10, 1)}, settings=NO_MARGIN)
    story.get("big")
    start = start_of(story, "big")
    assert start.layers == {"gpu0": 3, "gpu1": 7}
    assert start.devices == ("gpu0", "gpu1", "ram")
    assert start.memo["way"] == "gpu 3+7"
    assert start.memo["booking"] == {"gpu0": int(3.5 * GIB), "gpu1": int(7.5 * GIB), "ram": GIB // 2}


def test_an_idle_model_leaves_before_a_model_is_divided() -> None:
    specs = (spec("a", device=("gpu0",)), spec("big"))
    story = Story(*specs, gpus_gib=(10, 6), sizes={"a": 6}, predictions={"big": layered(8, 1)}, settings=NO_MARGIN)
    story.hot("a")
    story.wait(10)
    story.get("big", timeout=60)
    assert story.state("a") is State.DRAINING


def test_what_fits_on_no_gpus_together_is_partly_in_ram() -> None:
    story = Story(spec("big"), gpus_gib=(6, 8), predictions={"big": layered(20, 1)}, ram_gib=20, settings=NO_MARGIN)
    story.get("big")
    start = start_of(story, "big")
    assert start.layers == {"gpu0": 5, "gpu1": 7, "ram": 8}
    assert start.memo["way"] == "gpu 5+7/20"
    assert start.memo["booking"]["ram"] == int(8.5 * GIB)


def test_a_spec_without_ram_is_never_partly_in_ram() -> None:
    model = spec("big", device=("gpu",))
    story = Story(model, gpus_gib=(6, 8), predictions={"big": layered(20, 1)}, ram_gib=40, settings=NO_MARGIN)
    assert isinstance(story.answers[story.get("big")], answers.NoRoom)


def test_what_fits_nowhere_else_goes_to_ram() -> None:
    story = Story(spec("a"), gpus_gib=(4,), sizes={"a": 6}, settings=NO_MARGIN)
    story.get("a")
    assert story.devices_of("a") == ["ram"]


def test_a_machine_without_a_gpu_runs_everything_in_ram() -> None:
    story = Story(spec("a"), predictions={"a": events.Predicted(model="a", ways=ways(ram_gib=3, gpu_gib=3))})
    story.get("a")
    assert story.devices_of("a") == ["ram"]


def test_a_model_that_may_only_use_gpus_waits_for_none_that_is_not_there() -> None:
    story = Story(spec("a", device=("gpu",)))
    refused = story.answers[story.get("a")]
    assert isinstance(refused, answers.NoRoom)
    assert "no device of this machine suits it (device = gpu)" in refused.reason


@pytest.mark.parametrize("device", [("gpu1",), ("gpu1", "ram")])
def test_a_named_gpu_is_used_though_another_fits_better(device: tuple[str, ...]) -> None:
    story = Story(spec("a", device=device), gpus_gib=(6, 10), sizes={"a": 5}, settings=NO_MARGIN)
    story.get("a")
    assert story.devices_of("a") == ["gpu1", "ram"]


def test_models_that_are_used_together_are_kept_together() -> None:
    specs = (spec("a"), spec("b", beside=("a",)))
    story = Story(*specs, gpus_gib=(10, 4), sizes={"a": 5, "b": 3}, settings=NO_MARGIN)
    story.hot("a")
    story.get("b")
    assert story.devices_of("b") == ["gpu0", "ram"]


def test_an_instance_of_a_divided_gpu_takes_part_in_no_division() -> None:
    story = Story(spec("big"), gpus_gib=(6, 8), predictions={"big": layered(10, 1)}, ram_gib=20, settings=NO_MARGIN)
    for name in ("gpu0", "gpu1"):
        story.sample(name, alone=True)
    story.silent = {"gpu0", "gpu1"}  # no sample that forgets it
    story.get("big")
    assert len(start_of(story, "big").layers) == 2
    assert "ram" in start_of(story, "big").layers


def test_bookings_of_one_load_on_several_devices_are_one_transaction() -> None:
    story = Story(spec("big"), gpus_gib=(6, 8), predictions={"big": layered(10, 1)}, settings=NO_MARGIN)
    story.get("big")
    story.exit("big", status=1)
    assert [story.free(name) for name in ("gpu0", "gpu1", "ram")] == [6, 8, 10]


def test_a_driver_that_does_not_answer_admits_nothing_and_holds_up_nobody_else() -> None:
    specs = (spec("a", device=("gpu0",)), spec("b", device=("gpu1",)), spec("c"))
    story = Story(*specs, gpus_gib=(10, 10), settings=NO_MARGIN)
    story.wait(5)
    story.silent = {"gpu0"}
    story.get("a", timeout=60)
    story.get("b", timeout=60)
    story.get("c", timeout=60)
    assert story.state("a") is State.COLD
    assert story.state("b") is State.LOADING
    story.wait(3)
    assert story.state("a") is State.COLD
    assert story.devices_of("c") == ["gpu1", "ram"]
    story.silent = set()
    story.sample("gpu0")
    assert story.state("a") is State.LOADING


def test_nothing_is_loaded_on_a_lost_device_until_it_is_back() -> None:
    story = Story(spec("a"), gpus_gib=(10,), settings=NO_MARGIN)
    story.hot("a")
    story.tell(events.DeviceLost(name="gpu0", reason="fallen off the bus"))
    assert story.state("a") is State.UNLOADING
    story.exit("a", signal=9)
    story.get("a")
    assert story.devices_of("a") == ["ram"]
    story.sample("gpu0")
    assert story.core.world.ledger.devices["gpu0"].lost is None


def test_a_lost_device_is_named_in_the_refusal() -> None:
    story = Story(spec("a", device=("gpu0",)), gpus_gib=(10,), settings=NO_MARGIN)
    story.tell(events.DeviceLost(name="gpu0", reason="fallen off the bus"))
    refused = story.answers[story.get("a")]
    assert isinstance(refused, answers.NoRoom)
    assert "gpu0 is lost: fallen off the bus" in refused.reason


def test_a_file_that_several_models_map_is_booked_once() -> None:
    need = {"ram": Forecast(peak=Need(ram_bytes=GIB))}
    predictions = {name: events.Predicted(model=name, ways=need, files={"8:1": 4 * GIB}) for name in "ab"}
    story = Story(*map(spec, "ab"), predictions=predictions)
    story.hot("a")
    assert story.free_gib == 5
    story.hot("b")
    assert story.free_gib == 4
    story.unload("a")
    story.answer_drain("a")
    story.exit("a", status=0)
    assert story.free_gib == 5
    story.unload("b")
    story.answer_drain("b")
    story.exit("b", status=0)
    assert story.free_gib == 10


def test_a_victim_s_file_that_the_load_maps_too_frees_nothing() -> None:
    need = {"ram": Forecast(peak=Need(ram_bytes=3 * GIB))}
    same = {name: events.Predicted(model=name, ways=need, files={"8:1": 4 * GIB}) for name in "ab"}
    story = Story(*map(spec, "abc"), predictions=same, sizes={"c": 2})
    story.hot("a")
    story.hot("c")
    story.wait(10)
    story.get("b", timeout=60)  # 9 of 10 are booked: it needs 3, and a's exit gives back 3, not 7
    assert story.state("a") is State.DRAINING
    assert story.state("c") is State.READY


def test_learned_needs_of_a_division_go_before_the_sum_of_its_layers() -> None:
    predicted = layered(10, 1)
    learned = Forecast(peak=Need(ram_bytes=MIB, gpu_bytes=(GIB, 2 * GIB)), source="learned")
    known = events.Predicted(model="big", ways={**predicted.ways, "gpu 3+7": learned}, layers=predicted.layers)
    story = Story(spec("big"), gpus_gib=(6, 8), predictions={"big": known}, settings=NO_MARGIN)
    story.get("big")
    assert start_of(story, "big").memo["booking"] == {"gpu0": GIB, "gpu1": 2 * GIB, "ram": MIB}


def test_a_file_that_kept_models_share_leaves_no_room_either() -> None:
    """What does not fit beside it is refused at once, and not left to wait."""
    need = {"ram": Forecast(peak=Need(ram_bytes=GIB))}
    predictions = {name: events.Predicted(model=name, ways=need, files={"8:1": 4 * GIB}) for name in "ab"}
    kept = [spec(name, tier=RESIDENT) for name in "ab"]
    story = Story(*kept, spec("c"), sizes={"c": 5}, predictions=predictions)
    story.ready("a")
    story.ready("b")
    refused = story.answers[story.get("c")]
    assert isinstance(refused, answers.NoRoom)
    assert refused.free_bytes == 4 * GIB


def test_a_model_is_divided_with_ram_on_the_roomiest_instance() -> None:
    story = Story(spec("big"), gpus_gib=(2, 8), predictions={"big": layered(10, 1)}, ram_gib=20, settings=NO_MARGIN)
    for name in ("gpu0", "gpu1"):
        story.sample(name, alone=True)
    story.silent = {"gpu0", "gpu1"}  # no sample that forgets it
    story.get("big")
    assert story.devices_of("big") == ["gpu1", "ram"]


@pytest.mark.parametrize(("budget", "refused"), [(0.5, True), (0.9, False)])
def test_a_file_counts_for_what_may_be_kept(budget: float, refused: bool) -> None:
    need = {"ram": Forecast(peak=Need(ram_bytes=GIB))}
    same = {name: events.Predicted(model=name, ways=need, files={"8:1": 4 * GIB}) for name in "ab"}
    story = Story(*map(spec, "ab"), predictions=same, settings=Settings(budget={}, max_pinned=budget))
    story.hot("a")
    story.hot("b")
    story.pin("a")
    assert isinstance(story.answers[story.pin("b")], answers.NoRoom if refused else answers.Done)


@pytest.mark.parametrize("name", ["tts", "voice", "tts:2"])
def test_a_companion_may_be_named_without_its_version_and_by_an_alias(name: str) -> None:
    specs = (spec("tts:2"), spec("b", beside=(name,)))
    sizes = {"tts:2": 5, "b": 3}
    story = Story(*specs, gpus_gib=(10, 4), sizes=sizes, settings=NO_MARGIN, aliases={"voice": "tts"})
    story.hot("tts:2")
    story.get("b")
    assert story.devices_of("b") == ["gpu0", "ram"]


def test_a_companion_may_be_a_family() -> None:
    specs = (spec("strategy/*"), spec("b", beside=("strategy/*",)))
    story = Story(*specs, gpus_gib=(10, 4), sizes={"strategy/x": 5, "b": 3}, settings=NO_MARGIN)
    story.hot("strategy/x")
    story.get("b")
    assert story.devices_of("b") == ["gpu0", "ram"]
