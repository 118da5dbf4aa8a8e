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
    ObjectReport,
    ObjectUnloaded,
    ObjectWarming,
    WarmupEnded,
    WorkerReport,
)

LOADS = ("loading", "warming")
SERVES = ("ready", "draining")


def missed(known: WorkerReport, now: WorkerReport) -> Iterator[Event]:
    """The events that lead from what is known to what is."""
    worker = known.worker
    objects = {found.model: found for found in now.objects}
    for old in known.objects:
        new = objects.get(old.model)
        if new is None and old.state in LOADS:
            yield ObjectFailed(worker=worker, model=old.model, reason="the load ended while no manager was there")
        elif new is None:
            yield ObjectUnloaded(worker=worker, model=old.model)
        elif new.state == old.state:
            yield from _missed_of_warmup(worker, old, new)
        elif new.state == "warming":
            yield ObjectWarming(worker=worker, model=old.model, call=1, calls=1)
        elif new.state in SERVES:
            if old.state not in SERVES:
                yield _became_ready(worker, new)
            yield from _missed_of_warmup(worker, old, new)
        elif new.state in ("parking", "parked"):  # in either state it serves no more
            yield ObjectParked(worker=worker, model=old.model)
    leases = {lease.lease: lease for lease in now.leases}
    for lease in known.leases:
        yield from _missed_of_lease(worker, lease, leases.get(lease.lease))


def _became_ready(worker: str, new: ObjectReport) -> ObjectReady:
    """As it was told then: a warm-up beside the calls of others had yet to begin."""
    return ObjectReady(
        worker=worker,
        model=new.model,
        parks=new.parks,
        url=new.url,
        warmup="waiting" if new.warmup in ("running", "failed") else new.warmup,
        warmup_s=new.warmup_s,
        runtime=new.runtime,
    )


def _missed_of_warmup(worker: str, old: ObjectReport, new: ObjectReport) -> Iterator[Event]:
    """Of one beside the calls of others."""
    if new.warmup == old.warmup or new.state not in SERVES:
        return
    if new.warmup == "failed" or (new.warmup == "done" and old.warmup in ("waiting", "running")):
        yield WarmupEnded(
            worker=worker,
            model=new.model,
            warmup_s=new.warmup_s,
            runtime=new.runtime,
            problem=new.problem or None,
        )
    elif new.warmup in ("waiting", "running"):
        yield ObjectWarming(worker=worker, model=new.model, call=1, calls=1, runs=new.warmup == "running")


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
