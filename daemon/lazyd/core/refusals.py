"""When there is no room and never will be: said at once, with the reason.

What cannot move is what pinned and resident models hold, what is reserved, and what strangers are
known to use. A model that does not fit beside it is refused now, rather than at its deadline.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from .answers import NoRoom
from .eviction import add, goes, keepers
from .holders import amount, holders, part_of
from .ledger import RAM, SLOTS, Device
from .placement import Placement
from .records import Model, Seeker, Worker
from .wording import listed, size
from .world import World

DEVICES = 4
"""Of so many devices it is told why they have no room."""


def never(world: World, model: Model, placement: Placement) -> NoRoom | None:
    """Why a placement can never be had as things stand; None if it can."""
    booking = placement.beside(world.ledger, lasting_files(world, model))
    found = [too_big(world, model, name, n) for name, n in booking.items()]
    refusal = next(filter(None, [*found, *keep_too_much(world, model, placement)]), None)
    if refusal is None or not placement.parts:
        return refusal
    used = listed([part.key for part, _ in placement.parts if part is not model])
    return msgspec.structs.replace(refusal, reason=f"together with {used}, which it uses, {refusal.reason}")


def keep_too_much(world: World, model: Model, placement: Placement) -> Iterator[NoRoom | None]:
    """Whether what is pinned or resident of it would be too much to be kept; a family's worker is kept as a whole."""
    parts = placement.parts_of(model)
    keepers_by_spec = {each.spec.key: each for each, _ in parts if each.kept}
    kept: dict[str, int] = {}
    for each, part in parts:
        if each.spec.key in keepers_by_spec:
            add(kept, part.beside(world.ledger, lasting_files(world, each)))
    for each in keepers_by_spec.values():
        joined = world.family_worker(each.spec) if each.spec.is_family else None
        add(kept, kept_with(world, each, joined) if joined is not None else {})
    for name, n in kept.items():
        yield keeps_too_much(world, model, name, n)


def together(found: Iterable[NoRoom]) -> NoRoom | None:
    """One refusal of several: that by the device of which the most can be had, with what the others say."""
    by_device: dict[str, NoRoom] = {}
    for refusal in found:
        by_device.setdefault(refusal.device, refusal)
    ordered = sorted(by_device.values(), key=lambda refusal: -refusal.free_bytes)
    if len(ordered) < 2:
        return next(iter(ordered), None)
    return msgspec.structs.replace(ordered[0], reason="; ".join(one.reason for one in ordered[:DEVICES]))


def no_device(world: World, seeker: Model, model: Model) -> NoRoom:
    """None of the devices that a model may use is there, or, as far as its driver tells, none of them yet: the one
    who waits, or one that it uses."""
    refusal = unsuited(world, model)
    if model is seeker:
        return refusal
    return msgspec.structs.replace(refusal, model=seeker.key, reason=f"it uses {model.key}: {refusal.reason}")


def unsuited(world: World, model: Model) -> NoRoom:
    """Of one that has nowhere to go."""
    wanted = ", ".join(model.spec.device) or "auto"
    if world.driver_problem is not None and any(name != RAM for name in model.spec.device):
        reason = f"it may only use GPUs of which the driver does not tell (device = {wanted}): {world.driver_problem}"
        return NoRoom(model=model.key, device=wanted, needed_bytes=0, free_bytes=0, reason=reason, remedy="try later")
    lost = [f"{d.name} is lost: {d.lost}" for d in world.ledger.devices.values() if d.lost is not None]
    reason = "; ".join([f"no device of this machine suits it (device = {wanted})", *lost])
    remedy = "'lazyctl status' shows the devices; correct device"
    return NoRoom(model=model.key, device=wanted, needed_bytes=0, free_bytes=0, reason=reason, remedy=remedy)


def too_big(world: World, model: Model, device_name: str, needed: int) -> NoRoom | None:
    """Whether `needed` exceeds what can ever be free of a device."""
    device = world.ledger.devices[device_name]
    most = could_be_free(world, model, device)
    if needed > most:
        return NoRoom(
            model=model.key,
            device=device_name,
            needed_bytes=needed,
            free_bytes=max(0, most),
            reason=f"{explain(world, device, needed, model, lasting=True)}; {can_be_had(device, most)}",
            remedy=never_fits(device) if needed > device.ceiling_bytes else None,
        )
    return None


