"""What the host, the workers and the devices report."""

from __future__ import annotations

from . import leases, lives, rules
from .effects import StopWorker
from .events import (
    DeviceSeen,
    Drained,
    HostAway,
    HostLost,
    LoadProgress,
    ObjectFailed,
    ObjectReady,
    ObjectUnloaded,
    Predicted,
    StillBusy,
    Unpredictable,
    WorkerExited,
    WorkerMeasured,
    WorkerStarted,
)
from .ledger import CUDA, Device
from .lifecycle import LOADS, SERVES, State
from .records import Asked, Instance, LeaseStage, Leaving, Prediction, Worker
from .world import World

ASK_AGAIN_S = 0.25
"""How long a worker that said that it is busy is left in peace."""
FAULT = "Fatal Python error: "
FORGIVEN_DEATHS = 1
"""A worker that dies while it serves is an accident the first time."""


def device_seen(world: World, event: DeviceSeen) -> None:
    """A device is there, or has been sampled anew."""
    before = world.ledger.devices.get(event.name)
    device = set_device(world, event)
    if device.free_bytes < 0:
        device.samples_over = 1 + (before.samples_over if before is not None else 0)


def set_device(world: World, event: DeviceSeen) -> Device:
    """Puts a device on the ledger as the settings in force have it."""
    is_gpu = event.kind == CUDA
    budget = world.settings.budget.get(event.name, event.total_bytes)
    device = Device(
        name=event.name,
        kind=event.kind,
        total_bytes=event.total_bytes,
        budget_bytes=int(budget * event.total_bytes) if isinstance(budget, float) else budget,
        margin_bytes=world.settings.gpu_margin_bytes if is_gpu else 0,
        foreign_bytes=event.foreign_bytes,
    )
    world.ledger.add_device(device)
    return device


def predicted(world: World, event: Predicted) -> None:
    """What the load needs is known: the model can be booked."""
    model = world.models.get(event.model)
    if model is not None and model.prediction is Asked.ASKED:
        model.prediction = Prediction(bytes_by_kind=event.bytes_by_kind, source=event.source)


def unpredictable(world: World, event: Unpredictable) -> None:
    """The model cannot be loaded at all: a failed load without a worker."""
    model = world.models.get(event.model)
    if model is not None and model.prediction is Asked.ASKED:
        model.prediction = None
        model.ended = State.FAILED
        world.note(str(State.FAILED), model, event.reason)
        lives.pause(world, model, event.reason, failures=model.failures + 1)


def worker_started(world: World, event: WorkerStarted) -> None:
    worker = world.workers.get(event.worker)
    if worker is not None:
        worker.pid = event.pid
    else:
        world.emit(StopWorker(worker=event.worker, grace_s=0.0))  # it was given up while the host was away


def worker_measured(world: World, event: WorkerMeasured) -> None:
    """What grows past its booking is booked as it is; nothing is admitted on what it took."""
    worker = world.workers.get(event.worker)
    if worker is None:
        return
    worker.measured_bytes = event.bytes_by_device
    held = world.ledger.held(worker.id)
    grown = {name: max(n, held.get(name, 0)) for name, n in event.bytes_by_device.items()}
    if any(n > held.get(name, 0) for name, n in grown.items()):
        world.ledger.rebook(worker.id, {**held, **grown})
        for name, n in grown.items():
            if n > held.get(name, 0):
                world.note("grew", reason=f"{worker.spec.key} uses more of {name} than was booked", bytes=n)


def load_progress(world: World, event: LoadProgress) -> None:
    """The load goes on."""
    instance = world.instance(event.worker, event.model)
    if instance is not None and instance.state in LOADS:
        instance.progressed = world.now
        instance.phase, instance.fraction = event.phase, event.fraction
        lives.watch_load(world, instance)
        rules.tell_progress(world, instance)


def object_ready(world: World, event: ObjectReady) -> None:
    instance = world.instance(event.worker, event.model)
    if instance is not None and instance.state in LOADS:
        lives.ready(world, instance)


def object_failed(world: World, event: ObjectFailed) -> None:
    """The load failed, and nothing is left of the object."""
    instance = world.instance(event.worker, event.model)
    if instance is not None and instance.state in LOADS:
        lives.failed(world, instance, event.reason)
    object_gone(world, instance)


