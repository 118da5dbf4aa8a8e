"""When there is no room and never will be: said at once, with the reason.

What cannot move is what pinned and resident models hold, and what strangers use. A model that
does not fit beside it is refused now, rather than at its deadline.
"""

from __future__ import annotations

from collections.abc import Iterable

from . import pins, requests
from .answers import NoRoom
from .eviction import goes
from .ledger import Device
from .records import Model, Worker
from .world import World

UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def size(n: int) -> str:
    """Bytes as people read them."""
    for unit, name in UNITS:
        if abs(n) >= unit:
            return f"{n / unit:.1f} {name}"
    return f"{n} bytes"


def possible(world: World, model: Model, choices: list[dict[str, int]]) -> tuple[list[dict[str, int]], NoRoom]:
    """The placements that can work as things stand, and what to say if there is none."""
    joined = world.family_worker(model.spec) if model.spec.is_family and model.kept else None
    refused = pins.worker_kept_too_much(world, model, joined) if joined is not None else None
    if refused is not None:
        return [], refused
    good: list[dict[str, int]] = []
    first: NoRoom | None = None
    for booking in choices:
        refusal = next(filter(None, (too_big(world, model, name, n) for name, n in booking.items())), None)
        if refusal is None:
            good.append(booking)
        first = first or refusal
    return good, first or no_device(model)


def no_device(model: Model) -> NoRoom:
    wanted = ", ".join(model.spec.device) or "auto"
    reason = f"no device of this machine suits it (device = {wanted})"
    return NoRoom(model=model.key, device=wanted, needed_bytes=0, free_bytes=0, reason=reason)


def too_big(world: World, model: Model, device_name: str, needed: int) -> NoRoom | None:
    """Whether `needed` exceeds what can ever be free of a device."""
    device = world.ledger.devices[device_name]
    keepers = [worker for worker in world.workers.values() if keeps(worker, model)]
    kept = sum(held_by(world, worker, device_name) for worker in keepers)
    if needed > device.limit_bytes - kept:
        return NoRoom(
            model=model.key,
            device=device_name,
            needed_bytes=needed,
            free_bytes=max(0, device.limit_bytes - kept),
            reason=explain(world, device, needed, keepers),
        )
    return pins.keeps_too_much(world, model, device_name, needed) if model.kept else None


def keeps(worker: Worker, model: Model) -> bool:
    """The worker holds something that is not moved for `model`."""
    return any(i.model.kept and i.model is not model and not goes(i) for i in worker.instances.values())


def held_by(world: World, worker: Worker, device_name: str) -> int:
    """What a worker holds of a device, with the places of those objects in it that are kept."""
    places = sum(world.ledger.held(i.holder).get(device_name, 0) for i in worker.instances.values() if i.model.kept)
    return world.ledger.held(worker.id).get(device_name, 0) + places


def explain(world: World, device: Device, needed: int, keepers: Iterable[Worker]) -> str:
    """One line: what is needed, what there is, and who holds the rest."""
    held = [
        f"{worker.spec.key} holds {size(n)} and is kept"
        for worker in keepers
        if (n := held_by(world, worker, device.name))
    ]
    if device.foreign_bytes:
        held.append(f"other programs use {size(device.foreign_bytes)}")
    what = f"needs {size(needed)} of {device.name}, whose budget is {size(device.budget_bytes)}"
    return f"{what}; {'; '.join(held)}" if held else what


def refuse(world: World, model: Model, refusal: NoRoom) -> None:
    """Answers all who wait. A resident stays in the line, and the reason is noted once."""
    requests.answer_all(world, model, refusal)
    if model.refused != refusal.reason:
        model.refused = model.last_error = refusal.reason
        world.note("no room", model, refusal.reason)
