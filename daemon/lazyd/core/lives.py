"""The steps of an instance's life: begin, ready, failed, drain, resume, unload, gone.

Each function is one step and its bookkeeping. Whether to take it is decided by the rules
(`rules.py`, `room.py`) or told by a report (`reports.py`).

Leaving is a hand-shake. The core asks the worker to drain; the worker alone knows what is in
flight, so it answers in one step: drained (nothing in flight, nothing more admitted) or still
busy. Without `finish` the drain is for models thought idle and is over in a moment; with
`finish` the worker admits nothing more and answers when its last call has ended. Drains are
numbered, so that an answer that crossed a rescue changes nothing. Cold is process exit; only
an object of a family leaves without its worker, while others stay.
"""

from __future__ import annotations

from . import cost, leases, samples, warmups, wear
from .effects import Drain, Resume, StartWorker, StopWorker, UnloadObject
from .failure import pause_s
from .ledger import Booking
from .lifecycle import LOADS, State
from .placement import Placement, prediction_of
from .records import Instance, Leaving, Left, Model, Plan, Reason, Warmth, Worker
from .wording import amounts, size
from .world import World

GRACE_S = 5.0
"""A worker may close its objects for so long before it is killed."""

ABORT_GRACE_S = 2.0
"""The same for a worker that is still loading, or has failed."""

ANSWER_S = 5.0
"""A worker with nothing to wait for answers a drain in a moment; one that has not after this time is stuck."""

STUCK_S = 5.0
"""A process that is killed is gone in a moment; one that is not after this time may never be."""

BEGUN = frozenset({Warmth.RUNNING, Warmth.FAILED})
"""A warm-up in whose time a model fails has failed."""

ENDING = frozenset({State.UNLOADING, State.FAILED})
"""An object in a worker that is on its way out of it."""


def begin(world: World, model: Model, placement: Placement) -> Instance:
    """Books a load and starts it. The booking was decided to fit."""
    worker = world.family_worker(model.spec) if model.spec.is_family else None
    if worker is None:
        worker = start_worker(world, model, placement)
    instance = Instance(
        model=model,
        worker=worker,
        state=model.ended,
        since=world.now,
        load_started=world.now,
        progressed=world.now,
    )
    world.ledger.book(instance.holder, placement.places)
    worker.instances[model.key] = instance
    model.instance = instance
    model.again_until = None
    model.refused = model.left = None
    model.unfit = False
    world.wanting.pop(model.key, None)
    tell_admission(world, instance, placement.worker, sum(placement.files.values()))
    watch_load(world, instance)
    world.emit(warmups.order(world, instance))
    return instance


def tell_admission(world: World, instance: Instance, booking: Booking, file_bytes: int = 0) -> None:
    """It begins to load: what was booked for that beside the files that it maps, their size, and what is left of
    those devices."""
    mapped = {"file_bytes": file_bytes} if file_bytes else {}
    words = [amounts(dict(booking)), f"a file of {size(file_bytes)}, shared" if mapped else ""]
    free = world.ledger.free(booking)
    data = {"worker": instance.worker.id, "bytes": dict(booking), "free_bytes": free, **mapped}
    world.enter(instance, State.LOADING, ", and ".join(filter(None, words)) or None, **data)


def start_worker(world: World, model: Model, placement: Placement) -> Worker:
    """A new process, booked before it exists."""
    worker = Worker(
        id=world.new_id(),
        spec=model.spec,
        identity=model.identity,
        started=world.now,
        way=placement.way,
        digest=prediction_of(model).digest,
        gpus=placement.gpus,
        service=placement.service,
        promised=dict(placement.worker),
    )
    world.workers[worker.id] = worker
    world.ledger.book(worker.id, placement.worker, placement.files)
    memo = {
        "model": model.spec.key,
        "identity": worker.identity,
        "booking": placement.worker,
        "service": placement.service,
        "files": placement.files,
        "way": worker.way,
        "digest": worker.digest,
        "gpus": worker.gpus,
        "loads": {model.key: model.loads},
    }
    world.emit(
        StartWorker(
            worker=worker.id,
            model=model.spec.key,
            devices=placement.devices,
            memo=memo,
            layers=placement.layers,
        )
    )
    return worker


def watch_load(world: World, instance: Instance) -> None:
    """A load may take any time as long as it goes on."""
    timeout_s = instance.model.spec.load_timeout_s
    key = ("load", instance.worker.id, instance.model.key)
    if timeout_s is None:
        world.alarms.clear(key)
    else:
        world.alarms.set(key, instance.progressed + timeout_s)


