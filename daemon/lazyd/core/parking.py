"""Parking: a model gives back its device memory and keeps its process, so that it is soon back.

An idle model whose runtime can is parked instead of unloaded, if it holds a GPU and there is RAM for
what it keeps. The RAM is booked first. What is left on the GPU (a context) is measured, not assumed:
its booking there shrinks to what a sample begun after shows. After `park_timeout_s` it exits (`rules.py`),
unless it has been pinned; and so does one that does not get parked. The next request has it load again
where it was, through the line like every load.
"""

from __future__ import annotations

from . import leases, lives, samples
from .effects import ParkObject, UnparkObject
from .events import ObjectParked, ParkFailed
from .ledger import CUDA, RAM, Device
from .lifecycle import SERVES, State
from .placement import Placement
from .records import Instance, Model, Warmth, Worker
from .world import World


def may_park(world: World, instance: Instance) -> bool:
    """Whether it can give back device memory and stay."""
    timeout_s = instance.model.spec.park_timeout_s
    if not instance.parks or len(instance.worker.instances) > 1 or timeout_s == 0 or not instance.worker.gpus:
        return False
    if instance.warmup is Warmth.RUNNING:
        return False  # it would be warmed up no more
    ram = world.ledger.devices.get(RAM)
    return ram is not None and ram.is_fresh(world.now) and ram.free_bytes >= moved_bytes(world, instance.worker)


def waits_for_sample(world: World, instance: Instance) -> bool:
    """It could park, if RAM had been looked at of late; that is asked for."""
    ram = world.ledger.devices.get(RAM)
    if ram is None or not instance.parks or ram.is_fresh(world.now) or ram.is_silent(world.now):
        return False
    samples.ask(world, RAM)
    return True


def look_again(world: World, name: str) -> None:
    """A device was seen, or does not answer: those that have drained and wait for that go on."""
    if name == RAM:
        for instance in world.instances():
            if instance.parks and instance.leaving is not None and instance.leaving.drained:
                world.touch(instance.model)


def moved_bytes(world: World, worker: Worker) -> int:
    """What it may have on GPUs, and keep in RAM: not what was measured, as a driver may not show it."""
    held = world.ledger.held(worker.id)
    return sum(held.get(gpu, 0) for gpu in worker.gpus)


def park(world: World, instance: Instance, reason: str) -> None:
    """Books its RAM, and has it give back its GPUs."""
    worker = instance.worker
    held = world.ledger.held(worker.id)
    worker.service = dict(held)  # what it needs to come back
    world.ledger.rebook(worker.id, {**held, RAM: held.get(RAM, 0) + moved_bytes(world, worker)}, world.now)
    instance.leaving = None
    world.enter(instance, State.PARKING, reason)
    world.emit(ParkObject(worker=worker.id, model=instance.model.key))


def parked(world: World, event: ObjectParked) -> None:
    """It has given back what it could; how much that is, samples will show."""
    instance = world.instance(event.worker, event.model)
    if instance is None or instance.state not in (State.PARKING, *SERVES):
        return
    if instance.state in SERVES:  # ordered by an earlier manager, before this one had found the worker
        instance.leaving = None
        leases.forget_all(world, instance)
        world.enter(instance, State.PARKING, "an earlier order")
    instance.parked_at = world.now
    world.enter(instance, State.PARKED)
    for name in (*instance.worker.gpus, RAM):
        samples.ask(world, name)


def parked_until(instance: Instance) -> float:
    """When it has been parked for its time."""
    timeout_s = instance.model.spec.park_timeout_s
    return float("inf") if timeout_s is None or instance.parked_at is None else instance.parked_at + timeout_s


def park_failed(world: World, event: ParkFailed) -> None:
    """Nothing is known of what it holds: it goes."""
    instance = world.instance(event.worker, event.model)
    if instance is not None and instance.state is State.PARKING:
        lives.unload(world, instance, f"it could not be parked: {event.reason}")


def seen(world: World, device: Device) -> None:
    """A device was sampled: what parked models hold of it is what is booked for them."""
    if device.kind != CUDA:
        return
    for instance in world.instances():
        if instance.state is not State.PARKED or instance.parked_at is None or device.sampled < instance.parked_at:
            continue
        worker = instance.worker
        held = world.ledger.held(worker.id)
        now_held = worker.measured_bytes.get(device.name, 0)
        if now_held < held.get(device.name, 0):
            world.ledger.rebook(worker.id, {**held, device.name: now_held}, device.sampled)


def measured(world: World, worker: Worker) -> None:
    """Its RAM was measured: parked bytes may be fewer than were booked."""
    if any(instance.state is State.PARKED for instance in worker.instances.values()):
        held = world.ledger.held(worker.id)
        kept = worker.measured_bytes.get(RAM, 0)
        if kept < held.get(RAM, 0):
            world.ledger.rebook(worker.id, {**held, RAM: kept}, world.now)


def way_back(world: World, instance: Instance) -> Placement:
    """What must be free for it to come back where it was, beside what it holds there."""
    worker = instance.worker
    held = world.ledger.held(worker.id)
    wanted = worker.service or worker.promised
    return Placement(booking={name: n - held.get(name, 0) for name, n in wanted.items() if n > held.get(name, 0)})


def unpark(world: World, instance: Instance, placement: Placement) -> None:
    """Books what it needs again, and has it load. The booking was decided to fit."""
    worker, model = instance.worker, instance.model
    held = world.ledger.held(worker.id)
    worker.service = worker.service or dict(worker.promised)  # one that was found parked: its RAM is given back after
    world.ledger.rebook(
        worker.id, held | {name: n + held.get(name, 0) for name, n in placement.booking.items()}, world.now
    )
    instance.parked_at = None
    instance.load_started = instance.progressed = world.now
    instance.phase, instance.fraction = "unparking", None
    model.refused = None
    world.wanting.pop(model.key, None)
    world.alarms.clear(("park", worker.id, model.key))
    lives.tell_admission(world, instance, placement.booking)
    lives.watch_load(world, instance)
    world.emit(UnparkObject(worker=worker.id, model=model.key))


def is_away(world: World, model: Model) -> bool:
    """It has no life that could be waited for: to be had it needs room."""
    comes = model.instance is not None and not model.instance.worker.stopping and not is_parked(model)
    return not comes and not lives.is_still_inside(world, model)


def is_parked(model: Model) -> bool:
    """It waits in its process for the next request."""
    return model.instance is not None and model.instance.state is State.PARKED
