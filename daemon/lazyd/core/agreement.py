"""A host that is found again by the manager that lost it.

Its workers have lived on, but orders and reports were lost with the connection. A known worker is
not adopted anew: its own report says what is, the core's records say what was decided, and every
decision that the report does not show is ordered again. All orders may be repeated.
"""

from __future__ import annotations

from . import growth, leases, lives, parking, warming, warmups
from .effects import ParkObject, Resume, Revoke, UnloadObject, UnparkObject, Withdraw
from .events import LeaseReport, ObjectParked, ObjectReport, WorkerReport
from .lifecycle import LOADS, SERVES, State
from .records import Instance, Lease, LeaseStage, Worker
from .world import World


def agree(world: World, worker: Worker, report: WorkerReport) -> None:
    """Brings the core's record of a worker and the worker itself together."""
    worker.pid, worker.endpoint = report.pid, report.endpoint
    if worker.stopping:
        lives.stop_worker(world, worker, lives.ABORT_GRACE_S)
        return
    growth.measured(world, worker, report.measured_bytes)
    told = {found.model: found for found in report.objects}
    for instance in list(worker.instances.values()):
        agree_on_object(world, instance, told.pop(instance.model.key, None))
    for key in told:
        world.emit(UnloadObject(worker=worker.id, model=key))
    agree_on_leases(world, worker, {lease.lease: lease for lease in report.leases})
    if not worker.instances:
        lives.stop_worker(world, worker, lives.ABORT_GRACE_S)


def agree_on_object(world: World, instance: Instance, report: ObjectReport | None) -> None:
    """`report` is what the worker says of the object; None: there is no such object."""
    worker, key = instance.worker.id, instance.model.key
    told = report.state if report is not None else None
    if instance.state in lives.ENDING:
        world.emit(UnloadObject(worker=worker, model=key))  # a report does not show what is unloading
    elif instance.state in LOADS:
        if report is None:
            lives.end_watch(world, instance)
            instance.progressed = world.now
            lives.watch_load(world, instance)
            world.emit(warmups.order(world, instance))
        elif told in (State.PARKING, State.PARKED):
            world.emit(UnparkObject(worker=worker, model=key))
        elif told == State.WARMING:
            warming.found(world, instance)
        elif told != State.LOADING:
            warming.ready(world, instance, report)
            warming.agree(world, instance, report)
    elif report is None:
        lives.gone(world, instance, State.COLD, "its worker does not have it any more")
    elif instance.state is State.PARKING:
        if told == State.PARKED:
            parking.parked(world, ObjectParked(worker=worker, model=key))
        elif told != State.PARKING:
            world.emit(ParkObject(worker=worker, model=key))
    elif instance.state is not State.PARKED:
        world.emit(Resume(worker=worker, model=key))
        if instance.state is State.DRAINING:
            lives.serve_on(world, instance, "the host was found again")
        warming.agree(world, instance, report)


def agree_on_leases(world: World, worker: Worker, told: dict[str, LeaseReport]) -> None:
    """The worker knows the stage of a lease, the core whether it still stands.

    One that was granted, and of which nothing was heard, may be on its way. If it was lost, nobody
    presents it, and it ends like any other.
    """
    for instance in worker.instances.values():
        for lease in list(instance.leases.values()):
            found = told.pop(lease.id, None)
            if instance.state not in SERVES or (found is None and lease.stage is not LeaseStage.GRANTED):
                leases.forget(world, lease)
            elif found is not None:
                agree_on_lease(world, lease, found)
    for name in told:
        world.emit(Withdraw(worker=worker.id, lease=name))


def agree_on_lease(world: World, lease: Lease, told: LeaseReport) -> None:
    if lease.stage is LeaseStage.ENDING:
        world.emit(Withdraw(worker=lease.instance.worker.id, lease=lease.id))
        if not told.in_flight:
            leases.forget(world, lease)
    else:
        lease.stage = leases.reported_stage(told)
        if lease.revoked and not told.revoked:  # the order was lost
            world.emit(Revoke(worker=lease.instance.worker.id, lease=lease.id))
