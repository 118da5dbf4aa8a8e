"""What a silent worker did before it spoke again becomes the events that were missed."""

from __future__ import annotations

from typing import Any

import pytest

from lazyd.core.events import (
    Event,
    LeaseBusy,
    LeaseClosed,
    LeaseIdle,
    LeasePresented,
    LeaseReport,
    ObjectFailed,
    ObjectParked,
    ObjectReady,
    ObjectReport,
    ObjectUnloaded,
    ObjectWarming,
    WarmupEnded,
    WorkerReport,
)
from lazyd.manager.processes.catching_up import missed

W = "w"


def report(
    *, state: str | None = "ready", parks: bool = False, warmup: str = "", problem: str = "", **lease: Any
) -> WorkerReport:
    objects = (
        (ObjectReport(model="m", state=state, since=1.0, parks=parks, warmup=warmup, problem=problem),) if state else ()
    )
    leases = (LeaseReport(lease="l", token="t", model="m", holder=1, granted=1.0, **lease),) if lease else ()
    return WorkerReport(worker=W, pid=1, started=0.0, endpoint="e", memo={}, objects=objects, leases=leases)


@pytest.mark.parametrize(
    ("known", "now", "events"),
    [
        (report(), report(), []),
        (report(state="loading"), report(), [ObjectReady(worker=W, model="m")]),
        (
            report(state="loading"),
            report(state=None),
            [ObjectFailed(worker=W, model="m", reason="the load ended while no manager was there")],
        ),
        (report(state="loading"), report(state="warming"), [ObjectWarming(worker=W, model="m", call=1, calls=1)]),
        (report(state="warming"), report(warmup="done"), [ObjectReady(worker=W, model="m", warmup="done")]),
        (
            report(state="warming"),
            report(state=None),
            [ObjectFailed(worker=W, model="m", reason="the load ended while no manager was there")],
        ),
        (report(warmup="running"), report(warmup="done"), [WarmupEnded(worker=W, model="m")]),
        (
            report(state="loading"),
            report(warmup="failed", problem="no"),
            [
                ObjectReady(worker=W, model="m", warmup="waiting"),
                WarmupEnded(worker=W, model="m", problem="no"),
            ],
        ),
        (
            report(warmup="running"),
            report(warmup="waiting"),
            [ObjectWarming(worker=W, model="m", call=1, calls=1, runs=False)],
        ),
        (report(), report(state=None), [ObjectUnloaded(worker=W, model="m")]),
        (report(state="draining"), report(state="parked"), [ObjectParked(worker=W, model="m")]),
        (report(state="draining"), report(state="parking"), [ObjectParked(worker=W, model="m")]),
        (report(state="parking"), report(state="parking"), []),
        (report(state="parking"), report(state="parked"), [ObjectParked(worker=W, model="m")]),
        (report(state="parked"), report(state="parked"), []),
        (report(state="parked"), report(parks=True), [ObjectReady(worker=W, model="m", parks=True)]),
        (report(state="parked"), report(state=None), [ObjectUnloaded(worker=W, model="m")]),
        (report(presented=True), report(), [LeaseClosed(worker=W, lease="l")]),
        (report(presented=False), report(presented=True), [LeasePresented(worker=W, lease="l")]),
        (
            report(presented=False),
            report(presented=True, called=True, in_flight=1),
            [LeasePresented(worker=W, lease="l"), LeaseBusy(worker=W, lease="l")],
        ),
        (
            report(presented=True, called=True, in_flight=2),
            report(presented=True, called=True),
            [LeaseIdle(worker=W, lease="l")],
        ),
        (
            report(presented=True),
            report(presented=True, called=True),
            [LeaseBusy(worker=W, lease="l"), LeaseIdle(worker=W, lease="l")],
        ),
        (
            report(presented=True, in_flight=1, called=True),
            report(presented=True, in_flight=3, called=True),
            [],
        ),
    ],
)
def test_the_difference_between_two_reports(known: WorkerReport, now: WorkerReport, events: list[Event]) -> None:
    assert list(missed(known, now)) == events
