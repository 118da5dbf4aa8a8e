"""The rules of a worker, each by its own name. See `lazyd.worker.admission` for their theory."""

from __future__ import annotations

from typing import Any

import pytest

from lazyd.worker.admission import ORPHANED_S, Admission
from lazyd.worker.records import BURST, FRESH_S, MOST_UNTOLD, QUICK_S, Drop, Emptied, Lease, Revoke, Tell

MODEL = "gemma"
NOT_WARMED = {"warmup": "", "warmupS": 0.0, "runtime": "", "problem": ""}
"""What is told of an object without a warm-up."""


class Desk:
    """An admission with one ready model, and a clock."""

    def __init__(self) -> None:
        self.rules = Admission()
        self.now = 100.0
        self.rules.loading(MODEL, self.now)
        self.rules.loaded(MODEL, self.now)

    def lease(self, name: str, *, called: bool = False, connected: bool = True, **more: Any) -> Lease:
        """A lease that was granted now. `called`: its first call is over, so that it is idle."""
        lease = Lease(id=name, token=f"t-{name}", model=MODEL, holder=0, granted=self.now, **more)
        self.rules.grant(lease)
        if connected:
            assert self.rules.present(lease.token, f"c-{name}")[0] is lease
        if called:
            self.call(lease)
            self.rules.end(lease, self.now, ok=True)
        return lease

    def call(self, lease: Lease) -> bool:
        admitted, _ = self.rules.begin(lease, self.now)
        return admitted

    def drain(self, number: int = 1, *, finish: bool = False) -> list[Any]:
        return self.rules.drain(MODEL, number, finish=finish, now=self.now)


@pytest.fixture
def desk() -> Desk:
    return Desk()


def told(actions: list[Any]) -> list[str]:
    return [action.message["is"] for action in actions if isinstance(action, Tell)]


def drained(number: int) -> Tell:
    return Tell({"is": "drained", "model": MODEL, "drain": number})


def still_busy(number: int) -> Tell:
    return Tell({"is": "still_busy", "model": MODEL, "drain": number})


# Tokens.


def test_a_token_serves_one_connection(desk: Desk) -> None:
    desk.lease("a")
    assert desk.rules.present("t-a", "another") == (None, [])


def test_an_unknown_token_is_nobodys(desk: Desk) -> None:
    desk.lease("a", connected=False)
    assert desk.rules.present("", "c") == (None, [])
    assert desk.rules.present("t-b", "c") == (None, [])


def test_a_withdrawn_lease_cannot_be_presented(desk: Desk) -> None:
    desk.lease("a", connected=False)
    assert desk.rules.withdraw("a") == []
    assert desk.rules.present("t-a", "c") == (None, [])


def test_withdrawing_closes_the_connection(desk: Desk) -> None:
    desk.lease("a", called=True)
    assert desk.rules.withdraw("a") == [Drop("c-a")]


def test_withdrawing_during_a_call_keeps_the_model_busy_until_the_call_has_ended(desk: Desk) -> None:
    lease = desk.lease("a")
    desk.call(lease)
    assert desk.rules.withdraw("a") == [Drop("c-a")]
    assert desk.rules.closed(lease, desk.now) == []
    assert desk.drain() == [still_busy(1)]
    assert told(desk.rules.end(lease, desk.now, ok=False)) == ["idle", "closed"]


def test_a_grant_on_a_model_that_is_not_ready_is_nothing(desk: Desk) -> None:
    desk.rules.loading("other", desk.now)
    desk.rules.grant(Lease(id="x", token="t", model="other", holder=0, granted=desk.now))
    assert desk.rules.present("t", "c") == (None, [])


# Calls.


def test_busy_and_idle_are_told_once_for_overlapping_calls(desk: Desk) -> None:
    lease = desk.lease("a")
    assert told(desk.rules.begin(lease, desk.now)[1]) == ["busy"]
    assert told(desk.rules.begin(lease, desk.now)[1]) == []
    assert told(desk.rules.end(lease, desk.now, ok=True)) == []
    both = {"ok": False, "calls": 2, "failed": 1}
    assert desk.rules.end(lease, desk.now, ok=False) == [Tell({"is": "idle", "lease": "a", **both})]


# Bursts.


