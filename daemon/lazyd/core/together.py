"""Where one who waits could go, with all that it uses: they are admitted together or not at all.

A model that calls others is of no use before they are there, and if each of two such models got half of what
it needs, neither would go on. So a placement of a model has a part for everything that it uses and that
is not in memory, and asks for the room of all. When there is room, all are begun, what is used first.

What is used and cannot come at present, as its last load has failed, holds up nobody: whoever calls it is told.
"""

from __future__ import annotations

from dataclasses import replace

from . import lives, parking, refusals, uses
from .eviction import add
from .ledger import RAM
from .placement import Placement, Room, places_for, shapes
from .records import Model, Prediction, Seeker
from .world import World


def placements(world: World, seeker: Seeker, room: Room) -> list[list[Placement]]:
    """Where it could go, in groups of equal preference."""
    if not isinstance(seeker, Model):
        booking = {seeker.device: seeker.bytes}
        return [[Placement(booking=booking, worker=booking)]]
    groups = alone(world, seeker, room)
    used = missing(world, seeker)
    if not used:
        return groups
    joined = [[whole for one in group if (whole := with_used(world, seeker, one, used, room))] for group in groups]
    return [group for group in joined if group]


def alone(world: World, model: Model, room: Room) -> list[list[Placement]]:
    """The same without what it uses."""
    if model.instance is not None and parking.is_parked(model):
        return [[parking.way_back(world, model.instance)]]
    return shapes(world, model, room)


def missing(world: World, seeker: Seeker) -> list[Model]:
    """What it uses and has to be loaded with it; what is used by others comes before these."""
    if not isinstance(seeker, Model) or not seeker.spec.uses:
        return []
    return [
        used
        for used in uses.used_by(world, seeker)
        if parking.is_away(world, used) and used.retry_at <= world.now and not used.retired
    ]


def are_known(world: World, model: Model) -> bool:
    """It is known what it needs, and what it uses."""
    asked = [each for each in (*missing(world, model), model) if not parking.is_parked(each)]
    return all(isinstance(each.prediction, Prediction) for each in asked)


def with_used(world: World, model: Model, own: Placement, used: list[Model], room: Room) -> Placement | None:
    """One placement for all. None: there is nowhere for something that it uses."""
    parts = [(model, own)]
    for each in used:
        part = best_part(world, each, parts, room)
        if part is None:
            return None
        parts.insert(-1, (each, part))
    files = {file: size for _, part in parts for file, size in part.files.items()}
    booking: dict[str, int] = {}
    for _, part in parts:
        add(booking, without_files(world, part))
    if files:
        add(booking, {RAM: world.ledger.unmapped(files)})
    return replace(own, booking=booking, files=files, parts=tuple(parts))


def without_files(world: World, part: Placement) -> dict[str, int]:
    """What must be free for it, but for the files that it maps: others may map them, too."""
    booking = dict(part.booking)
    if part.files:
        booking[RAM] -= world.ledger.unmapped(part.files)
    return booking


def best_part(world: World, model: Model, parts: list[tuple[Model, Placement]], room: Room) -> Placement | None:
    """The preferred placement of something used that fits beside the parts found so far; else the first that may
    fit some time."""
    if model.spec.is_family and any(other.spec.key == model.spec.key for other, _ in parts):
        return Placement(booking=places_for(model), places=places_for(model))  # they share a worker

    def left(name: str) -> int:
        return room(name) - sum(part.booking.get(name, 0) for _, part in parts)

    ways = [placement for group in alone(world, model, left) for placement in group]
    fits = (p for p in ways if all(left(name) >= n for name, n in p.booking.items() if n))
    may_fit = (p for p in ways if refusals.never(world, model, p) is None)
    return next(fits, None) or next(may_fit, None) or next(iter(ways), None)


def without_device(world: World, model: Model) -> Model:
    """What has nowhere to go: something that it uses, or the model itself."""
    return next((used for used in missing(world, model) if not any(alone(world, used, lambda _: 0))), model)


def begin(world: World, model: Model, placement: Placement) -> None:
    """Begins to load a model and what it uses. The booking was decided to fit."""
    for each, part in placement.parts_of(model):
        if each.instance is not None and parking.is_parked(each):
            parking.unpark(world, each.instance, part)
        else:
            lives.begin(world, each, part)
