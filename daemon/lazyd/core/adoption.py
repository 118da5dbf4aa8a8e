"""What a manager does with the workers that it finds.

The workers are the truth; no state file is. A host that is found tells of its workers, each
worker of its objects and leases, and the ledger is booked again from what the host kept beside
each worker. A worker of a model that is no longer configured, or was configured differently,
is adopted all the same, so that its calls can end, and then leaves by the ordinary rules.
"""

from __future__ import annotations

from typing import Any

from . import (
    agreement,
    cost,
    deaths,
    growth,
    leases,
    lives,
    locks,
    requests,
    reservations,
    strangers,
    swaps,
    warming,
    wear,
)
from .effects import Resume
from .events import HostFound, LeaseReport, ObjectReport, WorkerReport
from .ledger import RAM, slots_of
from .lifecycle import LOADS, SERVES, State
from .records import UNPRESENTED_LEASE_S, Instance, Lease, LeaseStage, Model, Worker
from .spec import ModelSpec
from .world import World


def host_found(world: World, event: HostFound) -> None:
    """Adopts the host's workers, agrees with those that are known already, and forgets all others."""
    world.host_found = True
    told = {report.worker for report in event.workers}
    for worker in [worker for worker in world.workers.values() if worker.id not in told]:
        deaths.worker_lost(world, worker, "the worker host does not know it any more")
    for report in event.workers:
        known = world.workers.get(report.worker)
        if known is None:
            adopt(world, report)
        else:
            agreement.agree(world, known, report)
    requests.forget_unknown_parents(world)
    for kept in event.reservations:
        reservations.adopt(world, kept)
    locks.adopt(world, event.locks)
    swaps.adopted(world)
    if event.workers or event.reservations or event.locks:
        strangers.forget_lower(world)
    if world.reservations:
        reservations.keep(world)  # another host than the one that told of them may have been found
    world.note("host found", workers=len(event.workers))


def adopt(world: World, report: WorkerReport) -> None:
    """Books a worker as it was booked, and takes over its objects and leases."""
    key = str(report.memo.get("model", ""))
    spec = world.specs.get(key)
    worker = Worker(
        id=report.worker,
        spec=spec or ModelSpec(name=key or "unknown", runtime="unknown"),
        identity=str(report.memo.get("identity", "")),
        started=report.started,
        pid=report.pid,
        endpoint=report.endpoint,
        way=str(report.memo.get("way", "")),
        digest=str(report.memo.get("digest", "")),
        gpus=tuple(report.memo.get("gpus") or ()),
        service=report.memo.get("service"),
        promised=dict(report.memo.get("booking") or {}),
        load_peak=dict(report.memo.get("booking") or {}),  # what an earlier manager has measured is not known
        measured_bytes=dict(report.measured_bytes),
        calls=report.calls,
    )
    world.workers[worker.id] = worker
    world.ledger.book(worker.id, booked(report), report.memo.get("files"))
    for told in report.objects:
        adopt_object(world, worker, told, spec, report.memo)
    growth.note_peaks(worker, report.measured_bytes)
    wear.look(world, worker)
    for lease in report.leases:
        adopt_lease(world, worker, lease)
    if not worker.instances:
        lives.stop_worker(world, worker, lives.ABORT_GRACE_S)


def booked(report: WorkerReport) -> dict[str, int]:
    """What the ledger held for it, or what it has grown to. One that parks has RAM for what it moves. What a
    parked one had of its GPUs was given back, and others may have it by now: what is left there, samples show."""
    states = {told.state for told in report.objects}
    memo = (states - LOADS and report.memo.get("service")) or report.memo.get("booking") or {}
    kept = {name: int(n) for name, n in memo.items()}
    gpus = report.memo.get("gpus") or ()
    if State.PARKING in states:
        kept[RAM] = kept.get(RAM, 0) + sum(kept.get(gpu, 0) for gpu in gpus)
    elif State.PARKED in states:
        kept |= dict.fromkeys(gpus, 0)
    return {
        name: max(kept.get(name, 0), report.measured_bytes.get(name, 0)) for name in {**kept, **report.measured_bytes}
    }


def adopt_object(
    world: World, worker: Worker, told: ObjectReport, spec: ModelSpec | None, memo: dict[str, Any]
) -> None:
    """An object goes on in the state in which it is found. A drain of the last manager is undone."""
    model = world.find(told.model) if spec is not None else None
    if model is None or model.key != told.model:
        model = leftover(told.model, worker)
        world.models.setdefault(model.key, model)  # a name may go over from it
    loads = told.state in LOADS
    instance = Instance(
        model=model,
        worker=worker,
        state=State(told.state) if told.state in AS_TOLD else State.READY,
        parked_at=told.since if told.state == State.PARKED else None,
        since=told.since,
        load_started=told.since if told.state == State.LOADING else told.since - (told.load_s or 0.0),
        progressed=world.now,
        ready_since=0.0 if loads else told.since,
        load_s=(not loads and told.load_s) or 0.0,
        loaded_s=told.load_s if told.state == State.WARMING else None,
        parks=told.parks,
        url=told.url,
        served=told.last_used is not None,
        last_used=told.last_used if told.last_used is not None else told.since,
    )
    worker.instances[told.model] = instance
    if model.spec.is_family and model.spec.max_loaded:
        world.ledger.book(instance.holder, {slots_of(model.spec.key): 1})
    keep_the_better(world, model, instance)
    if not loads:
        model.last_load_s = told.load_s or model.last_load_s
        cost.adopt(instance)
    # What the model had been loaded before this worker, and once more if it is.
    loads_before = int(memo.get("loads", {}).get(model.key, 0))
    model.loads = max(model.loads, loads_before + (0 if loads else 1))
    if told.state == State.LOADING:
        lives.watch_load(world, instance)
    elif told.state == State.WARMING:
        warming.found(world, instance)
    elif told.state == State.DRAINING:
        world.emit(Resume(worker=worker.id, model=model.key))
    warming.adopt(world, instance, told)
    world.touch(model)


AS_TOLD = frozenset({State.LOADING, State.WARMING, State.PARKING, State.PARKED})


def leftover(key: str, worker: Worker) -> Model:
    """A record for what must finish its calls and leave, whatever else is called so."""
    return Model(key=key, spec=worker.spec, identity=worker.identity, retired=True)


def keep_the_better(world: World, model: Model, instance: Instance) -> None:
    """Of two lives of one model the one that serves stays, else the newer; the other leaves."""
    other = model.instance
    if other is None:
        model.instance = instance
        return
    rank = [(life.state in SERVES, life.since) for life in (instance, other)]
    stays, leaves = (instance, other) if rank[0] > rank[1] else (other, instance)
    model.instance = stays
    if leaves.state not in lives.ENDING:
        leaves.model = leftover(model.key, leaves.worker)
        leaves.model.instance = leaves
        world.touch(leaves.model)


def adopt_lease(world: World, worker: Worker, told: LeaseReport) -> None:
    """A lease is what it was; one that nobody has presented gets 30 s more to be claimed."""
    instance = worker.instances.get(told.model)
    if instance is None:
        return
    lease = Lease(
        id=told.lease,
        token=told.token,
        instance=instance,
        holder=told.holder,
        granted=told.granted,
        hold_until=told.hold_until,
        parent=told.parent,
        route=told.route,
        revoked=told.revoked,
        stage=leases.reported_stage(told),
    )
    world.leases[lease.id] = instance.leases[lease.id] = lease
    instance.served = True
    if lease.stage is LeaseStage.GRANTED:
        world.alarms.set(("lease", lease.id), max(lease.hold_until, world.now + UNPRESENTED_LEASE_S))
