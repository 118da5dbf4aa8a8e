"""Parking: device memory is given back, the process stays."""

from collections.abc import Sequence

import pytest

from lazyd.core import answers, effects, events
from lazyd.core.lifecycle import State
from lazyd.core.spec import GIB, MIB, Settings

from .story import Story, spec
from .test_placement import layered

NO_MARGIN = Settings(budget={}, gpu_margin_bytes=0)


def parked(device: str = "gpu0", **fields: float) -> Story:
    """A model of 6 GiB that has parked, and left 300 MiB on its GPU."""
    story = idle(device=device, **fields)
    story.answer_drain("a")
    worker = story.worker("a")
    assert story.state("a") is State.PARKING
    story.wait(0.5)
    story.holds[worker, "gpu0"] = 300 * MIB
    story.tell(events.ObjectParked(worker=worker, model="a"))
    return story


def idle(ram_gib: float = 10, device: str = "gpu0", **fields: float) -> Story:
    """A model that can park, idle for long enough."""
    model = spec("a", device=(device,), idle_timeout_s=30, **fields)
    rival = spec("b", device=("gpu0",))
    story = Story(model, rival, gpus_gib=(10,), ram_gib=ram_gib, sizes={"a": 6, "b": 8}, settings=NO_MARGIN)
    request = story.get("a")
    story.wait(1)
    story.tell(events.ObjectReady(worker=story.worker("a"), model="a", parks=True))
    story.end_call(story.call(request))
    story.close(request)
    story.wait(31)
    return story


def test_an_idle_model_parks_with_its_ram_booked_first() -> None:
    story = idle()
    story.answer_drain("a")
    assert story.count(effects.ParkObject) == 1
    assert story.core.world.ledger.held(story.worker("a"))["ram"] == int(6.6 * GIB)


def test_what_it_leaves_on_the_gpu_is_measured() -> None:
    story = parked()
    assert story.state("a") is State.PARKED
    assert story.core.world.ledger.held(story.worker("a"))["gpu0"] == 300 * MIB


def test_parked_bytes_in_ram_are_measured() -> None:
    story = parked()
    story.tell(events.WorkerMeasured(worker=story.worker("a"), bytes_by_device={"ram": 2 * GIB}))
    assert story.core.world.ledger.held(story.worker("a"))["ram"] == 2 * GIB


def test_ram_is_booked_for_all_that_may_be_on_a_gpu_whatever_the_driver_shows() -> None:
    story = idle()
    story.sample("gpu0", used_bytes=0, held_bytes={})
    story.answer_drain("a")
    assert story.core.world.ledger.held(story.worker("a"))["ram"] == int(6.6 * GIB)


def test_without_ram_for_it_a_model_unloads() -> None:
    story = idle(ram_gib=4)
    story.answer_drain("a")
    assert story.state("a") is State.UNLOADING


def test_the_next_request_books_what_is_missing_and_unparks() -> None:
    story = parked()
    request = story.get("a")
    assert story.count(effects.UnparkObject) == 1
    assert story.state("a") is State.LOADING
    assert story.core.world.ledger.held(story.worker("a"))["gpu0"] == 6 * GIB
    story.tell(events.ObjectReady(worker=story.worker("a"), model="a", parks=True))
    assert story.granted(request)
    assert story.count(effects.StartWorker) == 1


def test_a_parked_model_leaves_for_another() -> None:
    story = parked()
    story.hot("b")
    assert story.free("gpu0") * GIB == 10 * GIB - 8 * GIB - 300 * MIB
    story.wait(60)
    request = story.get("a", timeout=60)
    assert request not in story.answers
    assert story.state("b") is State.DRAINING


def test_a_parked_model_whose_gpu_is_taken_loads_elsewhere() -> None:
    model = spec("a", device=("gpu",), idle_timeout_s=30)
    story = Story(model, gpus_gib=(10, 8), sizes={"a": 6}, settings=NO_MARGIN)
    request = story.get("a")
    worker = story.worker("a")
    gpu = story.devices_of("a")[0]
    story.tell(events.ObjectReady(worker=worker, model="a", parks=True))
    story.end_call(story.call(request))
    story.close(request)
    story.wait(31)
    story.answer_drain("a")
    story.holds[worker, gpu] = 0
    story.tell(events.ObjectParked(worker=worker, model="a"))
    story.strangers[gpu] = 9 * GIB
    for _ in range(2):
        story.sample(gpu)
    story.get("a", timeout=60)
    assert story.core.world.workers[worker].stopping
    assert (story.state("a"), gpu, story.devices_of("a")[0]) == (State.LOADING, "gpu1", "gpu0")