def no_progress(world: World, worker_id: str, key: str) -> None:
    """Nothing was heard of a load for too long (an alarm), unless its limit is another one now."""
    instance = world.instance(worker_id, key)
    if instance is None or instance.state not in LOADS:
        return
    timeout_s = instance.model.spec.load_timeout_s
    if timeout_s is None or instance.progressed + timeout_s > world.now:
        watch_load(world, instance)
    else:
        failed(world, instance, f"no progress for {timeout_s:g} s while {instance.phase} (load_timeout)")


def end_watch(world: World, instance: Instance) -> None:
    """Neither a load nor a warm-up is waited for."""
    for kind in ("load", "warm"):
        world.alarms.clear((kind, instance.worker.id, instance.model.key))


def ready(world: World, instance: Instance) -> None:
    """The load is done; those who wait are served before anything else can happen to it."""
    model = instance.model
    instance.load_s = world.now - instance.load_started
    cost.note_load(instance)
    if not instance.ready_since:
        warmups.note_load(world, instance)
    instance.ready_since = instance.last_used = world.now
    model.loads += 1
    model.last_load_s = instance.load_s
    model.last_error = None
    model.retry_at = 0.0
    model.ran_out = 0
    end_watch(world, instance)
    world.enter(instance, State.READY)
    instance.worker.settles = True
    wear.begin_anew(instance.worker)
    settle_booking(world, instance.worker)


def settle_booking(world: World, worker: Worker) -> None:
    """From now on it is booked with its peak in service, where that has been learned, or what it holds already:
    as was measured while it loaded, and then once more as is measured first of its service."""
    held = world.ledger.held(worker.id)
    if worker.service is not None and held:
        settled = {
            name: max(worker.service.get(name, n), worker.measured_bytes.get(name, 0)) for name, n in held.items()
        }
        world.ledger.rebook(worker.id, {name: min(n, held[name]) for name, n in settled.items()}, world.now)
    for name in held:
        samples.ask(world, name)


def failed(world: World, instance: Instance, reason: str) -> None:
    """A load failed: the model is paused, and what is left of the object goes. It keeps its place
    in the worker until it is seen to be gone."""
    warmups.note_failure(world, instance)
    pause(world, instance.model, reason, failures=instance.model.failures + 1)
    end_failed(world, instance, reason)


def end_failed(world: World, instance: Instance, reason: str) -> None:
    """What was to be used will not be: it goes."""
    end_watch(world, instance)
    instance.leaving = None
    leases.forget_all(world, instance)
    world.enter(instance, State.FAILED, reason)
    detach(world, instance)
    leave_worker(world, instance, ABORT_GRACE_S)


def pause(world: World, model: Model, reason: str, failures: int, forgiven: int = 0) -> None:
    """Leaves a model alone for a growing time; `forgiven` failures pause nothing."""
    model.failures = failures
    model.ran_out = 0
    model.last_error = reason
    model.retry_at = world.now + pause_s(failures - forgiven) if failures > forgiven else 0.0
    if model.retry_at:
        world.alarms.set(("retry", model.key), model.retry_at)
    world.touch(model)


def drain(world: World, instance: Instance, reason: Reason, *, finish: bool, plan: Plan | None = None) -> None:
    """Begins the hand-shake, or turns one that is under way to another reason."""
    if instance.state is State.READY:
        world.enter(instance, State.DRAINING, reason if plan is None else f"room for {plan.seeker.named}")
    world.drains += 1
    instance.leaving = Leaving(number=world.drains, finish=finish, reason=reason, plan=plan)
    world.emit(Drain(worker=instance.worker.id, model=instance.model.key, drain=world.drains, finish=finish))
    watch_drain(world, instance)


def watch_drain(world: World, instance: Instance) -> None:
    """Sets the alarm for a drain that is not answered. The worker waits until no lease protects it, so its time
    begins then; as long as something is in flight nobody knows when that is, and it is looked at again."""
    until = instance.protected_until
    begins = until if world.now < until < float("inf") else world.now
    world.alarms.set(("drain", instance.worker.id, instance.model.key), begins + ANSWER_S)


def unanswered(world: World, worker_id: str, key: str) -> None:
    """A drain has no answer yet (an alarm). While something is in flight that is as it should be; otherwise
    the worker's loop is dead, so that it admits nothing either: the model goes without its answer."""
    instance = world.instance(worker_id, key)
    going = instance.leaving if instance is not None else None
    if instance is None or going is None or going.drained:
        return
    if instance.protected_until > world.now:
        watch_drain(world, instance)
        return
    world.note("silent", instance.model, f"its worker has not answered for {ANSWER_S:g} s, and is ended")
    going.drained = True
    world.touch(instance.model)


def drain_again(world: World, instance: Instance, going: Leaving) -> None:
    """A worker that has drained admits again, and then only until the last call has ended."""
    world.emit(Resume(worker=instance.worker.id, model=instance.model.key))
    drain(world, instance, going.reason, finish=True, plan=going.plan)


