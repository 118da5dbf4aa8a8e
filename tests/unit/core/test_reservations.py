"""Reservations: memory for programs that lazyd does not run."""

from typing import Any

from lazyd.core import answers, effects, events, view
from lazyd.core.lifecycle import State
from lazyd.core.spec import GIB, Settings

from .story import Story, spec

SMALLER = Settings(budget={}, gpu_margin_bytes=0, max_reserved=0.5)
NO_MARGIN = Settings(budget={}, gpu_margin_bytes=0, max_reserved=1.0)


def with_gpu(*names: str, settings: Settings = NO_MARGIN, **sizes: float) -> Story:
    return Story(*(spec(name, device=("gpu0",)) for name in names), gpus_gib=(10,), sizes=sizes, settings=settings)


def reserve(story: Story, gib: float, **fields: Any) -> int:
    request = next(story.requests)
    given = {"device": "gpu0", "holder": 1000, "pid": 4711, "command": "train.py", **fields}
    story.tell(events.Reserve(request=request, bytes=int(gib * GIB), **given))
    return request


def held(story: Story, request: int) -> str:
    outcome = story.answers[request]
    assert isinstance(outcome, answers.Reserved), outcome
    return outcome.reservation


def test_a_reservation_is_booked_until_its_connection_closes() -> None:
    story = with_gpu()
    name = held(story, reserve(story, 8))
    assert story.free("gpu0") == 2
    story.tell(events.Unreserve(reservation=name))
    assert story.free("gpu0") == 10


def test_room_is_made_for_a_reservation_like_for_a_load() -> None:
    story = with_gpu("a", a=6)
    story.hot("a")
    story.wait(10)
    request = reserve(story, 8)
    assert story.state("a") is State.DRAINING
    assert request not in story.answers
    story.answer_drain("a")
    story.exit("a", status=0)
    assert held(story, request)
    evicted = next(e for e in story.effects if isinstance(e, effects.Note) and e.kind == "evicted")
    assert evicted.model == "a"
    assert (evicted.reason, evicted.data["room_for"]) == ('room for "train.py"', "train.py")


def test_what_a_program_uses_beyond_its_reservation_is_foreign() -> None:
    story = with_gpu()
    name = held(story, reserve(story, 4))
    for used, free in ((3, 6), (4, 6), (7, 3)):
        story.sample("gpu0", used_bytes=used * GIB, held_bytes={name: used * GIB})
        assert story.free("gpu0") == free


def test_who_does_not_wait_is_told_what_it_was_refused_for() -> None:
    story = with_gpu()
    story.sample("gpu0", used_bytes=5 * GIB)
    refusal = story.answers[reserve(story, 6, wait=False)]
    assert isinstance(refusal, answers.NoRoom)
    assert (refusal.model, refusal.needed_bytes) == ('"train.py"', 6 * GIB)


def test_a_reservation_waits_in_the_same_line_as_loads() -> None:
    story = with_gpu("a", "b", a=6, b=6)
    story.hot("a")
    call = story.call(story.get("a"))
    first = reserve(story, 8)
    story.wait(0.1)
    story.get("b", timeout=100)
    story.wait(20)
    story.end_call(call)
    story.answer_drain("a")
    story.exit("a", status=0)
    assert held(story, first)
    assert story.state("b") is State.COLD


def test_a_reservation_that_does_not_wait_is_refused_at_once() -> None:
    story = with_gpu("a", a=6)
    story.hot("a")
    story.call(story.get("a"))
    refused = story.answers[reserve(story, 8, wait=False)]
    assert isinstance(refused, answers.NoRoom)


def test_a_reservation_waits_until_its_deadline_and_says_for_what() -> None:
    story = with_gpu("a", a=6)
    story.hot("a")
    story.call(story.get("a"))
    request = reserve(story, 8, deadline=story.now + 5)
    story.wait(6)
    outcome = story.answers[request]
    assert isinstance(outcome, answers.Timeout)
    assert outcome.reason is not None
    assert "needs 8.0 GiB of gpu0" in outcome.reason