def quickly(desk: Desk, lease: Lease, calls: int) -> list[str]:
    """Calls that follow each other at once: what the manager is told meanwhile."""
    heard = []
    for _ in range(calls):
        heard += told(desk.rules.begin(lease, desk.now)[1])
        heard += told(desk.rules.end(lease, desk.now, ok=True))
    return heard


def test_the_first_quick_calls_are_told_each_and_those_of_a_burst_are_not(desk: Desk) -> None:
    lease = desk.lease("a", called=True)
    assert quickly(desk, lease, BURST) == ["busy", "idle"] * (BURST - 1) + ["busy"]
    assert quickly(desk, lease, 100) == []


def test_a_moment_after_a_burst_its_lease_is_told_to_be_idle_and_how_many_calls_it_was(desk: Desk) -> None:
    lease = desk.lease("a", called=True)
    quickly(desk, lease, BURST + 99)
    assert desk.rules.next_deadline() == desk.now + QUICK_S
    assert desk.rules.tick(desk.now + QUICK_S / 2) == []
    desk.now += QUICK_S
    idle = {"is": "idle", "lease": "a", "ok": True, "calls": 100, "failed": 0}
    assert desk.rules.tick(desk.now) == [Tell(idle)]
    assert desk.rules.next_deadline() is None
    assert desk.rules.tick(desk.now) == []
    assert quickly(desk, lease, 1) == ["busy", "idle"]


def test_a_lease_that_is_used_when_its_burst_is_looked_at_is_not_told_to_be_idle(desk: Desk) -> None:
    lease = desk.lease("a", called=True)
    quickly(desk, lease, BURST)
    desk.call(lease)
    desk.now += QUICK_S
    assert desk.rules.tick(desk.now) == []
    assert desk.drain() == [still_busy(1)]


def test_calls_that_take_their_time_are_no_burst(desk: Desk) -> None:
    lease = desk.lease("a", called=True)
    for _ in range(3 * BURST):
        desk.now += QUICK_S
        assert quickly(desk, lease, 1) == ["busy", "idle"]


def test_a_burst_without_end_is_told_of_now_and_then(desk: Desk) -> None:
    lease = desk.lease("a", called=True)
    assert quickly(desk, lease, BURST + 3 * MOST_UNTOLD).count("idle") == BURST - 1 + 3


@pytest.mark.parametrize("end", ["drain", "withdraw", "close", "unload"])
def test_what_ends_a_lease_after_a_burst_tells_first_that_it_is_idle(desk: Desk, end: str) -> None:
    lease = desk.lease("a", called=True)
    quickly(desk, lease, BURST)
    actions = {
        "drain": lambda: desk.drain(),
        "withdraw": lambda: desk.rules.withdraw("a"),
        "close": lambda: desk.rules.closed(lease, desk.now),
        "unload": lambda: desk.rules.unloading(MODEL, desk.now),
    }[end]()
    rest = {"drain": ["drained"], "withdraw": [], "close": ["closed"], "unload": []}[end]
    assert told(actions) == ["idle", *rest]
    assert desk.rules.tick(desk.now + 1) == []


# Leases that are revoked.


def test_an_idle_client_is_told_at_once_to_ask_anew_and_its_lease_is_over(desk: Desk) -> None:
    lease = desk.lease("a", called=True, route="ocr")
    assert desk.rules.revoke("a") == [Revoke("c-a"), Tell({"is": "closed", "lease": "a"})]
    assert not desk.call(lease)
    assert desk.rules.leases == {}


def test_a_client_is_told_to_ask_anew_when_its_last_call_has_ended(desk: Desk) -> None:
    lease = desk.lease("a", called=True, route="ocr")
    assert desk.call(lease)
    assert desk.rules.revoke("a") == []
    assert not desk.call(lease)
    actions = desk.rules.end(lease, desk.now, ok=True)
    assert told(actions) == ["idle", "closed"]
    assert Revoke("c-a") in actions


def test_a_client_that_comes_late_is_told_to_ask_anew_at_its_first_call(desk: Desk) -> None:
    lease = desk.lease("a", connected=False, route="ocr")
    assert desk.rules.revoke("a") == []
    assert desk.rules.present("t-a", "c-a")[0] is lease
    assert not desk.call(lease)


