"""What a worker really holds: bookings rise with it, and what was learned is told."""

from lazyd.core import effects, events
from lazyd.core.lifecycle import State
from lazyd.core.needs import Forecast, Need
from lazyd.core.spec import GIB, Settings

from .story import RESIDENT, Story, spec, ways


def measure(story: Story, model: str, gib: float) -> None:
    story.tell(events.WorkerMeasured(worker=story.worker(model), bytes_by_device={"ram": int(gib * GIB)}))


def notes(story: Story) -> list[str]:
    return [effect.kind for effect in story.effects if isinstance(effect, effects.Note)]


def test_growth_beyond_a_booking_is_booked_and_said() -> None:
    story = Story(spec("a"), sizes={"a": 4})
    story.hot("a")
    measure(story, "a", 4.5)
    assert story.free_gib == 5.5
    assert notes(story).count("grew") == 1
    assert "outgrew" not in notes(story)


def test_much_more_than_was_booked_is_reported_once() -> None:
    story = Story(spec("a"), sizes={"a": 4})
    story.hot("a")
    measure(story, "a", 5.5)
    measure(story, "a", 6.5)
    assert notes(story).count("outgrew") == 1
    assert story.state("a") is State.READY


def test_with_a_hard_limit_it_is_ended_when_it_is_idle() -> None:
    story = Story(spec("a", hard_limit=True), sizes={"a": 4})
    request = story.get("a")
    story.ready("a")
    story.call(request)
    measure(story, "a", 5.5)
    assert story.state("a") is State.READY
    story.end_call(request)
    assert story.state("a") is State.DRAINING


def test_a_resident_with_a_hard_limit_is_restarted() -> None:
    story = Story(spec("a", hard_limit=True, tier=RESIDENT), sizes={"a": 6})
    story.ready("a")
    measure(story, "a", 8)
    story.answer_drain("a")
    story.exit("a", status=0)
    assert story.state("a") is State.LOADING


def test_a_learned_service_peak_is_booked_from_readiness_on() -> None:
    known = Forecast(peak=Need(ram_bytes=6 * GIB), service=Need(ram_bytes=2 * GIB), source="learned")
    story = Story(spec("a"), predictions={"a": events.Predicted(model="a", ways={"ram": known})})
    request = story.get("a")
    assert story.free_gib == 4
    story.ready("a")
    assert story.granted(request)
    assert story.free_gib == 8


def test_what_a_worker_needed_is_told_when_it_ends() -> None:
    story = Story(spec("a"), sizes={"a": 4})
    request = story.get("a")
    measure(story, "a", 3)
    story.ready("a")
    measure(story, "a", 2)
    story.end_call(story.call(request))
    story.exit("a", status=0)
    learned = next(effect for effect in story.effects if isinstance(effect, effects.Learn))
    assert (learned.way, learned.peak, learned.service) == (
        "ram",
        Need(ram_bytes=3 * GIB),
        Need(ram_bytes=2 * GIB),
    )


def test_what_an_earlier_manager_measured_counts() -> None:
    first = Story(spec("a"), sizes={"a": 4})
    first.hot("a")
    (memo,) = (done.memo for done in first.effects if isinstance(done, effects.StartWorker))
    report = events.WorkerReport(
        worker="w1",
        pid=7,
        started=50.0,
        endpoint="/run/x",
        memo=memo,
        objects=(events.ObjectReport(model="a", state="ready", since=90.0, load_s=2.0),),
        measured_bytes={"ram": 5 * GIB},
    )
    story = Story(spec("a"), sizes={"a": 4}, host=False)
    story.tell(events.HostFound(workers=(report,)))
    measure(story, "a", 1)
    story.end_call(story.call(story.get("a")))
    story.exit("a", status=0)
    learned = next(effect for effect in story.effects if isinstance(effect, effects.Learn))
    assert learned.service == Need(ram_bytes=5 * GIB)


def test_what_is_kept_while_parked_teaches_nothing_of_loads() -> None:
    model = spec("a", device=("gpu0",), idle_timeout_s=5)
    story = Story(model, gpus_gib=(10,), sizes={"a": 4}, settings=Settings(budget={}, gpu_margin_bytes=0))
    request = story.get("a")
    measure(story, "a", 0.4)
    story.tell(events.ObjectReady(worker=story.worker("a"), model="a", parks=True))
    measure(story, "a", 0.3)
    story.end_call(story.call(request))
    story.close(request)
    story.wait(6)
    story.answer_drain("a")
    story.tell(events.ObjectParked(worker=story.worker("a"), model="a"))
    measure(story, "a", 4)
    again = story.get("a")
    measure(story, "a", 4)
    story.tell(events.ObjectReady(worker=story.worker("a"), model="a", parks=True))
    measure(story, "a", 0.3)
    story.end_call(story.call(again))
    story.exit("a", status=0)
    learned = next(effect for effect in story.effects if isinstance(effect, effects.Learn))
    assert learned.peak.ram_bytes == int(0.4 * GIB)


def test_a_worker_that_never_served_has_taught_nothing() -> None:
    story = Story(spec("a"), sizes={"a": 4})
    story.get("a")
    measure(story, "a", 1)
    story.exit("a", status=1)
    assert story.count(effects.Learn) == 0


def test_a_life_without_a_call_has_taught_nothing() -> None:
    story = Story(spec("a"), sizes={"a": 4})
    story.load("a")
    story.ready("a")
    measure(story, "a", 1)
    story.exit("a", status=0)
    assert story.count(effects.Learn) == 0


