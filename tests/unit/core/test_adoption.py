"""A new manager finds workers: the ledger, the leases and the loads are as before."""

import dataclasses

import msgspec

from lazyd.core import answers, effects, events
from lazyd.core.lifecycle import State
from lazyd.core.spec import GIB

from .story import TRANSIENT, Story, spec


def found(key: str, *, identity: str = "", worker: str = "w1", gib: int = 4, **fields: object) -> events.WorkerReport:
    memo = {"model": key, "identity": identity or spec(key).identity, "booking": {"ram": gib * GIB}}
    return events.WorkerReport(worker=worker, pid=7, started=50.0, endpoint=f"/run/{worker}.sock", memo=memo, **fields)


def ready(key: str, **fields: object) -> events.ObjectReport:
    return events.ObjectReport(model=key, state="ready", since=90.0, load_s=2.0, **fields)


def lease(key: str, name: str = "l1", **fields: object) -> events.LeaseReport:
    return events.LeaseReport(lease=name, token="t1", model=key, holder=1000, granted=95.0, **fields)


def test_a_hot_model_stays_hot_and_booked() -> None:
    story = Story(spec("gemma"), host=False)
    story.tell(events.HostFound(workers=(found("gemma", objects=(ready("gemma", last_used=99.0),)),)))
    assert story.state("gemma") is State.READY
    assert story.free_gib == 6
    granted = story.granted(story.get("gemma"))
    assert (granted.worker, granted.endpoint, granted.cold_start) == ("w1", "/run/w1.sock", False)
    assert story.count(effects.StartWorker) == 0


def test_a_model_that_can_park_is_known_to_by_the_next_manager() -> None:
    story = Story(spec("gemma"), host=False)
    story.tell(events.HostFound(workers=(found("gemma", objects=(ready("gemma", parks=True),)),)))
    instance = story.core.world.models["gemma"].instance
    assert instance is not None
    assert instance.parks


def test_the_count_of_loads_goes_on() -> None:
    before = Story(spec("gemma"))
    before.hot("gemma")
    (memo,) = (done.memo for done in before.effects if isinstance(done, effects.StartWorker))
    after = Story(spec("gemma"), host=False)
    report = events.WorkerReport(
        worker="w1", pid=7, started=50.0, endpoint="/run/w1.sock", memo=memo, objects=(ready("gemma"),)
    )
    after.tell(events.HostFound(workers=(report,)))
    assert after.core.world.models["gemma"].loads == before.core.world.models["gemma"].loads == 1


def test_a_transient_model_whose_last_lease_ended_without_a_manager_leaves() -> None:
    story = Story(spec("gemma", tier=TRANSIENT), host=False)
    story.tell(events.HostFound(workers=(found("gemma", objects=(ready("gemma", last_used=99.0),)),)))
    assert story.state("gemma") is State.DRAINING


def test_a_transient_model_that_nobody_has_used_yet_stays() -> None:
    story = Story(spec("gemma", tier=TRANSIENT), host=False)
    story.tell(events.HostFound(workers=(found("gemma", objects=(ready("gemma"),)),)))
    assert story.state("gemma") is State.READY


def test_a_load_under_way_goes_on_and_its_waiters_are_answered() -> None:
    story = Story(spec("gemma"), host=False)
    request = story.get("gemma")
    loading = events.ObjectReport(model="gemma", state="loading", since=95.0)
    story.tell(events.HostFound(workers=(found("gemma", objects=(loading,)),)))
    assert story.count(effects.LoadObject) == 0
    story.tell(events.ObjectReady(worker="w1", model="gemma"))
    story.granted(request)
    record = story.core.world.models["gemma"]
    assert record.last_load_s == 5.0


def test_a_call_in_flight_goes_on_protecting_its_model() -> None:
    story = Story(spec("gemma", idle_timeout_s=60.0), host=False)
    busy = lease("gemma", presented=True, called=True, in_flight=1)
    story.tell(events.HostFound(workers=(found("gemma", objects=(ready("gemma"),), leases=(busy,)),)))
    story.wait(3600)
    assert story.state("gemma") is State.READY
    story.tell(events.LeaseIdle(worker="w1", lease="l1"))
    story.wait(60)
    assert story.state("gemma") is State.DRAINING


def test_the_last_use_is_remembered() -> None:
    story = Story(spec("gemma", idle_timeout_s=60.0), host=False)
    story.tell(events.HostFound(workers=(found("gemma", objects=(ready("gemma", last_used=99.0),)),)))
    story.wait(58)
    assert story.state("gemma") is State.READY
    story.wait(1)
    assert story.state("gemma") is State.DRAINING


def test_a_lease_that_nobody_had_presented_can_be_claimed_again_by_its_holder() -> None:
    story = Story(spec("gemma"), host=False)
    story.tell(events.HostFound(workers=(found("gemma", objects=(ready("gemma"),), leases=(lease("gemma"),)),)))
    granted = story.granted(story.get("gemma", lease="l1"))
    assert (granted.lease, granted.token) == ("l1", "t1")
    assert story.granted(story.get("gemma", lease="l1", holder=1001)).lease != "l1"


def test_a_lease_that_nobody_claims_ends_30_seconds_after_the_restart() -> None:
    story = Story(spec("gemma"), host=False)
    story.tell(events.HostFound(workers=(found("gemma", objects=(ready("gemma"),), leases=(lease("gemma"),)),)))
    story.wait(29)
    assert story.count(effects.Withdraw) == 0
    story.wait(2)
    assert story.count(effects.Withdraw) == 1