def test_a_model_that_was_on_two_gpus_loads_on_one_of_them_when_the_other_is_taken() -> None:
    predicted = layered(4, 2.0)
    story = Story(
        spec("big", device=("gpu",), idle_timeout_s=30),
        gpus_gib=(6, 10),
        predictions={"big": predicted},
        settings=NO_MARGIN,
    )
    story.strangers["gpu1"] = 5 * GIB
    story.sample("gpu1")
    request = story.get("big")
    worker = story.worker("big")
    assert story.devices_of("big") == ["gpu1", "gpu0", "ram"]
    story.tell(events.ObjectReady(worker=worker, model="big", parks=True))
    story.end_call(story.call(request))
    story.close(request)
    story.wait(31)
    story.answer_drain("big")
    story.holds.update({(worker, "gpu0"): 0, (worker, "gpu1"): 0})
    story.tell(events.ObjectParked(worker=worker, model="big"))
    story.strangers.update(gpu0=5 * GIB, gpu1=0)
    story.strangers_last()
    story.get("big", timeout=60)
    assert story.core.world.workers[worker].stopping
    assert (story.state("big"), story.devices_of("big")[0]) == (State.LOADING, "gpu1")


def test_parking_waits_for_a_sample_of_ram() -> None:
    story = idle()
    story.silent = {"ram"}
    story.wait(0.1)
    story.core.world.ledger.devices["ram"].sampled = 0
    story.answer_drain("a")
    assert story.state("a") is State.DRAINING
    story.sample("ram")
    assert story.state("a") is State.PARKING


def test_without_a_sample_of_ram_a_model_unloads() -> None:
    story = idle()
    story.silent = {"ram"}
    story.core.world.ledger.devices["ram"].sampled = 0
    story.answer_drain("a")
    story.wait(1)
    assert story.state("a") is State.UNLOADING


def test_a_parked_model_exits_after_its_time() -> None:
    story = parked(park_timeout_s=60)
    story.wait(61)
    assert story.state("a") is State.UNLOADING


def test_a_parked_model_that_is_pinned_stays_until_it_is_pinned_no_more() -> None:
    story = parked(park_timeout_s=60)
    story.pin("a")
    story.wait(120)
    assert story.state("a") is State.PARKED
    story.pin("a", pinned=False)
    assert story.state("a") is State.UNLOADING


def test_a_parked_model_that_somebody_waits_for_stays() -> None:
    story = parked(park_timeout_s=60)
    story.wait(2)
    story.silent = {"gpu0"}
    story.get("a", timeout=120)
    story.wait(100)
    assert story.state("a") is State.PARKED
    story.wait(30)
    assert story.state("a") is State.UNLOADING


def test_parking_that_fails_ends_the_model() -> None:
    story = idle()
    story.answer_drain("a")
    story.tell(events.ParkFailed(worker=story.worker("a"), model="a", reason="boom"))
    assert story.state("a") is State.UNLOADING


def test_a_request_that_comes_during_parking_is_served_after() -> None:
    story = idle()
    story.answer_drain("a")
    request = story.get("a")
    assert story.state("a") is State.PARKING
    story.tell(events.ObjectParked(worker=story.worker("a"), model="a"))
    assert story.state("a") is State.LOADING
    story.tell(events.ObjectReady(worker=story.worker("a"), model="a", parks=True))
    assert story.granted(request)


def test_a_parked_model_is_unloaded_by_name() -> None:
    story = parked()
    request = story.unload("a")
    story.exit("a", status=0)
    assert request in story.answers
    assert story.free("gpu0") == 10


@pytest.mark.parametrize("state", [State.PARKING, State.PARKED])
def test_a_worker_that_dies_while_parked_leaves_its_model_cold(state: State) -> None:
    story = parked() if state is State.PARKED else idle()
    if state is State.PARKING:
        story.answer_drain("a")
    story.exit("a", signal=9)
    assert story.state("a") is State.COLD
    assert story.free("gpu0") == 10


def adopted(first: Story, state: str = "parked", gpus_gib: Sequence[float] = (10,)) -> Story:
    """The same machine with a new manager, which is told of a parked model."""
    start = next(e for e in first.effects if isinstance(e, effects.StartWorker))
    report = events.WorkerReport(
        worker="adopted",
        pid=7,
        started=first.now,
        endpoint="/run/x",
        memo=start.memo,
        objects=(events.ObjectReport(model="a", state=state, since=first.now, parks=True),),
    )
    model = first.core.world.models["a"].spec
    story = Story(model, gpus_gib=gpus_gib, sizes={"a": 6}, settings=NO_MARGIN, host=False)
    story.now = first.now
    story.holds["adopted", "gpu0"] = 300 * MIB
    story.tell(events.HostFound(workers=(report,)))
    return story


def test_a_parked_model_is_adopted_as_it_is() -> None:
    story = adopted(parked())
    assert story.state("a") is State.PARKED
    story.wait(1)
    story.sample("gpu0")
    assert story.core.world.ledger.held(story.worker("a"))["gpu0"] == 300 * MIB


def test_a_model_that_is_parking_is_adopted_with_ram_for_what_it_moves() -> None:
    first = idle()
    first.answer_drain("a")
    story = adopted(first, state="parking")
    assert story.state("a") is State.PARKING
    story.tell(events.WorkerMeasured(worker="adopted", bytes_by_device={"ram": GIB}))
    assert story.core.world.ledger.held("adopted") == {"gpu0": 6 * GIB, "ram": int(6.6 * GIB)}
    story.tell(events.ObjectParked(worker="adopted", model="a"))
    story.tell(events.WorkerMeasured(worker="adopted", bytes_by_device={"ram": GIB}))
    assert story.core.world.ledger.held("adopted") == {"gpu0": 300 * MIB, "ram": GIB}