def test_the_next_manager_is_told_by_which_name_a_lease_was_asked_for(desk: Desk) -> None:
    desk.lease("a", route="ocr")
    desk.lease("b")
    first, second = desk.rules.report()["leases"]
    assert (first["route"], first["revoked"]) == ("ocr", False)
    assert "route" not in second


def test_the_end_of_a_connection_ends_its_lease(desk: Desk) -> None:
    lease = desk.lease("a", called=True)
    assert desk.rules.closed(lease, desk.now) == [Tell({"is": "closed", "lease": "a"})]
    assert desk.rules.leases == {}


def test_a_lease_whose_client_left_lasts_until_its_call_has_ended(desk: Desk) -> None:
    lease = desk.lease("a")
    desk.call(lease)
    assert desk.rules.closed(lease, desk.now) == []
    assert told(desk.rules.end(lease, desk.now, ok=False)) == ["idle", "closed"]


def test_last_use_is_the_end_of_the_last_call(desk: Desk) -> None:
    lease = desk.lease("a")
    desk.call(lease)
    desk.now += 50
    desk.rules.end(lease, desk.now, ok=True)
    assert desk.rules.report()["objects"][0]["lastUsed"] == desk.now


# Draining without waiting.


def test_an_idle_connection_does_not_pin_a_model(desk: Desk) -> None:
    lease = desk.lease("a", called=True)
    assert desk.drain(7) == [Revoke("c-a"), drained(7)]
    assert not desk.call(lease)


def test_a_call_in_flight_protects_its_model(desk: Desk) -> None:
    lease = desk.lease("a")
    desk.call(lease)
    desk.now += 1000
    assert desk.drain() == [still_busy(1)]
    assert desk.rules.report()["objects"][0]["state"] == "ready"
    assert desk.call(lease)


def test_a_lease_is_safe_until_its_first_call_for_five_seconds(desk: Desk) -> None:
    desk.lease("a", connected=False)
    desk.now += FRESH_S - 0.1
    assert desk.drain(1) == [still_busy(1)]
    desk.now += 0.2
    assert desk.drain(2) == [drained(2)]


def test_a_held_lease_protects_its_model_until_its_time(desk: Desk) -> None:
    desk.lease("a", called=True, hold_until=desk.now + 60)
    desk.now += 59
    assert desk.drain(1) == [still_busy(1)]
    desk.now += 2
    assert desk.drain(2) == [Revoke("c-a"), drained(2)]


def test_a_revoked_token_cannot_be_presented_any_more(desk: Desk) -> None:
    desk.lease("a", connected=False)
    desk.now += FRESH_S
    assert desk.drain() == [drained(1)]
    assert desk.rules.present("t-a", "c") == (None, [])


def test_a_drain_is_answered_again_for_its_newest_number(desk: Desk) -> None:
    desk.drain(1)
    assert desk.drain(2, finish=True) == [drained(2)]


def test_a_drain_of_a_model_that_has_gone_is_not_answered(desk: Desk) -> None:
    assert desk.rules.drain("other", 1, finish=False, now=desk.now) == []


# Draining to the end.


def test_a_draining_model_finishes_its_calls_and_admits_no_more(desk: Desk) -> None:
    lease = desk.lease("a")
    desk.call(lease)
    other = desk.lease("b", called=True)
    assert desk.drain(3, finish=True) == []
    assert not desk.call(lease)
    assert not desk.call(other)
    actions = desk.rules.end(lease, desk.now, ok=True)
    assert told(actions) == ["idle", "drained"]
    assert {action.connection for action in actions if isinstance(action, Revoke)} == {"c-a", "c-b"}


def test_a_drain_waits_for_a_client_that_left_only_until_its_call_has_ended(desk: Desk) -> None:
    lease = desk.lease("a")
    desk.call(lease)
    desk.drain(1, finish=True)
    desk.rules.closed(lease, desk.now)
    assert told(desk.rules.end(lease, desk.now, ok=False)) == ["idle", "closed", "drained"]


def test_a_nested_lease_may_enter_a_draining_model(desk: Desk) -> None:
    outer = desk.lease("outer")
    desk.call(outer)
    desk.drain(1, finish=True)
    nested = desk.lease("nested", parent="somewhere")
    assert desk.call(nested)
    assert told(desk.rules.end(outer, desk.now, ok=True)) == ["idle"]
    assert told(desk.rules.end(nested, desk.now, ok=True)) == ["idle", "drained"]


