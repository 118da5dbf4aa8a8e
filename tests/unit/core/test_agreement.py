"""The host is found again by the manager that lost it: what was decided is ordered again."""

import pytest

from lazyd.core import answers, effects, events
from lazyd.core.lifecycle import State

from .story import Story, spec


def found_again(
    story: Story,
    worker: str,
    *objects: tuple[str, str],
    leases: tuple[events.LeaseReport, ...] = (),
    measured_bytes: dict[str, int] | None = None,
) -> None:
    """The host tells of one worker with these objects, by model and state."""
    reports = tuple(events.ObjectReport(model=model, state=state, since=story.now) for model, state in objects)
    memo = {"model": "gemma", "identity": spec("gemma").identity, "booking": {"ram": 1 << 30}}
    report = events.WorkerReport(
        worker=worker,
        pid=1,
        started=1.0,
        endpoint="/x",
        memo=memo,
        objects=reports,
        leases=leases,
        measured_bytes=measured_bytes or {},
    )
    story.effects.clear()
    story.tell(events.HostFound(workers=(report,)))


def test_a_stop_that_was_lost_is_ordered_again() -> None:
    story = Story(spec("gemma"))
    story.hot("gemma")
    request = story.unload("gemma")
    story.answer_drain("gemma")
    worker = story.worker("gemma")
    found_again(story, worker, ("gemma", "ready"))
    assert story.count(effects.StopWorker) == 1
    assert request not in story.answers
    story.tell(events.WorkerExited(worker=worker, status=0))
    assert story.answers[request] == answers.Unloaded(unloaded=("gemma",))


def test_what_has_grown_meanwhile_is_booked_as_it_is() -> None:
    story = Story(spec("gemma"))
    story.hot("gemma")
    found_again(story, story.worker("gemma"), ("gemma", "ready"), measured_bytes={"ram": 3 << 30})
    assert story.core.world.ledger.held(story.worker("gemma"))["ram"] == 3 << 30


@pytest.mark.parametrize(("told", "orders"), [("draining", 1), ("parking", 0), ("parked", 0)])
def test_an_order_to_park_is_given_again_unless_it_is_obeyed(told: str, orders: int) -> None:
    model = spec("gemma", device=("gpu0",), idle_timeout_s=5)
    story = Story(model, gpus_gib=(10,))
    request = story.get("gemma")
    story.tell(events.ObjectReady(worker=story.worker("gemma"), model="gemma", parks=True))
    story.end_call(story.call(request))
    story.close(request)
    story.wait(6)
    story.answer_drain("gemma")
    found_again(story, story.worker("gemma"), ("gemma", told))
    assert story.count(effects.ParkObject) == orders
    assert story.state("gemma") is (State.PARKED if told == "parked" else State.PARKING)


def test_a_drain_that_was_lost_is_ordered_again() -> None:
    story = Story(spec("gemma"))
    call = story.get("gemma")
    story.ready("gemma")
    story.call(call)
    request = story.unload("gemma")
    lease = story.granted(call).lease
    told = events.LeaseReport(
        lease=lease, token="t", model="gemma", holder=1000, granted=1.0, presented=True, called=True, in_flight=1
    )
    found_again(story, story.worker("gemma"), ("gemma", "draining"), leases=(told,))
    assert [type(effect) for effect in story.effects if not isinstance(effect, effects.Note)] == [
        effects.Resume,
        effects.Drain,
    ]
    story.end_call(call)
    story.answer_drain("gemma")
    story.exit("gemma", status=0)
    assert story.answers[request] == answers.Unloaded(unloaded=("gemma",))


def test_a_load_that_was_lost_is_ordered_again_and_one_that_has_ended_is_noticed() -> None:
    story = Story(spec("gemma"))
    request = story.get("gemma")
    worker = story.worker("gemma")
    found_again(story, worker)
    assert story.count(effects.LoadObject) == 1
    found_again(story, worker, ("gemma", "ready"))
    story.granted(request)


def test_leases_that_the_worker_has_not_heard_of_end_unpresented_and_those_given_back_are_withdrawn() -> None:
    story = Story(spec("gemma"))
    lost, kept = story.get("gemma"), story.get("gemma")
    story.ready("gemma")
    told = events.LeaseReport(
        lease=story.granted(kept).lease, token="t", model="gemma", holder=1000, granted=story.now, presented=True
    )
    stale = events.LeaseReport(lease="given back", token="t", model="gemma", holder=1000, granted=story.now)
    found_again(story, story.worker("gemma"), ("gemma", "ready"), leases=(told, stale))
    assert list(story.core.world.leases) == [story.granted(lost).lease, story.granted(kept).lease]
    assert effects.Withdraw(worker=story.worker("gemma"), lease="given back") in story.effects
    story.wait(31)
    assert list(story.core.world.leases) == [story.granted(kept).lease]
    story.tell(events.Release(request=90, lease=story.granted(lost).lease, holder=1000))
    assert isinstance(story.answers[90], answers.NoSuchLease)


def test_a_worker_whose_start_was_lost_is_started_anew_and_nobody_is_blamed() -> None:
    story = Story(spec("gemma"))
    request = story.get("gemma")
    story.effects.clear()
    story.tell(events.HostFound())
    assert story.count(effects.StartWorker) == 1
    assert story.state("gemma") is State.LOADING
    story.ready("gemma")
    story.granted(request)


def test_nothing_is_started_while_the_host_is_away_and_what_serves_goes_on() -> None:
    story = Story(spec("hot"), spec("cold"))
    story.hot("hot")
    story.tell(events.HostAway())
    story.granted(story.get("hot"))
    request = story.get("cold")
    assert story.state("cold") is State.COLD
    worker = story.worker("hot")
    memo = {"model": "hot", "identity": spec("hot").identity, "booking": {"ram": 1 << 30}}
    objects = (events.ObjectReport(model="hot", state="ready", since=story.now),)
    report = events.WorkerReport(worker=worker, pid=1, started=1.0, endpoint="/x", memo=memo, objects=objects)
    story.tell(events.HostFound(workers=(report,)))
    story.ready("cold")
    story.granted(request)


def test_a_worker_that_was_given_up_and_starts_all_the_same_is_ended() -> None:
    story = Story(spec("gemma"))
    story.tell(events.WorkerStarted(worker="unknown", pid=7))
    assert story.effects[-1] == effects.StopWorker(worker="unknown", grace_s=0.0)
