"""Pins: models that are never evicted and never idle, by a person's will.

Pinning loads nothing and outlives restarts. Pins and residents together hold at most
`max_pinned` of a device, so that something is always left for the others.
"""

from __future__ import annotations

from . import requests
from .answers import Done, NoRoom
from .effects import SavePins
from .events import Pin
from .ledger import SLOTS
from .records import Model, Worker
from .world import World


def pin(world: World, event: Pin) -> None:
    """A pinned model is never evicted and never idle. Pinning loads nothing."""
    model = requests.wanted(world, event.request, event.model)
    if model is None:
        return
    refusal = too_much(world, model) if event.pinned and not model.kept else None
    if refusal is not None:
        world.answer(event.request, refusal)
        return
    model.pinned = event.pinned
    world.touch(model)
    world.emit(SavePins(pins=frozenset(m.key for m in world.models.values() if m.pinned and not m.spec.pin)))
    world.answer(event.request, Done())


def too_much(world: World, model: Model) -> NoRoom | None:
    """Pins and residents together hold at most `max_pinned` of a device."""
    return worker_kept_too_much(world, model, model.instance.worker) if model.instance is not None else None


def worker_kept_too_much(world: World, model: Model, worker: Worker) -> NoRoom | None:
    """Whether a worker may be kept for one of its models. One that is kept for another already may."""
    if any(i.model.kept and i.model is not model for i in worker.instances.values()):
        return None
    held = world.ledger.held(worker.id)
    return next(filter(None, (keeps_too_much(world, model, name, needed) for name, needed in held.items())), None)


def keeps_too_much(world: World, model: Model, device_name: str, needed: int) -> NoRoom | None:
    """Whether keeping `needed` more would exceed what pins and residents may hold of a device."""
    device = world.ledger.devices.get(device_name)
    if device is None or device.kind == SLOTS:
        return None
    kept = sum(
        world.ledger.held(worker.id).get(device_name, 0)
        for worker in world.workers.values()
        if any(i.model.kept and i.model is not model for i in worker.instances.values())
    )
    allowed = int(device.budget_bytes * world.settings.max_pinned)
    if kept + needed <= allowed:
        return None
    part = f"{world.settings.max_pinned:.0%}"
    return NoRoom(
        model=model.key,
        device=device_name,
        needed_bytes=needed,
        free_bytes=max(0, allowed - kept),
        reason=f"pinned and resident models may hold {part} of {device_name} together (max_pinned)",
    )