def test_a_reservation_that_can_never_be_is_refused() -> None:
    story = with_gpu()
    refused = story.answers[reserve(story, 11)]
    assert isinstance(refused, answers.NoRoom)
    assert isinstance(story.answers[reserve(story, 1, device="gpu7")], answers.NoRoom)


def test_one_user_reserves_no_more_than_a_part_of_a_device() -> None:
    story = with_gpu(settings=SMALLER)
    held(story, reserve(story, 4))
    for refused in (story.answers[reserve(story, 6)], story.answers[reserve(story, 2, wait=False)]):
        assert isinstance(refused, answers.NoRoom)
        assert "may hold 50% of gpu0 together (max_reserved)" in refused.reason
    assert held(story, reserve(story, 2, holder=1001))


def test_who_has_his_part_already_waits_for_the_end_of_his_others_and_is_told_so() -> None:
    story = with_gpu("a", settings=SMALLER, a=5)
    story.hot("a")
    story.wait(60)
    first = held(story, reserve(story, 4))
    second, third, small = reserve(story, 4), reserve(story, 4, deadline=story.now + 9), reserve(story, 1)
    story.wait(10)
    assert {second, third, small} & story.answers.keys() == {third}
    outcome = story.answers[third]
    assert isinstance(outcome, answers.Timeout)
    assert outcome.reason is not None
    assert "(max_reserved), and this user has 4.0 GiB of it already" in outcome.reason
    assert story.state("a") is State.READY, "nobody leaves for who may not have it yet"
    shown = view.wishes(story.core, story.now)
    assert all("max_reserved" in wish.why[0] for wish in shown)
    assert len(shown) == 2
    story.tell(events.Unreserve(reservation=first))
    assert held(story, second)
    assert held(story, small)


def test_a_client_that_waits_and_goes_leaves_the_line() -> None:
    story = with_gpu("a", a=6)
    story.hot("a")
    call = story.call(story.get("a"))
    request = reserve(story, 8)
    story.tell(events.Cancel(request=request))
    story.end_call(call)
    story.wait(60)
    assert request not in story.answers
    assert story.free("gpu0") == 4
    assert story.count(effects.Drain) == 0


def test_what_a_reservation_s_program_uses_is_not_counted_twice() -> None:
    story = with_gpu()
    name = held(story, reserve(story, 8))
    story.sample("gpu0", used_bytes=6 * GIB, held_bytes={name: 6 * GIB})
    assert story.free("gpu0") == 2


def test_a_model_beside_a_reservation_is_refused_with_its_name() -> None:
    story = with_gpu("a", a=6)
    held(story, reserve(story, 8))
    refused = story.answers[story.get("a")]
    assert isinstance(refused, answers.NoRoom)
    assert refused.free_bytes == 2 * GIB


def test_a_reservation_outlives_the_manager_for_its_client_to_claim_it_again() -> None:
    first = with_gpu()
    name = held(first, reserve(first, 8))
    kept = next(e for e in reversed(first.effects) if isinstance(e, effects.KeepReservations)).reservations
    story = Story(gpus_gib=(10,), settings=NO_MARGIN, host=False)
    story.tell(events.HostFound(reservations=kept))
    assert story.free("gpu0") == 2
    story.wait(20)
    assert held(story, reserve(story, 8, resume=name)) == name
    story.wait(60)
    assert story.free("gpu0") == 2


def test_a_client_that_is_quicker_than_the_host_claims_its_reservation_all_the_same() -> None:
    first = with_gpu()
    name = held(first, reserve(first, 8))
    kept = next(e for e in reversed(first.effects) if isinstance(e, effects.KeepReservations)).reservations
    story = Story(gpus_gib=(10,), settings=NO_MARGIN, host=False)
    request = reserve(story, 8, resume=name)
    assert request not in story.answers
    story.tell(events.HostFound(reservations=kept))
    assert held(story, request) == name
    story.wait(60)
    assert story.free("gpu0") == 2


