"""What happened between two reports of a worker.

At adoption the core may have been told what the host last heard of a worker that was silent, in
native code say. When the worker speaks at last, the difference is told as the events that were
missed.
"""

from __future__ import annotations

from collections.abc import Iterator

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
    ObjectUnloaded,
    WorkerReport,
)


def missed(known: WorkerReport, now: WorkerReport) -> Iterator[Event]:
    """The events that lead from what is known to what is."""
    worker = known.worker
    objects = {found.model: found for found in now.objects}
    for old in known.objects:
        new = objects.get(old.model)
        if new is None and old.state == "loading":
            yield ObjectFailed(worker=worker, model=old.model, reason="the load ended while no manager was there")
        elif new is None:
            yield ObjectUnloaded(worker=worker, model=old.model)
        elif new.state == old.state:
            continue
        elif new.state == "ready":
            yield ObjectReady(worker=worker, model=old.model, parks=new.parks)
        elif new.state in ("parking", "parked"):  # in either state it serves no more
            yield ObjectParked(worker=worker, model=old.model)
    leases = {lease.lease: lease for lease in now.leases}
    for lease in known.leases:
        yield from _missed_of_lease(worker, lease, leases.get(lease.lease))


def _missed_of_lease(worker: str, old: LeaseReport, new: LeaseReport | None) -> Iterator[Event]:
    if new is None:
        yield LeaseClosed(worker=worker, lease=old.lease)
        return
    if new.presented and not old.presented:
        yield LeasePresented(worker=worker, lease=old.lease)
    if new.in_flight and not old.in_flight:
        yield LeaseBusy(worker=worker, lease=old.lease)
    elif old.in_flight and not new.in_flight:
        yield LeaseIdle(worker=worker, lease=old.lease)
    elif new.called and not old.called and not new.in_flight:
        yield LeaseBusy(worker=worker, lease=old.lease)
        yield LeaseIdle(worker=worker, lease=old.lease)