def test_gpu_peaks_come_with_samples() -> None:
    story = Story(spec("a"), gpus_gib=(10,), sizes={"a": 4}, settings=Settings(budget={}, gpu_margin_bytes=0))
    story.hot("a")
    story.holds[story.worker("a"), "gpu0"] = 5 * GIB
    story.sample("gpu0")
    assert story.free("gpu0") == 5
    story.exit("a", status=0)
    learned = next(effect for effect in story.effects if isinstance(effect, effects.Learn))
    assert learned.peak.gpu_bytes == (5 * GIB,)


def test_what_was_never_measured_was_as_booked() -> None:
    story = Story(spec("a"), gpus_gib=(10,), sizes={"a": 4})
    story.silent.add("gpu0")
    request = story.get("a")
    story.sample("gpu0", held_bytes={}, used_bytes=0)
    measure(story, "a", 0.3)
    story.ready("a")
    measure(story, "a", 0.2)
    story.end_call(story.call(request))
    story.exit("a", status=0)
    learned = next(effect for effect in story.effects if isinstance(effect, effects.Learn))
    assert learned.way == "gpu"
    assert learned.peak.gpu_bytes == (4 * GIB,)
    assert learned.service is not None
    assert learned.service.gpu_bytes == (4 * GIB,)


def test_a_load_too_quick_to_be_measured_does_not_confirm_what_was_foreseen() -> None:
    story = Story(spec("a"), sizes={"a": 4})
    request = story.get("a")
    story.ready("a", after=0.1)
    story.call(request)
    measure(story, "a", 0.25)
    story.end_call(request)
    story.exit("a", status=0)
    (learned,) = (effect for effect in story.effects if isinstance(effect, effects.Learn))
    assert learned.peak == learned.service == Need(ram_bytes=GIB // 4)


def test_of_a_load_under_an_earlier_manager_its_booking_is_all_that_is_known() -> None:
    first = Story(spec("a"), sizes={"a": 4})
    first.hot("a")
    (memo,) = (done.memo for done in first.effects if isinstance(done, effects.StartWorker))
    ready = events.ObjectReport(model="a", state="ready", since=90.0, load_s=2.0)
    found = events.WorkerReport(worker="w1", pid=7, started=50.0, endpoint="/run/x", memo=memo, objects=(ready,))
    story = Story(spec("a"), sizes={"a": 4}, host=False)
    story.tell(events.HostFound(workers=(found,)))
    measure(story, "a", 1)
    story.end_call(story.call(story.get("a")))
    story.exit("a", status=0)
    (learned,) = (effect for effect in story.effects if isinstance(effect, effects.Learn))
    assert (learned.peak, learned.service) == (Need(ram_bytes=4 * GIB), Need(ram_bytes=GIB))


def test_what_a_life_has_taught_is_of_the_files_that_were_looked_at_before_it() -> None:
    predicted = {"a": events.Predicted(model="a", ways=ways(4), digest="of v1")}
    story = Story(spec("a"), predictions=predicted)
    story.hot("a")
    measure(story, "a", 1)
    (memo,) = (done.memo for done in story.effects if isinstance(done, effects.StartWorker))
    ready = events.ObjectReport(model="a", state="ready", since=90.0, load_s=2.0)
    found = events.WorkerReport(worker="w1", pid=7, started=50.0, endpoint="/run/x", memo=memo, objects=(ready,))
    later = Story(spec("a"), predictions=predicted, host=False)
    later.tell(events.HostFound(workers=(found,)))
    later.end_call(later.call(later.get("a")))
    measure(later, "a", 1)
    for each in (story, later):
        each.exit("a", status=0)
        (learned,) = (effect for effect in each.effects if isinstance(effect, effects.Learn))
        assert learned.digest == "of v1"


def test_what_exceeded_its_booking_has_taught_so_without_a_call() -> None:
    story = Story(spec("a", hard_limit=True, tier=RESIDENT), sizes={"a": 1})
    worker = story.worker("a")
    measure(story, "a", 1.5)
    story.ready("a")
    story.answer_drain("a")
    story.tell(events.WorkerExited(worker=worker, status=0))
    (learned,) = (effect for effect in story.effects if isinstance(effect, effects.Learn))
    assert (learned.peak, learned.service) == (Need(ram_bytes=int(1.5 * GIB)), None)


def test_what_only_loading_needed_is_given_back_with_the_first_measurement_of_service() -> None:
    known = Forecast(peak=Need(ram_bytes=6 * GIB), service=Need(ram_bytes=2 * GIB), source="learned")
    story = Story(spec("a"), predictions={"a": events.Predicted(model="a", ways={"ram": known})})
    story.get("a")
    measure(story, "a", 5)
    story.ready("a")
    assert story.free_gib == 5
    measure(story, "a", 1.5)
    assert story.free_gib == 8


def test_a_family_that_has_outgrown_its_booking_is_ended_when_all_of_it_is_idle() -> None:
    story = Story(spec("s/*", hard_limit=True))
    requests = [story.get(name) for name in ("s/x", "s/y")]
    for name in ("s/x", "s/y"):
        story.ready(name)
    for request in requests:
        story.call(request)
    measure(story, "s/x", 2)
    for request, states in zip(requests, ((State.READY, State.READY), (State.DRAINING, State.DRAINING)), strict=True):
        story.end_call(request)
        story.close(request)
        assert (story.state("s/x"), story.state("s/y")) == states