def test_a_claim_that_comes_before_the_host_is_not_refused_for_a_budget_that_has_become_smaller() -> None:
    first = with_gpu()
    name = held(first, reserve(first, 8))
    kept = next(e for e in reversed(first.effects) if isinstance(e, effects.KeepReservations)).reservations
    story = Story(gpus_gib=(10,), settings=SMALLER, host=False)
    request, lost = reserve(story, 8, resume=name), reserve(story, 8, holder=1001, resume="nobody knows it")
    assert not story.answers
    story.tell(events.HostFound(reservations=kept))
    assert held(story, request) == name
    assert isinstance(story.answers[lost], answers.NoRoom)


def test_what_the_host_has_kept_counts_for_those_who_wait_already() -> None:
    first = with_gpu(settings=SMALLER)
    held(first, reserve(first, 4))
    kept = next(e for e in reversed(first.effects) if isinstance(e, effects.KeepReservations)).reservations
    story = Story(gpus_gib=(10,), settings=SMALLER, host=False)
    request = reserve(story, 2)
    story.tell(events.HostFound(reservations=kept))
    assert request not in story.answers
    story.wait(31)  # nobody has claimed it
    assert held(story, request)


def test_who_waits_is_refused_when_the_budget_has_become_too_small() -> None:
    story = with_gpu()
    held(story, reserve(story, 8))
    request = reserve(story, 8, holder=1001)
    assert request not in story.answers
    story.settings = SMALLER
    story.configure()
    assert isinstance(story.answers[request], answers.NoRoom)


def test_a_reservation_that_nobody_claims_again_is_given_back() -> None:
    first = with_gpu()
    held(first, reserve(first, 8))
    kept = next(e for e in reversed(first.effects) if isinstance(e, effects.KeepReservations)).reservations
    story = Story(gpus_gib=(10,), settings=NO_MARGIN, host=False)
    story.tell(events.HostFound(reservations=kept))
    story.wait(31)
    assert story.free("gpu0") == 10


def left_by_an_earlier_manager(*names: str, gib: float, **sizes: float) -> tuple[Story, str]:
    """A manager that has found a reservation that nobody has claimed yet, and its name."""
    kept = events.ReservationReport(id="r1", device="gpu0", bytes=int(gib * GIB), holder=1000, pid=5, command=None)
    models = [spec(name, device=("gpu0",)) for name in names]
    story = Story(*models, gpus_gib=(10,), sizes=sizes, settings=NO_MARGIN, host=False)
    story.tell(events.HostFound(reservations=(kept,)))
    return story, kept.id


def test_nobody_is_refused_for_a_reservation_that_may_not_be_claimed_again() -> None:
    story, _ = left_by_an_earlier_manager("a", gib=8, a=6)
    model, program = story.get("a", timeout=60), reserve(story, 3, holder=1001)
    story.wait(29)
    assert not {model, program} & story.answers.keys()
    story.wait(2)
    assert story.state("a") is State.LOADING
    assert held(story, program)


def test_once_it_is_claimed_again_who_does_not_fit_beside_it_is_refused() -> None:
    story, name = left_by_an_earlier_manager("a", gib=8, a=6)
    model = story.get("a", timeout=60)
    reserve(story, 8, resume=name)
    refused = story.answers[model]
    assert isinstance(refused, answers.NoRoom)
    assert "holds 8.0 GiB" in refused.reason


def test_only_who_got_a_reservation_claims_it_and_only_for_what_it_is() -> None:
    story, name = left_by_an_earlier_manager(gib=6)
    assert held(story, reserve(story, 2, resume=name, holder=1001)) != name
    assert held(story, reserve(story, 1, resume=name)) != name
    assert held(story, reserve(story, 6, resume=name)) == name