def could_be_free(world: World, seeker: Seeker, device: Device) -> int:
    """What of a device is neither kept, nor reserved, nor known to be strangers'."""
    kept = sum(held_by(world, worker, device.name) for worker in keepers(world) if keeps(worker, seeker))
    kept += sum(lasting_files(world, seeker).values()) if device.name == RAM else 0
    kept += sum(known.bytes for known in world.lasting_reservations() if known.device == device.name)
    return device.lasting_limit_bytes - kept


def keeps(worker: Worker, seeker: Seeker) -> bool:
    """The worker holds something that is not moved for `seeker`."""
    return any(i.model.kept and i.model is not seeker and not goes(i) for i in worker.instances.values())


def lasting_files(world: World, seeker: Seeker) -> dict[str, int]:
    """The files that stay in memory, whoever maps them too."""
    return world.ledger.files_of(worker.id for worker in keepers(world) if keeps(worker, seeker))


def held_by(world: World, worker: Worker, device_name: str) -> int:
    """What a worker holds of a device, with the places of those objects in it that are kept, and without files."""
    places = sum(world.ledger.held(i.holder).get(device_name, 0) for i in worker.instances.values() if i.model.kept)
    return world.ledger.held(worker.id).get(device_name, 0) + places


def explain(world: World, device: Device, needed: int, seeker: Seeker | None = None, *, lasting: bool = False) -> str:
    """One line: what is needed, what there is, and who holds the rest, or with `lasting` will for good."""
    margin = f" less a margin of {size(device.margin_bytes)}" if device.ceiling_bytes < device.budget_bytes else ""
    what = (
        f"it needs {amount(device, needed)} of {part_of(device)}, whose budget is {amount(device, device.budget_bytes)}"
    )
    held = holders(world, device.name, seeker, lasting=lasting) if needed <= device.ceiling_bytes else []
    return "; ".join([what + margin, *held])


def can_be_had(device: Device, n: int) -> str:
    """How much a refused one could have had instead, and whether others would leave for it."""
    n = max(0, n)
    room = " once all that may leave has left" if n > max(0, device.free_bytes) else ""
    return f"{amount(device, n)} of {part_of(device)} can be had{room}"


def never_fits(device: Device) -> str:
    """What to do about a wish that is larger than what a device has for it."""
    raised = "" if device.budget_bytes >= device.total_bytes else f", raise {device.name} in [budget]"
    return f"it never fits there: let it need less{raised} or use another device"


def worker_kept_too_much(world: World, model: Model, worker: Worker) -> NoRoom | None:
    """Whether a worker may be kept for one of its models."""
    kept = kept_with(world, model, worker)
    return next(filter(None, (keeps_too_much(world, model, name, needed) for name, needed in kept.items())), None)


def kept_with(world: World, model: Model, worker: Worker) -> dict[str, int]:
    """What is kept more if a worker is kept for one of its models: nothing, if it is kept for another already."""
    if any(i.model.kept and i.model is not model for i in worker.instances.values()):
        return {}
    held = dict(world.ledger.held(worker.id))
    others = world.ledger.files_of(keeping(world, model))
    files = world.ledger.files_of([worker.id])
    held[RAM] = held.get(RAM, 0) + sum(size for file, size in files.items() if file not in others)
    return held


def keeps_too_much(world: World, model: Model, device_name: str, needed: int) -> NoRoom | None:
    """Whether keeping `needed` more would exceed what pins and residents may hold of a device."""
    device = world.ledger.devices.get(device_name)
    if device is None or device.kind == SLOTS:
        return None
    kept, allowed = kept_bytes(world, device_name, keeping(world, model)), may_be_kept(world, device)
    if kept + needed <= allowed:
        return None
    part = f"{world.settings.max_pinned:.0%}"
    return NoRoom(
        model=model.key,
        device=device_name,
        needed_bytes=needed,
        free_bytes=max(0, allowed - kept),
        reason=f"pinned and resident models may hold {part} of {device_name} together (max_pinned)",
        remedy="unpin another, or raise max_pinned in [budget]",
    )


def kept_bytes(world: World, device_name: str, workers: list[str]) -> int:
    """What these workers hold of a device, with the files that they map."""
    held = sum(world.ledger.held(worker).get(device_name, 0) for worker in workers)
    return held + (sum(world.ledger.files_of(workers).values()) if device_name == RAM else 0)


def may_be_kept(world: World, device: Device) -> int:
    """What of a device may be kept together: `max_pinned` of its budget."""
    return int(device.budget_bytes * world.settings.max_pinned)


def keeping(world: World, model: Model | None) -> list[str]:
    """The workers that are kept for another model than this; without one, for any."""
    return [
        worker.id
        for worker in world.workers.values()
        if any(i.model.kept and i.model is not model for i in worker.instances.values())
    ]