def test_a_fresh_lease_may_enter_a_draining_model_and_is_waited_for(desk: Desk) -> None:
    """The lease was granted before the drain, and is safe until its first call."""
    fresh = desk.lease("fresh")
    assert desk.drain(1, finish=True) == []
    assert desk.rules.next_deadline() == desk.now + FRESH_S
    assert desk.call(fresh)
    assert not desk.call(fresh)  # only its first call is safe
    assert told(desk.rules.end(fresh, desk.now, ok=True)) == ["idle", "drained"]


def test_a_held_lease_may_enter_a_draining_model_until_its_time(desk: Desk) -> None:
    held = desk.lease("held", called=True, hold_until=desk.now + 60)
    assert desk.drain(1, finish=True) == []
    assert desk.call(held)
    assert told(desk.rules.end(held, desk.now, ok=True)) == ["idle"]
    desk.now += 60
    assert told(desk.rules.tick(desk.now)) == ["drained"]


def test_an_old_nested_lease_is_turned_away_by_a_drain_like_any_other(desk: Desk) -> None:
    nested = desk.lease("nested", parent="somewhere", called=True)
    busy = desk.lease("a")
    desk.call(busy)
    desk.now += 1
    desk.drain(1, finish=True)
    assert not desk.call(nested)


def test_a_drain_waits_for_the_first_call_of_a_nested_lease(desk: Desk) -> None:
    outer = desk.lease("outer")
    desk.call(outer)
    desk.drain(1, finish=True)
    desk.lease("nested", parent="somewhere")
    assert told(desk.rules.end(outer, desk.now, ok=True)) == ["idle"]
    assert desk.rules.next_deadline() == desk.now + FRESH_S
    desk.now += FRESH_S
    assert told(desk.rules.tick(desk.now)) == ["drained"]


def test_a_nested_lease_that_crossed_the_end_of_a_drain_comes_first(desk: Desk) -> None:
    """The manager granted it while ``drained`` was on its way: it resumes, and drains again."""
    desk.drain(1, finish=True)
    nested = desk.lease("nested", parent="somewhere", connected=False)
    desk.rules.resume(MODEL)
    desk.now += 0.1
    assert desk.drain(2, finish=True) == []
    assert desk.rules.present("t-nested", "c")[0] is nested
    assert desk.call(nested)
    assert told(desk.rules.end(nested, desk.now, ok=True)) == ["idle", "drained"]


def test_resume_admits_again_on_connections_that_are_still_open(desk: Desk) -> None:
    lease = desk.lease("a")
    desk.call(lease)
    desk.drain(1, finish=True)
    desk.rules.resume(MODEL)
    assert desk.call(lease)
    desk.rules.end(lease, desk.now, ok=True)
    assert told(desk.rules.end(lease, desk.now, ok=True)) == ["idle"]


def test_a_finished_drain_can_be_undone_too(desk: Desk) -> None:
    desk.drain(1)
    desk.rules.resume(MODEL)
    assert desk.call(desk.lease("a"))


# Unloading.


def test_unloading_admits_nothing_and_is_empty_when_the_last_call_has_ended(desk: Desk) -> None:
    lease = desk.lease("a")
    desk.call(lease)
    assert desk.rules.unloading(MODEL, desk.now) == []
    assert not desk.call(lease)
    actions = desk.rules.end(lease, desk.now, ok=False)
    assert actions[1:] == [Revoke("c-a"), Emptied(MODEL)]


def test_unloading_an_idle_model_is_immediate(desk: Desk) -> None:
    desk.lease("a", called=True)
    assert desk.rules.unloading(MODEL, desk.now) == [Revoke("c-a"), Emptied(MODEL)]
    assert desk.rules.report()["objects"] == []


# Parking.


def test_parking_a_drained_model_is_immediate_and_it_admits_nothing(desk: Desk) -> None:
    lease = desk.lease("a", called=True)
    desk.drain()
    assert desk.rules.parking(MODEL, desk.now) == [Emptied(MODEL)]
    assert desk.rules.report()["objects"][0]["state"] == "parking"
    desk.rules.parked(MODEL, desk.now)
    assert desk.rules.report()["objects"][0]["state"] == "parked"
    assert not desk.call(lease)
    desk.lease("b", connected=False)
    assert desk.rules.leases == {}


