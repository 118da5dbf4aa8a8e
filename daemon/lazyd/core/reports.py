"""What the workers and the devices report, but for deaths (`deaths.py`)."""

from __future__ import annotations

from . import configuring, growth, leases, lives, locks, parking, release, rules, samples, shortage, strangers, warming
from .effects import StopWorker
from .events import (
    DeviceLost,
    DeviceSeen,
    Drained,
    DriverSilent,
    LoadProgress,
    ObjectFailed,
    ObjectReady,
    ObjectUnloaded,
    Predicted,
    StillBusy,
    Unpredictable,
    WorkerMeasured,
    WorkerStarted,
)
from .ledger import CUDA, SLOTS, Device, dry_run_of
from .lifecycle import LOADS, SERVES, State
from .records import Absent, Asked, Fetching, Instance, LeaseStage, Leaving, Model, Prediction
from .world import World

ASK_AGAIN_S = 0.25
"""How long a worker that said that it is busy is left in peace."""


def device_seen(world: World, event: DeviceSeen) -> None:
    """A device is there, or has been sampled anew."""
    device = world.ledger.devices.get(event.name)
    if device is None:
        device = Device(name=event.name, kind=event.kind, total_bytes=event.total_bytes, budget_bytes=0)
        world.ledger.add_device(device)
    elif device.lost is not None:
        device.lost = None
        world.note("device back", reason=f"{event.name} works again", device=event.name)
    device.total_bytes, device.alone = event.total_bytes, event.alone
    device.uuid, device.label = event.uuid, event.label
    device.temperature_c, device.power_w = event.temperature_c, event.power_w
    configuring.set_budget(world, device)
    samples.answered(world, device, event.begun)
    strangers.account(world, device, event)
    release.seen(world, device)
    parking.seen(world, device)
    parking.look_again(world, device.name)


def driver_silent(world: World, event: DriverSilent) -> None:
    """Whether more GPUs than are known may be there, and why that cannot be told."""
    world.driver_problem = event.reason


def device_lost(world: World, event: DeviceLost) -> None:
    """The driver has lost it: nothing is loaded there, and what is there is ended, as it computes nothing any more."""
    device = world.ledger.devices.get(event.name)
    if device is None:  # it was lost before this manager has seen it
        device = Device(name=event.name, kind=CUDA, total_bytes=0, budget_bytes=0)
        world.ledger.add_device(device)
    if device.lost is not None or device.kind == SLOTS:
        return
    device.lost, device.asked = event.reason, None
    world.note("device lost", reason=f"{event.name}: {event.reason}", device=event.name)
    release.device_lost(world, event.name)
    for instance in world.instances():
        if event.name in world.ledger.held(instance.worker.id):
            world.touch(instance.model)


def predicted(world: World, event: Predicted) -> None:
    """What the load needs is known: the model can be booked."""
    model = foreseen(world, event)
    if model is None:
        return
    told = Prediction(ways=event.ways, layers=event.layers, files=event.files, digest=event.digest)
    model.prediction = Absent(event.number, told) if event.absent else told
    if not event.absent:
        locks.look_at_files(world, model, event.files)
    world.touch(model)


def foreseen(world: World, event: Predicted | Unpredictable) -> Model | None:
    """The model that was asked about; None if it is not wanted any more, or as it is now is another question."""
    world.ledger.release(dry_run_of(event.model, event.number), world.now)
    model = world.models.get(event.model)
    now = model.prediction if model is not None else None
    return model if isinstance(now, Asked | Fetching) and now.number == event.number else None


def unpredictable(world: World, event: Unpredictable) -> None:
    """The model cannot be loaded at all: a failed load without a worker. One that is parked can only come
    back where it was."""
    model = foreseen(world, event)
    if model is None:
        return
    if parking.is_parked(model):
        model.prediction = Prediction(ways={})
    else:
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
    """What it holds of RAM. What grows past its booking is booked as it is."""
    worker = world.workers.get(event.worker)
    if worker is not None and worker.exited is None:
        worker.file_bytes = event.file_bytes
        growth.measured(world, worker, event.bytes_by_device)
        parking.measured(world, worker)
        if worker.settles:
            worker.settles = False
            lives.settle_booking(world, worker)


def load_progress(world: World, event: LoadProgress) -> None:
    """The load goes on."""
    instance = world.instance(event.worker, event.model)
    if instance is not None and instance.state in LOADS:
        instance.progressed = world.now
        instance.phase, instance.fraction = event.phase, event.fraction
        if instance.state is State.LOADING:
            lives.watch_load(world, instance)
        rules.tell_progress(world, instance)


def object_ready(world: World, event: ObjectReady) -> None:
    instance = world.instance(event.worker, event.model)
    if instance is not None and instance.state in LOADS:
        warming.ready(world, instance, event)
    elif instance is not None:
        warming.too_late(world, instance, event)


def object_failed(world: World, event: ObjectFailed) -> None:
    """The load failed, and nothing is left of the object."""
    instance = world.instance(event.worker, event.model)
    if instance is not None and instance.state in LOADS:
        if event.out_of_memory:
            shortage.load_ran_out(world, instance, event.reason)
        else:
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