def object_unloaded(world: World, event: ObjectUnloaded) -> None:
    """One object has left its worker.

    One that serves was ended by an earlier manager, whose order the worker read after this one had found it.
    """
    instance = world.instance(event.worker, event.model)
    if instance is not None and instance.state in SERVES:
        instance.leaving = None
        world.enter(instance, State.UNLOADING, "an earlier order")
    object_gone(world, instance)


def object_gone(world: World, instance: Instance | None) -> None:
    """An object that was on its way out has gone; an empty worker leaves too."""
    if instance is None or instance.state not in lives.ENDING or instance.worker.stopping:
        return
    worker = instance.worker
    lives.gone(world, instance, State.COLD)
    if not worker.instances:
        lives.stop_worker(world, worker, lives.GRACE_S)


def drained(world: World, event: Drained) -> None:
    """The worker admits nothing more and nothing is in flight; it has ended the object's leases.

    So it has if the drain was taken back meanwhile. Only a lease of which it has said nothing yet
    may have been granted after.
    """
    instance = world.instance(event.worker, event.model)
    if instance is None:
        return
    for lease in list(instance.leases.values()):
        if lease.stage is not LeaseStage.GRANTED:
            leases.forget(world, lease)
    going = answered(instance, event)
    if going is not None:
        going.drained = True
        if instance.protected_until <= world.now:
            leases.forget_all(world, instance)
        world.touch(instance.model)


def still_busy(world: World, event: StillBusy) -> None:
    """It was not idle after all, and serves on; its idle time starts anew.

    The worker may know of a call that the core does not; asking at once would be asked again and again.
    """
    instance = world.instance(event.worker, event.model)
    if instance is not None and answered(instance, event) is not None:
        instance.last_used = world.now
        instance.ask_again = world.now + ASK_AGAIN_S
        lives.serve_on(world, instance, "still busy")


def answered(instance: Instance | None, event: Drained | StillBusy) -> Leaving | None:
    """The drain that an answer belongs to; None if the answer crossed a rescue."""
    if instance is None or instance.state is not State.DRAINING or instance.leaving is None:
        return None
    return instance.leaving if instance.leaving.number == event.drain else None


def worker_exited(world: World, event: WorkerExited) -> None:
    """The process is gone, and all that was in it; its bytes are free."""
    worker = world.workers.get(event.worker)
    if worker is None:
        return
    for instance in list(worker.instances.values()):
        instance_died(world, instance, event)
    lives.worker_gone(world, worker)


def instance_died(world: World, instance: Instance, event: WorkerExited) -> None:
    """What the end of its worker means for a model, by the state it was in."""
    model = instance.model
    cause = describe_exit(event)
    if instance.state in lives.ENDING:
        lives.gone(world, instance, State.COLD)
    elif instance.state in LOADS:
        lives.pause(world, model, cause, failures=model.failures + 1)
        lives.gone(world, instance, State.FAILED, cause)
    else:
        leases.bury(world, instance, event.status, event.signal, event.log)
        lives.pause(world, model, cause, failures=model.failures + 1, forgiven=FORGIVEN_DEATHS)
        lives.gone(world, instance, State.FAILED if model.retry_at else State.COLD, cause)


def describe_exit(event: WorkerExited) -> str:
    """One line: how the worker ended, and what it said of it."""
    if event.signal is not None:
        how = f"the worker was killed by signal {event.signal}"
    elif event.status is not None:
        how = f"the worker exited with status {event.status}"
    else:
        how = "the worker ended"
    last = last_words(event.log)
    return f"{how}: {last}" if last else how


def last_words(log: str) -> str:
    """The last line of a log; or where a signal ended the interpreter, the line that names the fault.

    The interpreter writes it first, and then where each thread was.
    """
    lines = log.strip().split("\n")
    return next((line for line in reversed(lines) if line.startswith(FAULT)), lines[-1]).strip()


def host_away(world: World, _: HostAway) -> None:
    """Nobody hears what is ordered now. What serves goes on; who waits for a load goes on waiting."""
    world.host_found = False


def host_lost(world: World, _: HostLost) -> None:
    """The host died, and all workers with it."""
    world.host_found = False
    for worker in list(world.workers.values()):
        worker_lost(world, worker, "the worker host died")


def worker_lost(world: World, worker: Worker, reason: str) -> None:
    """A worker is gone through no fault of its models; who waits for them goes on waiting."""
    for instance in list(worker.instances.values()):
        if instance.state in SERVES:
            leases.bury(world, instance, None, None, reason)
        lives.gone(world, instance, State.COLD, reason)
    lives.worker_gone(world, worker)
