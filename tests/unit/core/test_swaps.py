"""A name goes over to another version while the old one is in memory."""

from typing import Any

import pytest

from lazyd.core import answers, effects, events
from lazyd.core.lifecycle import State
from lazyd.core.spec import GIB, ModelSpec, Swap, Warmup, WarmupMode
from lazyd.core.why import why

from .story import Story, spec

OLD, NEW = spec("ocr:3"), spec("ocr:4")


def version(story: Story, request: int) -> str:
    return story.granted(request).version


def busy(**fields: object) -> tuple[Story, int]:
    """The old version serves a call by the name."""
    story = Story(OLD, **fields)  # type: ignore[arg-type]
    request = story.get("ocr")
    story.ready("ocr:3")
    return story, story.call(request)


def stopped_first(*configured: ModelSpec) -> tuple[Story, int]:
    """The old version has left for the new one, which loads; somebody waits for that."""
    story, first = busy()
    story.configure(*configured)
    waits = story.get("ocr")
    story.end_call(first)
    story.close(first)
    story.answer_drain("ocr:3")
    story.exit("ocr:3", status=0)
    return story, waits


def use(story: Story) -> None:
    """The old version has been used by the name, and is idle."""
    request = story.get("ocr")
    story.ready("ocr:3")
    story.end_call(story.call(request))
    story.close(request)


def notes(story: Story, kind: str) -> list[str | None]:
    return [note.reason for note in story.effects if isinstance(note, effects.Note) and note.kind == kind]


def revoked(story: Story) -> list[str]:
    return [effect.lease for effect in story.effects if isinstance(effect, effects.Revoke)]


def test_the_old_version_answers_until_the_new_one_is_ready_then_its_clients_move_and_it_leaves() -> None:
    story, first = busy()
    story.configure(OLD, NEW)
    assert story.state("ocr:4") is State.LOADING
    assert version(story, story.get("ocr")) == "3"
    assert revoked(story) == []
    story.ready("ocr:4")
    assert version(story, story.get("ocr")) == "4"
    assert story.granted(first).lease in revoked(story)
    story.end_call(first)
    story.close(first)
    story.wait(6)
    assert story.state("ocr:3") is State.DRAINING
    story.answer_drain("ocr:3")
    assert story.state("ocr:3") is State.UNLOADING
    assert notes(story, "swapped") == ["ocr has gone over to it from ocr:3: it is ready"]


def test_a_name_whose_version_is_cold_goes_over_at_once() -> None:
    story = Story(OLD)
    story.get("ocr", timeout=1)
    story.wait(1)
    story.tell(events.ObjectFailed(worker=story.worker("ocr:3"), model="ocr:3", reason="x"))
    story.configure(OLD, NEW)
    story.get("ocr")
    assert story.state("ocr:4") is State.LOADING


def test_who_waits_for_the_old_version_waits_for_the_new_one_when_the_name_goes_over() -> None:
    story = Story(OLD)
    request = story.get("ocr")
    story.configure(NEW)
    assert request not in story.answers
    story.ready("ocr:4")
    assert version(story, request) == "4"


def test_a_version_that_is_configured_no_more_answers_until_the_next_is_ready() -> None:
    story, _ = busy()
    story.configure(NEW)
    assert version(story, story.get("ocr")) == "3"
    assert isinstance(story.answers[story.get("ocr:3")], answers.ModelNotFound)
    story.ready("ocr:4")
    assert version(story, story.get("ocr")) == "4"
    assert story.state("ocr:3") is State.DRAINING


def test_a_new_version_that_fails_leaves_the_old_one_and_is_tried_again_after_the_pause() -> None:
    story, _ = busy()
    story.configure(OLD, NEW)
    story.tell(events.ObjectFailed(worker=story.worker("ocr:4"), model="ocr:4", reason="bad weights"))
    story.exit("ocr:4", status=0)
    assert version(story, story.get("ocr")) == "3"
    [told] = notes(story, "swap failed")
    assert told is not None
    assert "bad weights" in told
    assert "stays with ocr:3" in told
    story.wait(2)
    assert story.state("ocr:4") is State.LOADING
    story.ready("ocr:4")
    assert version(story, story.get("ocr")) == "4"


def test_a_warm_up_beside_the_calls_of_others_ends_well_before_anything_moves() -> None:
    story, _ = busy()
    story.configure(OLD, spec("ocr:4", warmup=Warmup(mode=WarmupMode.ASYNC)))
    story.wait(1)
    worker = story.worker("ocr:4")
    story.tell(events.ObjectReady(worker=worker, model="ocr:4", warmup="waiting"))
    assert version(story, story.get("ocr")) == "3"
    story.tell(events.WarmupEnded(worker=worker, model="ocr:4", problem="nothing but zeros"))
    assert version(story, story.get("ocr")) == "3"
    story.answer_drain("ocr:4")
    story.exit("ocr:4", status=0)
    story.wait(2)
    worker = story.worker("ocr:4")
    story.tell(events.ObjectReady(worker=worker, model="ocr:4", warmup="waiting"))
    story.tell(events.WarmupEnded(worker=worker, model="ocr:4"))
    assert version(story, story.get("ocr")) == "4"