def test_a_worker_of_a_model_no_longer_configured_is_ended_not_left_unknown() -> None:
    story = Story(spec("other"), host=False)
    story.tell(events.HostFound(workers=(found("gemma", objects=(ready("gemma"),)),)))
    assert story.free_gib == 6
    drain = next(effect for effect in story.effects if isinstance(effect, effects.Drain))
    story.tell(events.Drained(worker="w1", model="gemma", drain=drain.drain))
    story.tell(events.WorkerExited(worker="w1", status=0))
    assert story.free_gib == 10


def test_a_worker_of_an_older_configuration_finishes_and_is_replaced() -> None:
    story = Story(spec("gemma"), host=False)
    story.tell(events.HostFound(workers=(found("gemma", identity="older", objects=(ready("gemma"),)),)))
    assert story.state("gemma") is State.DRAINING


def test_a_worker_without_an_object_is_ended() -> None:
    story = Story(spec("gemma"), host=False)
    story.tell(events.HostFound(workers=(found("gemma"),)))
    assert isinstance(story.effects[-1], effects.StopWorker | effects.Note)
    assert story.count(effects.StopWorker) == 1


def test_a_drain_of_the_last_manager_is_undone() -> None:
    story = Story(spec("gemma"), host=False)
    draining = events.ObjectReport(model="gemma", state="draining", since=90.0, load_s=1.0)
    story.tell(events.HostFound(workers=(found("gemma", objects=(draining,)),)))
    assert story.state("gemma") is State.READY
    assert story.count(effects.Resume) == 1


def test_a_family_is_adopted_with_its_places() -> None:
    story = Story(spec("strategy/*", max_loaded=2), host=False)
    objects = tuple(ready(f"strategy/{name}") for name in ("alpha", "beta"))
    story.tell(events.HostFound(workers=(found("strategy/*", objects=objects),)))
    assert story.core.world.ledger.devices["slots:strategy/*"].free_bytes == 0
    assert story.state("strategy/alpha") is State.READY


def test_pins_outlive_restarts() -> None:
    story = Story(spec("gemma", idle_timeout_s=60.0), host=False)
    story.configure(spec("gemma", idle_timeout_s=60.0), pins=("gemma",))
    story.tell(events.HostFound(workers=(found("gemma", objects=(ready("gemma"),)),)))
    story.wait(3600)
    assert story.state("gemma") is State.READY


def test_a_worker_that_the_host_does_not_know_is_gone() -> None:
    story = Story(spec("gemma"))
    story.hot("gemma")
    story.tell(events.HostFound())
    assert story.free_gib == 10
    assert story.state("gemma") is State.COLD
    assert not isinstance(story.answers[1], answers.Refusal)
    assert dataclasses.is_dataclass(story.core.world)


def test_of_two_lives_of_one_model_the_one_that_serves_stays() -> None:
    story = Story(spec("gemma"), host=False)
    loading = events.ObjectReport(model="gemma", state="loading", since=99.0)
    story.tell(
        events.HostFound(
            workers=(
                found("gemma", worker="serves", objects=(ready("gemma"),)),
                found("gemma", worker="loads", objects=(loading,)),
            )
        )
    )
    assert story.granted(story.get("gemma")).worker == "serves"
    assert [effect.worker for effect in story.effects if isinstance(effect, effects.StopWorker)] == ["loads"]
    story.tell(events.WorkerExited(worker="loads", status=0))
    assert story.state("gemma") is State.READY
    assert story.free_gib == 6


def test_what_is_adopted_was_never_a_stranger() -> None:
    """Until the host is found, all that is used seems to be used by others."""
    story = Story(spec("gemma"), ram_gib=10, host=False)
    for _ in range(2):
        story.sample("ram", used_bytes=6 * GIB, held_bytes={})
        story.now += 0.1
    story.tell(events.HostFound(workers=(found("gemma", gib=6, objects=(ready("gemma", last_used=99.0),)),)))
    assert story.state("gemma") is State.READY


def test_what_is_adopted_on_a_gpu_that_was_lost_before_it_was_seen_is_ended() -> None:
    story = Story(spec("gemma"), host=False)
    story.tell(events.DeviceLost(name="gpu0", reason="it has fallen off the bus"))
    report = found("gemma", objects=(ready("gemma", last_used=99.0),))
    memo = {**report.memo, "booking": {"gpu0": 4 * GIB}, "gpus": ("gpu0",), "way": "gpu"}
    story.tell(events.HostFound(workers=(msgspec.structs.replace(report, memo=memo),)))
    assert story.state("gemma") is State.UNLOADING


def test_a_life_that_was_given_up_takes_nobody_out_of_the_line_when_it_has_gone() -> None:
    busy = found("busy", worker="w3", gib=5, objects=(ready("busy", last_used=60.0),), leases=(busy_lease(),))
    loading = events.ObjectReport(model="a", state="loading", since=90.0, load_s=None)
    reports = (
        found("a", worker="w1", gib=1, objects=(ready("a"),)),
        found("a", worker="w2", gib=1, objects=(loading,)),
        busy,
    )
    story = Story(spec("a"), spec("busy"), host=False, sizes={"a": 6})
    story.tell(events.HostFound(workers=reports))
    story.tell(events.WorkerExited(worker="w1", status=1))
    request = story.get("a", timeout=1000)
    story.tell(events.WorkerExited(worker="w2"))
    story.tell(events.LeaseIdle(worker="w3", lease="l1"))
    story.tell(events.LeaseClosed(worker="w3", lease="l1"))
    story.tell(events.WorkerExited(worker="w3"))
    story.ready("a")
    story.granted(request)


def busy_lease() -> events.LeaseReport:
    return lease("busy", presented=True, called=True, in_flight=1)