def test_an_adopted_parked_model_comes_back_only_where_there_is_room() -> None:
    story = adopted(parked())
    story.strangers["gpu0"] = 7 * GIB
    story.get("a", timeout=60)
    assert story.count(effects.UnparkObject) == 0
    story.strangers["gpu0"] = 0
    story.sample("gpu0")
    assert story.count(effects.UnparkObject) == 1


def test_an_adopted_parked_model_that_is_back_is_booked_with_no_more_ram_than_before() -> None:
    story = adopted(parked())
    story.tell(events.WorkerMeasured(worker="adopted", bytes_by_device={"ram": 3 * GIB}))
    story.get("a", timeout=60)
    story.tell(events.ObjectReady(worker="adopted", model="a", parks=True))
    story.tell(events.WorkerMeasured(worker="adopted", bytes_by_device={"ram": GIB // 2}))
    assert story.core.world.ledger.held("adopted") == {"gpu0": 6 * GIB, "ram": int(0.6 * GIB)}


def test_an_adopted_parked_model_whose_gpu_is_taken_loads_elsewhere() -> None:
    story = adopted(parked(device="gpu"), gpus_gib=(10, 8))
    story.strangers["gpu0"] = 9 * GIB
    for _ in range(2):
        story.sample("gpu0")
    story.get("a", timeout=60)
    assert (story.state("a"), story.devices_of("a")[0]) == (State.LOADING, "gpu1")


def test_a_parked_model_whose_gpu_is_reserved_waits_for_room_elsewhere() -> None:
    story = adopted(parked(device="gpu"), gpus_gib=(10, 8))
    story.tell(events.Reserve(request=next(story.requests), device="gpu0", bytes=7 * GIB, holder=1000))
    story.strangers["gpu1"] = 3 * GIB
    story.sample("gpu1")
    request = story.get("a", timeout=60)
    assert request not in story.answers
    assert story.core.world.workers["adopted"].stopping
    story.strangers["gpu1"] = 0
    story.sample("gpu1")
    assert (story.state("a"), story.devices_of("a")[0]) == (State.LOADING, "gpu1")


def test_a_parked_model_stays_parked_where_nothing_else_is_allowed_to_it() -> None:
    story = adopted(parked(device="gpu"), gpus_gib=(10, 7))
    story.pin("a")  # it may have no more than three quarters of either GPU
    story.strangers["gpu0"] = 9 * GIB
    story.strangers_last()
    request = story.get("a", timeout=60)
    assert isinstance(story.answers[request], answers.NoRoom)
    assert story.state("a") is State.PARKED


def test_a_parked_model_whose_file_is_gone_comes_back_where_it_was() -> None:
    story = adopted(parked())
    story.unpredictable = {"a"}
    story.strangers["gpu0"] = 7 * GIB
    request = story.get("a", timeout=60)
    assert story.state("a") is State.PARKED
    assert request not in story.answers
    story.strangers["gpu0"] = 0
    story.sample("gpu0")
    assert story.count(effects.UnparkObject) == 1


def test_a_model_that_does_not_get_parked_is_ended() -> None:
    story = idle(load_timeout_s=60)
    story.answer_drain("a")
    request = story.get("a")
    story.wait(61)
    assert story.state("a") is State.UNLOADING
    story.exit("a", signal=9)
    story.ready("a")
    assert story.granted(request).cold_start


def test_an_adopted_parked_model_waits_for_the_driver_to_show_its_gpu() -> None:
    memo = {"model": "a", "identity": spec("a").identity, "booking": {"gpu0": 6 * GIB, "ram": GIB}, "gpus": ("gpu0",)}
    object_ = events.ObjectReport(model="a", state="parked", since=90.0, load_s=2.0, parks=True)
    report = events.WorkerReport(worker="w1", pid=7, started=50.0, endpoint="e", memo=memo, objects=(object_,))
    story = Story(spec("a"), host=False)
    story.tell(events.HostFound(workers=(report,)))
    request = story.get("a", timeout=60)
    assert request not in story.answers
    story.devices["gpu0"] = 10 * GIB
    story.sample("gpu0")
    assert story.state("a") is State.LOADING


def test_a_parked_model_is_not_ended_for_room_that_was_seen_long_ago() -> None:
    story = parked("gpu")
    story.devices["gpu1"] = 10 * GIB
    story.sample("gpu1")
    story.strangers = {"gpu0": 8 * GIB, "gpu1": 8 * GIB}
    story.wait(14)
    story.sample("gpu0")
    story.get("a", timeout=60)
    assert story.state("a") is State.PARKED


def test_an_unload_of_a_parked_model_ends_the_wait_for_its_way_back() -> None:
    story = parked()
    busy = story.get("b")
    story.ready("b")
    story.call(busy)
    waits = story.get("a", timeout=200)
    assert waits not in story.answers
    story.unload("a")
    assert isinstance(story.answers[waits], answers.Cancelled)
    assert story.state("a") is State.UNLOADING
