"""Checks of admissions: what is booked anew fits beside all that is there, and that has been seen of late.

An admission is the start of a worker, the way back of a parked one, the RAM of one that parks, a
reservation, files that are to be locked, and the RAM of a dry run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from lazyd.core import answers, effects, events
from lazyd.core.seekers import DRY_RUN_BYTES

from .memory import RAM

if TYPE_CHECKING:
    from .world import World

ADMISSIONS = (effects.StartWorker, effects.UnparkObject, effects.ParkObject, effects.Predict, effects.Answer)


def admitted(world: World, effect: Any) -> Mapping[str, int]:
    """Bytes by device that an effect books anew."""
    books = world.manager.told.books
    match effect:
        case effects.StartWorker(memo=memo):
            booking = dict(memo["booking"])
            new = sum(n for file, n in memo["files"].items() if file not in books.mapped())
            if new:
                booking[RAM] = booking.get(RAM, 0) + new
            return booking
        case effects.UnparkObject(worker=name):
            entry = books.entries[name]
            if not entry.parks:
                return {}  # ordered again
            more = {device: n - books.left_on(entry, device) for device, n in books.way_back(entry).items()}
            return {device: n for device, n in more.items() if n}
        case effects.ParkObject(worker=name):
            entry = books.entries[name]
            return {RAM: books.moved(entry)} if not entry.parks else {}
        case effects.Predict(dry_run=True):
            return {RAM: DRY_RUN_BYTES}
        case effects.Answer(request=number, outcome=answers.Reserved(reservation=name)):
            fields = world.control.by_number[number].fields
            return {} if name in books.reserved else {fields["device"]: fields["bytes"]}
        case effects.Answer(request=number, outcome=answers.Done()):
            pending = world.control.by_number[number]
            model = world.manager.told.resolve(pending.fields.get("model", ""))
            if pending.kind is not events.LockFiles or model in books.locks:
                return {}
            return {RAM: sum(n for file, n in pending.fields["files"].items() if file not in books.mapped())}
    return {}


def admission_fits(world: World, effect: Any) -> str | None:
    books = world.manager.told.books
    for device, n in admitted(world, effect).items():
        if device in books.lost:
            return f"{effect} books {n} of {device}, which is lost"
        booked, most = books.booked(device), books.most(device)
        if n and booked + n > most:
            strange = books.strange(device)
            return f"{effect} books {n} of {device}: {booked} are booked, {most} may be, strangers may have {strange}"
    return None


def admission_is_seen(world: World, effect: Any) -> str | None:
    books = world.manager.told.books
    for device, n in admitted(world, effect).items():
        if n and not books.is_fresh(device):
            begun, back = books.seen[device].begun, books.given_back.get(device, 0.0)
            age_s = world.clock.now - begun
            return f"{effect} is decided on a sample of {device} begun {age_s:.3f} s ago; given back at {back:.4f}"
    return None


def booked_where_it_goes(_: World, effect: effects.StartWorker) -> str | None:
    booking = effect.memo["booking"]
    if set(booking) != set(effect.devices) or not booking:
        return f"{effect.worker} is booked on {booking} and is to use {effect.devices}"
    return None