def test_a_reservation_that_is_held_cannot_be_claimed() -> None:
    story = with_gpu()
    name = held(story, reserve(story, 4))
    assert held(story, reserve(story, 4, resume=name)) != name


def test_nothing_is_reserved_on_a_device_that_is_lost_while_it_is_waited_for() -> None:
    story = with_gpu()
    first = held(story, reserve(story, 8))
    waits = reserve(story, 4, holder=1001)
    story.sample("gpu0")
    story.tell(events.DeviceLost(name="gpu0", reason="it has fallen off the bus"))
    story.tell(events.Unreserve(reservation=first))
    assert waits not in story.answers
    story.sample("gpu0")
    assert held(story, waits)


def test_the_places_of_a_family_are_not_for_reservations() -> None:
    story = Story(spec("strategy/*", max_loaded=4))
    request = next(story.requests)
    story.tell(events.Reserve(request=request, device="slots:strategy/*", bytes=3, holder=1000, pid=5))
    assert isinstance(story.answers[request], answers.NoRoom)


def test_a_new_host_is_told_of_the_reservations_that_an_older_one_kept() -> None:
    story = Story(gpus_gib=[22], host=False)
    kept = events.ReservationReport(id="r1", device="gpu0", bytes=8 * GIB, holder=1000, pid=5, command=None)
    story.tell(events.HostFound(reservations=(kept,)))
    assert [kept.id for effect in told(story) for kept in effect.reservations] == ["r1"]
    story.tell(events.HostLost())
    story.tell(events.HostFound())
    assert [kept.id for kept in told(story)[-1].reservations] == ["r1"]


def told(story: Story) -> list[effects.KeepReservations]:
    return [effect for effect in story.effects if isinstance(effect, effects.KeepReservations)]


def test_a_reservation_that_strangers_leave_no_room_for_keeps_nobody_from_the_rest() -> None:
    story = with_gpu("a", a=3)
    story.strangers["gpu0"] = 6 * GIB
    for _ in range(2):
        story.wait(1)
        story.sample("gpu0")
    waits = reserve(story, 5)
    story.wait(10)
    story.get("a")
    assert story.state("a") is State.LOADING
    story.strangers.clear()
    story.sample("gpu0")
    assert held(story, waits)


def test_who_does_not_wait_is_refused_when_the_device_is_lost_meanwhile() -> None:
    story = with_gpu()
    story.wait(5)
    story.silent = {"gpu0"}
    request = reserve(story, 5, wait=False)
    assert request not in story.answers
    story.tell(events.DeviceLost(name="gpu0", reason="it has fallen off the bus"))
    assert isinstance(story.answers[request], answers.NoRoom)


def test_while_the_driver_does_not_answer_nobody_is_told_that_there_is_no_such_gpu() -> None:
    story = Story(spec("a", device=("gpu0",)))
    story.tell(events.DriverSilent(reason="no answer for 5 s"))
    for refused in (story.answers[reserve(story, 1)], story.answers[story.get("a")]):
        assert isinstance(refused, answers.NoRoom)
        assert "no answer for 5 s" in refused.reason
        assert "correct" not in (refused.remedy or "")
    story.tell(events.DriverSilent(reason=None))
    for refused in (story.answers[reserve(story, 1)], story.answers[story.get("a")]):
        assert isinstance(refused, answers.NoRoom)
        assert "no answer for 5 s" not in refused.reason


def test_one_that_waits_for_a_sample_alone_is_told_that_and_not_that_there_is_no_room() -> None:
    story = with_gpu()
    story.wait(5)
    story.silent = {"gpu0"}
    request = reserve(story, 1, deadline=story.now)
    story.wait(0)
    outcome = story.answers[request]
    assert isinstance(outcome, answers.Timeout)
    assert outcome.reason == "a new sample of gpu0 is awaited"
