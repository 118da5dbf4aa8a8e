"""Pins: models that are never evicted and never idle, by a person's will.

Pinning loads nothing and outlives restarts. Pins and residents together hold at most
`max_pinned` of a device, so that something is always left for the others.
"""

from __future__ import annotations

from . import refusals, requests
from .answers import Done, NoRoom
from .effects import SavePins
from .events import Pin
from .records import Model
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
    return refusals.worker_kept_too_much(world, model, model.instance.worker) if model.instance is not None else None
