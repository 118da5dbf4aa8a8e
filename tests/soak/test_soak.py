"""A dozen schedules through real processes, and that what is checked in them can fail.

`SOAK_SEED` draws other ones. ``make soak`` runs 500.
"""

from __future__ import annotations

import os
from typing import Any

import pytest

from tests.fakes.nvml import MIB
from tests.fakes.nvml.driver import REFUSED, TAKEN, Happening

from . import admissions
from .__main__ import seeds
from .many import Total, run_many
from .mischief import FIRST_STRANGER
from .refusals import AVOIDABLE, FIRST, LEARNED, STRANGER, Judge
from .schedule import Model, Schedule, draw
from .watching import Record, Snapshot

BASE = int(os.environ.get("SOAK_SEED", "1"))
SCHEDULES, AT_ONCE = 12, 3


@pytest.mark.timeout(1200)
def test_what_must_hold_holds_in_a_dozen_random_schedules() -> None:
    total = Total()
    for result in run_many(seeds(BASE, SCHEDULES), AT_ONCE):
        assert not result.violations, f"{result.story}\npython -m tests.soak --seed {result.seed}\n{result.violations}"
        total.add(result)
    print(total.told(0.0))
    assert total.schedules == SCHEDULES
    assert total.admissions > SCHEDULES


def test_a_seed_draws_the_same_schedule_again() -> None:
    assert draw(7) == draw(7)
    assert draw(7) != draw(8)


# The judges, on stories of one GPU of 1000 MiB with the model "m", which has said that it needs 600 MiB.

WORKER, PID, OTHER_PID = "w1", 100, 200


def schedule(need_mib: int = 600) -> Schedule:
    model = Model("m", {}, {}, need_mib, 600)
    return Schedule(1, frozenset(), (1000,), 0, 1000, (0.0, 0.0), (model,), {})


def admitted(
    at: float, booked_mib: int, *, worker: str = WORKER, free_mib: int = 0, record: Record | None = None
) -> Record:
    """A record in which the model was admitted."""
    record = record or Record()
    record.began = 0.0
    data = {"worker": worker, "bytes": {"gpu0": booked_mib * MIB}, "free_bytes": {"gpu0": free_mib * MIB}}
    record.note("lazyd", "m loading", {"kind": "loading", "model": "m", "data": data}, at=at)
    return record


def happening(at: float, what: int, pid: int, mib: int, used_mib: int, serial: int) -> Happening:
    return Happening(int(at * 1e9), serial, mib * MIB, used_mib * MIB, pid, 0, what, 1)


def causes(record: Record, *happened: Happening, need_mib: int = 600) -> dict[str, int]:
    judge = Judge(schedule(need_mib), record, {PID: ("m", PID)}, {OTHER_PID: (0, 500 * MIB)})
    return dict(judge.judge(list(happened)))


def test_running_out_within_all_bookings_with_nobody_new_could_have_been_avoided() -> None:
    record = admitted(10.0, 600)
    program = happening(5.0, TAKEN, OTHER_PID, 500, 500, 1)
    assert causes(record, program, happening(10.2, REFUSED, PID, 600, 500, 0)) == {AVOIDABLE: 1}
    assert "could have been avoided" in record.violations[0]


def test_a_stranger_that_was_there_long_before_the_admission_explains_nothing() -> None:
    stranger = happening(5.0, TAKEN, FIRST_STRANGER, 500, 500, 1)
    assert causes(admitted(10.0, 600), stranger, happening(10.2, REFUSED, PID, 600, 500, 0)) == {AVOIDABLE: 1}


def test_a_stranger_that_came_after_the_admission_explains_it() -> None:
    record = admitted(10.0, 600)
    stranger = happening(10.1, TAKEN, FIRST_STRANGER, 500, 500, 1)
    assert causes(record, stranger, happening(10.2, REFUSED, PID, 600, 500, 0)) == {STRANGER: 1}
    assert record.violations == []


def test_a_stranger_that_took_too_little_explains_nothing() -> None:
    happened = [happening(5.0, TAKEN, OTHER_PID, 450, 450, 1), happening(10.1, TAKEN, FIRST_STRANGER, 10, 460, 2)]
    assert causes(admitted(10.0, 600), *happened, happening(10.2, REFUSED, PID, 600, 460, 0)) == {AVOIDABLE: 1}


def test_needing_more_than_was_declared_and_booked_are_told_apart() -> None:
    program = happening(5.0, TAKEN, OTHER_PID, 500, 500, 1)
    refused = happening(10.2, REFUSED, PID, 600, 500, 0)
    assert causes(admitted(10.0, 400), program, refused) == {LEARNED: 1}
    assert causes(admitted(10.0, 400), program, refused, need_mib=700) == {FIRST: 1}


def test_what_a_model_took_beyond_its_booking_long_before_the_admission_was_known() -> None:
    grown = happening(5.0, TAKEN, PID, 700, 700, 1)
    refused = happening(10.2, REFUSED, OTHER_PID, 400, 700, 0)
    assert causes(admitted(10.0, 100), grown, refused) == {AVOIDABLE: 1}
    grown = happening(9.9, TAKEN, PID, 700, 700, 1)
    assert causes(admitted(10.0, 100), grown, refused, need_mib=700) == {FIRST: 1}


def test_a_process_that_no_status_has_shown_is_of_the_admission_before_it() -> None:
    program = happening(5.0, TAKEN, OTHER_PID, 500, 500, 1)
    refused = happening(10.2, REFUSED, PID, 600, 500, 0)
    record = admitted(12.0, 600, worker="w2", record=admitted(10.0, 400))
    assert causes(record, program, refused) == {LEARNED: 1}


def test_an_admission_that_leaves_less_than_nothing_is_a_violation() -> None:
    record = admitted(10.0, 600, free_mib=-1)
    assert admissions.check(record) == 1
    assert "admitted over budget" in record.violations[0]


def snapshot(at: float, free: int, foreign: int = 0, **booked: int) -> Snapshot:
    device: dict[str, Any] = {"freeBytes": free, "foreignBytes": foreign, "budgetBytes": 1000}
    workers = {worker: {"bookedBytes": {"gpu0": n}} for worker, n in booked.items()}
    return Snapshot(at, at, {"gpu0": device}, workers, {})


@pytest.mark.parametrize(
    ("after", "is_wrong"),
    [
        (snapshot(1, -100, a=600, b=500), True),
        (snapshot(1, -100, a=700, b=400), False),
        (snapshot(1, -100, foreign=100, a=600, b=400), False),
        (snapshot(1, 0, a=600, b=400), False),
    ],
)
def test_what_status_shows_after_an_admission_is_within_the_budget_or_what_was_there_has_grown(
    after: Snapshot, is_wrong: bool
) -> None:
    record = Record()
    record.snapshots += [snapshot(0, 400, a=600), after]
    admissions.check(record)
    assert bool(record.violations) == is_wrong