def resume(world: World, instance: Instance, reason: str = "rescued") -> None:
    """Undoes a drain: the model serves again."""
    world.emit(Resume(worker=instance.worker.id, model=instance.model.key))
    serve_on(world, instance, reason)


def serve_on(world: World, instance: Instance, reason: str) -> None:
    """The drain is over, and nothing has changed."""
    instance.leaving = None
    world.enter(instance, State.READY, reason)


def unload(world: World, instance: Instance, reason: str, grace_s: float = GRACE_S) -> None:
    """Ends what is loaded or loading. Its bytes stay booked until they are seen to be free."""
    instance.leaving = None
    leases.forget_all(world, instance)
    end_watch(world, instance)
    world.enter(instance, State.UNLOADING, reason)
    remember_why(world, instance, reason)
    leave_worker(world, instance, grace_s)


def leave_worker(world: World, instance: Instance, grace_s: float) -> None:
    """Ends the worker, or, while a family's other objects stay, the object alone."""
    worker = instance.worker
    if worker.stopping:
        return
    if all(other.state in ENDING for other in worker.instances.values()):
        stop_worker(world, worker, grace_s)
    else:
        world.emit(UnloadObject(worker=worker.id, model=instance.model.key))
        world.alarms.set(("object", worker.id, instance.model.key), world.now + grace_s + STUCK_S)


def object_does_not_leave(world: World, worker_id: str, key: str) -> None:
    """A family's object does not leave its worker (an alarm): its thread hangs. The others serve on, and new ones begin
    in another worker."""
    instance = world.instance(worker_id, key)
    if instance is not None and instance.state in ENDING and not instance.worker.stopping:
        instance.worker.hangs = True
        world.stirred.add(worker_id)
        reason = "it does not leave its worker, which ends once its other objects have left"
        world.note("stuck", instance.model, reason, worker=worker_id)
        world.touch(instance.model)


def is_still_inside(world: World, model: Model) -> bool:
    """The last life of a family's member has not left the worker that the next one would join."""
    worker = world.family_worker(model.spec) if model.spec.is_family else None
    return worker is not None and model.key in worker.instances


def stop_worker(world: World, worker: Worker, grace_s: float) -> None:
    """Ends a process. It stays booked until it is seen to be gone."""
    if grace_s:
        grace_s += worker.spec.stop_grace_s
    worker.stopping = True
    world.stirred.add(worker.id)
    world.alarms.set(("stuck", worker.id), world.now + grace_s + STUCK_S)
    world.emit(StopWorker(worker=worker.id, grace_s=grace_s))


def does_not_end(world: World, worker_id: str) -> None:
    """A process has outlived SIGKILL (an alarm): a driver may hold it. What it has is not waited for any more."""
    worker = world.workers.get(worker_id)
    if worker is not None and worker.stopping and worker.exited is None:
        worker.stuck = True
        world.stirred.add(worker.id)
        reason = f"its process (pid {worker.pid}) does not end, and keeps what it holds"
        world.note("stuck", worker.spec.key, reason, worker=worker.id)


def gone(world: World, instance: Instance, state: State, reason: str | None = None) -> None:
    """The object is no longer in its worker: the end of a life, if a failure had not ended it before."""
    leases.forget_all(world, instance)
    world.ledger.release(instance.holder, world.now)
    end_watch(world, instance)
    world.alarms.clear(("park", instance.worker.id, instance.model.key))
    world.alarms.clear(("idle", instance.worker.id, instance.model.key))
    world.alarms.clear(("drain", instance.worker.id, instance.model.key))
    world.alarms.clear(("object", instance.worker.id, instance.model.key))
    instance.leaving = None
    instance.worker.instances.pop(instance.model.key, None)
    wear.begin_anew(instance.worker)
    world.touch(instance.model)
    if instance.state is not State.FAILED:
        world.enter(instance, state, reason)
        remember_why(world, instance, reason)
        detach(world, instance)


def remember_why(world: World, instance: Instance, reason: str | None) -> None:
    """The model knows why this life ended, unless it has a newer one. An order counts, not its effect."""
    if reason is not None and instance.model.instance is instance:
        instance.model.left = Left(reason=reason, at=world.now)


def detach(world: World, instance: Instance) -> None:
    """The model remembers how this life ended, unless it has a newer one."""
    model = instance.model
    if model.instance is instance:
        model.instance = None
        model.ended = instance.state
        model.unfit = instance.state is State.FAILED and instance.warmup in BEGUN
        model.cold_since = world.now
        model.prediction = None


def worker_gone(world: World, worker: Worker) -> None:
    """Forgets a process without instances and gives back its booking."""
    world.workers.pop(worker.id, None)
    world.ledger.release(worker.id, world.now)