def test_where_both_do_not_fit_the_old_one_answers_on_and_others_get_their_room() -> None:
    story = Story(OLD, spec("other"), ram_gib=10, sizes={"ocr:3": 6, "ocr:4": 6, "other": 3})
    story.hot("ocr:3")
    assert version(story, story.get("ocr")) == "3"
    story.wait(40)
    story.configure(OLD, NEW, spec("other"))
    story.wait(60)
    assert story.state("ocr:3") is State.READY
    assert story.state("ocr:4") is State.COLD
    story.get("other")
    story.wait(1)
    assert story.state("other") is State.LOADING


def test_why_says_what_a_new_version_waits_for_and_what_answers_meanwhile() -> None:
    story = Story(OLD, ram_gib=10, sizes={"ocr:3": 6, "ocr:4": 6})
    use(story)
    story.configure(OLD, NEW)
    story.wait(3)
    said = " ".join(why(story.core.world, story.core.world.models["ocr:4"]))
    assert "ocr goes over to it, and others answer meanwhile; that has been so for 3.0 s" in said
    assert "ocr:3 holds 6.0 GiB: it answers until ocr:4 is ready" in said


def test_room_that_idle_models_hold_is_taken_for_the_new_version() -> None:
    story = Story(OLD, spec("other"), ram_gib=10, sizes={"ocr:3": 4, "ocr:4": 4, "other": 4})
    story.hot("other")
    story.wait(30)
    use(story)
    story.configure(OLD, NEW, spec("other"))
    story.answer_drain("other")
    story.exit("other", status=0)
    assert story.state("ocr:4") is State.LOADING


def test_the_new_version_is_not_evicted_while_it_loads_as_if_nobody_wanted_it() -> None:
    story = Story(OLD, spec("other"), ram_gib=10, sizes={"ocr:3": 4, "ocr:4": 4, "other": 4})
    use(story)
    story.configure(OLD, NEW, spec("other"))
    story.get("other")
    story.wait(1)
    assert story.state("ocr:4") is State.LOADING


def test_when_the_old_version_leaves_for_another_reason_the_name_goes_over_at_once() -> None:
    story, _ = busy()
    story.configure(OLD, NEW)
    story.exit("ocr:3", signal=9)
    request = story.get("ocr")
    assert request not in story.answers
    story.ready("ocr:4")
    assert version(story, request) == "4"
    assert story.state("ocr:3") is State.COLD


def test_going_back_during_a_swap_ends_it_and_nobody_is_moved() -> None:
    story, _ = busy()
    story.configure(OLD, NEW)
    story.configure(OLD)
    assert version(story, story.get("ocr")) == "3"
    assert revoked(story) == []
    assert story.core.world.routes["ocr"].before is None


def test_a_version_that_is_asked_for_by_its_own_name_stays_when_it_is_replaced() -> None:
    story, first = busy()
    story.configure(OLD, NEW)
    story.ready("ocr:4")
    story.end_call(first)
    story.close(first)
    own = story.get("ocr:3")
    story.end_call(story.call(own))
    story.wait(30)
    assert story.state("ocr:3") is State.READY


def test_a_version_that_leaves_as_it_was_replaced_is_kept_by_the_next_who_asks_for_it() -> None:
    story, first = busy()
    story.configure(OLD, NEW)
    story.ready("ocr:4")
    story.end_call(first)
    story.close(first)
    assert story.state("ocr:3") is State.DRAINING
    assert version(story, story.get("ocr:3")) == "3"
    assert story.state("ocr:3") is State.READY


def test_a_pinned_version_stays_when_it_is_replaced() -> None:
    story = Story(spec("ocr:3", pin=True))
    use(story)
    story.configure(spec("ocr:3", pin=True), NEW)
    story.ready("ocr:4")
    story.wait(60)
    assert story.state("ocr:3") is State.READY


def test_stop_first_lets_the_old_one_finish_and_leave_before_the_new_one_is_loaded() -> None:
    story, first = busy()
    story.configure(OLD, spec("ocr:4", swap=Swap.STOP_FIRST))
    waits = story.get("ocr")
    assert story.granted(first).lease in revoked(story)
    story.wait(30)
    assert story.state("ocr:4") is State.COLD
    story.end_call(first)
    story.close(first)
    story.answer_drain("ocr:3")
    assert story.state("ocr:4") is State.COLD
    story.exit("ocr:3", status=0)
    assert story.state("ocr:4") is State.LOADING
    story.ready("ocr:4")
    assert version(story, waits) == "4"