def test_a_call_that_is_in_flight_ends_before_its_model_parks(desk: Desk) -> None:
    lease = desk.lease("a")
    desk.call(lease)
    assert desk.rules.parking(MODEL, desk.now) == []
    assert not desk.call(lease)
    assert desk.rules.end(lease, desk.now, ok=True)[1:] == [Revoke("c-a"), Emptied(MODEL)]


def test_a_parked_model_is_neither_drained_nor_resumed(desk: Desk) -> None:
    desk.rules.parking(MODEL, desk.now)
    desk.rules.parked(MODEL, desk.now)
    assert desk.drain() == []
    desk.rules.resume(MODEL)
    desk.lease("a", connected=False)
    assert desk.rules.leases == {}
    assert desk.rules.next_deadline() is None


def test_a_model_on_its_way_back_loads_and_is_then_as_before(desk: Desk) -> None:
    desk.call(lease := desk.lease("a"))
    desk.rules.end(lease, desk.now, ok=True)
    desk.rules.loaded(MODEL, desk.now, parks=True)
    desk.rules.parking(MODEL, desk.now)
    desk.now += 100
    desk.rules.parked(MODEL, desk.now)
    assert desk.rules.report()["objects"][0]["since"] == desk.now
    desk.now += 100
    desk.rules.loading(MODEL, desk.now)
    told = {"model": MODEL, "state": "loading", "since": desk.now, "loadS": 0.0, "lastUsed": 100.0, "parks": True}
    told |= {"url": None, **NOT_WARMED}
    assert desk.rules.report()["objects"] == [told]
    desk.now += 2
    desk.rules.loaded(MODEL, desk.now, parks=True)
    told = {"model": MODEL, "state": "ready", "since": desk.now, "loadS": 2.0, "lastUsed": 100.0, "parks": True}
    told |= {"url": None, **NOT_WARMED}
    assert desk.rules.report()["objects"] == [told]
    assert desk.call(desk.lease("b"))


def test_a_lost_manager_leaves_what_is_parked_as_it_is(desk: Desk) -> None:
    desk.rules.parking(MODEL, desk.now)
    desk.rules.parked(MODEL, desk.now)
    desk.rules.manager_lost(desk.now)
    assert desk.rules.report()["objects"][0]["state"] == "parked"


def test_members_of_a_family_drain_apart(desk: Desk) -> None:
    desk.rules.loading("other", desk.now)
    desk.rules.loaded("other", desk.now)
    lease = desk.lease("a", called=True)
    assert desk.rules.drain("other", 1, finish=True, now=desk.now) == [
        Tell({"is": "drained", "model": "other", "drain": 1})
    ]
    assert desk.call(lease)


# Without a manager.


def test_calls_do_not_notice_that_the_manager_is_gone(desk: Desk) -> None:
    lease = desk.lease("a", called=True)
    desk.rules.manager_lost(desk.now)
    assert desk.call(lease)


def test_a_lost_managers_drains_are_undone(desk: Desk) -> None:
    lease = desk.lease("a")
    desk.call(lease)
    desk.drain(1, finish=True)
    desk.rules.manager_lost(desk.now)
    assert desk.call(lease)
    assert desk.rules.report()["objects"][0]["state"] == "ready"


def test_unpresented_leases_outlive_their_manager_by_thirty_seconds(desk: Desk) -> None:
    desk.lease("a", connected=False)
    desk.lease("held", connected=False, hold_until=desk.now + 2 * ORPHANED_S)
    desk.lease("open")
    desk.rules.manager_lost(desk.now)
    assert desk.rules.next_deadline() == desk.now + ORPHANED_S
    desk.now += ORPHANED_S
    assert desk.rules.tick(desk.now) == []
    assert set(desk.rules.leases) == {"held", "open"}


def test_with_a_manager_unpresented_leases_are_its_own_business(desk: Desk) -> None:
    desk.lease("a", connected=False)
    desk.rules.manager_lost(desk.now)
    desk.rules.manager_found()
    assert desk.rules.next_deadline() is None
    desk.rules.tick(desk.now + 10 * ORPHANED_S)
    assert set(desk.rules.leases) == {"a"}