def test_stop_first_goes_back_to_the_old_one_if_the_new_one_fails_until_that_is_promoted() -> None:
    story, waits = stopped_first(OLD, spec("ocr:4", swap=Swap.STOP_FIRST))
    story.exit("ocr:4", status=1)
    assert waits not in story.answers
    story.ready("ocr:3")
    assert version(story, waits) == "3"
    (failed,) = [e for e in story.effects if isinstance(e, effects.Note) and e.kind == "swap failed"]
    assert "ocr:3 answers for ocr again until it is promoted" in str(failed.reason)
    story.wait(30)
    assert story.state("ocr:3") is State.READY, "the new one is not tried again at the cost of the old one"
    story.promote("ocr", None)
    again = story.get("ocr")
    story.answer_drain("ocr:3")
    story.exit("ocr:3", status=0)
    story.ready("ocr:4")
    assert version(story, again) == "4"


def test_stop_first_cannot_go_back_to_what_is_configured_no_more() -> None:
    story, waits = stopped_first(spec("ocr:4", swap=Swap.STOP_FIRST))
    story.exit("ocr:4", status=1)
    assert isinstance(story.answers[waits], answers.LoadFailed)
    (failed,) = [e for e in story.effects if isinstance(e, effects.Note) and e.kind == "swap failed"]
    assert "ocr:3, which has left for it, is not configured" in str(failed.reason)


def test_stop_first_does_not_wait_for_one_that_somebody_wants_by_its_own_name() -> None:
    story, _ = busy()
    story.configure(OLD, spec("ocr:4", swap=Swap.STOP_FIRST))
    story.get("ocr")
    story.get("ocr:3")
    assert story.state("ocr:4") is State.LOADING


def test_an_alias_that_is_edited_goes_over_by_a_swap_and_what_another_alias_means_stays() -> None:
    story = Story(OLD, NEW, aliases={"reader": "ocr:3", "stable": "ocr:3"})
    for name in ("reader", "stable"):
        story.hot("ocr:3")
        assert version(story, story.get(name)) == "3"
    story.configure(OLD, NEW, aliases={"reader": "ocr:4", "stable": "ocr:3"})
    story.ready("ocr:4")
    assert version(story, story.get("reader")) == "4"
    story.wait(60)
    assert story.state("ocr:3") is State.READY
    assert version(story, story.get("stable")) == "3"


@pytest.mark.parametrize("configured", [(OLD, NEW), (NEW,)], ids=["both", "the new one alone"])
def test_a_manager_that_finds_clients_of_the_old_version_goes_on_with_the_swap(configured: tuple[Any, ...]) -> None:
    story = Story(*configured, host=False)
    lease = events.LeaseReport(
        lease="l", token="t", model="ocr:3", holder=1000, granted=1.0, presented=True, called=True, route="ocr"
    )
    told = events.ObjectReport(model="ocr:3", state="ready", since=1.0, load_s=1.0, last_used=2.0)
    memo = {"model": "ocr:3", "identity": OLD.identity, "booking": {"ram": GIB}}
    worker = events.WorkerReport(
        worker="w", pid=1, started=0.5, endpoint="/w", memo=memo, objects=(told,), leases=(lease,)
    )
    story.tell(events.HostFound(workers=(worker,)))
    assert version(story, story.get("ocr")) == "3"
    assert story.state("ocr:4") is State.LOADING
    assert revoked(story) == []
    story.ready("ocr:4")
    assert revoked(story)[0] == "l"
    assert version(story, story.get("ocr")) == "4"


def test_an_order_to_ask_anew_that_was_lost_with_the_host_is_given_again() -> None:
    story, first = busy()
    story.tell(events.HostAway())
    story.configure(OLD, spec("ocr:4", swap=Swap.STOP_FIRST))
    lease, worker = story.granted(first), story.worker("ocr:3")
    told = events.LeaseReport(
        lease=lease.lease, token=lease.token, model="ocr:3", holder=1000, granted=1.0, presented=True, route="ocr"
    )
    ready = events.ObjectReport(model="ocr:3", state="ready", since=1.0)
    memo = {"model": "ocr:3", "identity": OLD.identity, "booking": {"ram": GIB}}
    report = events.WorkerReport(
        worker=worker, pid=1, started=0.5, endpoint="/w", memo=memo, objects=(ready,), leases=(told,)
    )
    before = len(revoked(story))
    story.tell(events.HostFound(workers=(report,)))
    assert revoked(story)[before:] == [lease.lease]


@pytest.mark.parametrize("event", [events.HostLost(), events.HostAway()])
def test_a_swap_outlives_a_host_that_is_away_and_ends_with_one_that_is_lost(event: events.Event) -> None:
    story, _ = busy()
    story.configure(OLD, NEW)
    story.tell(event)
    is_lost = isinstance(event, events.HostLost)
    assert (story.core.world.routes["ocr"].before is None) is is_lost


def test_a_version_that_one_name_leaves_and_another_comes_to_mean_stays() -> None:
    story = Story(OLD, NEW, aliases={"reader": "ocr:3", "stable": "ocr:4"})
    for model in ("ocr:3", "ocr:4"):
        story.hot(model)
    for name in ("reader", "stable"):
        request = story.get(name)
        story.end_call(story.call(request))
    story.configure(OLD, NEW, aliases={"reader": "ocr:4", "stable": "ocr:3"})
    story.wait(20)
    assert [story.state(model) for model in ("ocr:3", "ocr:4")] == [State.READY, State.READY]
