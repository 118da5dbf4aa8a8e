"""Checks of the ledger itself: each byte of a device is somebody's, and is counted once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazyd.core import events

from .memory import CUDA, RAM

if TYPE_CHECKING:
    from .world import World

LOOK_EVERY = 20
"""The whole ledger is added up after every so many events."""


def books_balance(world: World, _: events.Event) -> str | None:
    """What a device has booked is what its holders hold, with every mapped file once; all holders are known."""
    if world.manager.events % LOOK_EVERY:
        return None
    return balance(world)


def balance(world: World) -> str | None:
    core = world.manager.core.world
    ledger = core.ledger
    instances = {instance.holder for instance in core.instances()}
    for holder in ledger.bookings:
        is_dry_run = holder.startswith("dry run ")
        is_lock = any(holder == lock.holder for lock in core.locks.values())
        if not (holder in core.workers or holder in core.reservations or holder in instances or is_dry_run or is_lock):
            return f"{holder} holds {ledger.bookings[holder]}, and is nobody"
    for device in ledger.devices.values():
        held = sum(booking.get(device.name, 0) for booking in ledger.bookings.values())
        if device.name == RAM:
            held += sum({file: n for files in ledger.files.values() for file, n in files.items()}.values())
        if held != device.booked_bytes:
            return f"{device.booked_bytes} of {device.name} are booked, and {held} are held"
    return None


def measured_is_booked(world: World, event: events.Event) -> str | None:
    """No worker is booked with less than it was last told to hold."""
    ledger = world.manager.core.world.ledger
    if isinstance(event, events.WorkerMeasured):
        figures = {event.worker: event.bytes_by_device}
    elif isinstance(event, events.DeviceSeen) and event.kind == CUDA:
        figures = {worker: {event.name: n} for worker, n in event.held_bytes.items()}
    else:
        return None
    for worker, by_device in figures.items():
        if worker not in world.manager.told.books.entries:
            continue
        for device, n in by_device.items():
            if device in ledger.held(worker) and n > ledger.held(worker)[device]:
                return f"{worker} holds {n} of {device}, and is booked with {ledger.held(worker)[device]}"
    return None


def used_is_accounted(world: World, event: events.Event) -> str | None:
    """What is used of a device is booked, or is what strangers may use: nothing is overlooked."""
    if not isinstance(event, events.DeviceSeen):
        return None
    device = world.manager.core.world.ledger.devices[event.name]
    if device.booked_bytes + device.foreign_bytes < event.used_bytes:
        known = f"{device.booked_bytes} are booked, strangers may have {device.foreign_bytes}"
        return f"{event.used_bytes} of {event.name} are used; {known}"
    return None


def _hides_on(world: World, worker: str, device: str) -> bool:
    """A worker is on a GPU whose driver does not show it: what it holds may count as a stranger's, or as what has
    yet to come back."""
    core = world.manager.core.world
    return (
        core.ledger.devices[device].kind == CUDA
        and worker in world.drivers.hides
        and device in core.ledger.held(worker)
    )


def unaccounted(world: World) -> int:
    """Bytes that are booked for nobody who is there, or used and neither booked nor foreign."""
    core, left = world.manager.core.world, 0
    for device in core.ledger.devices.values():
        memory = world.memory.get(device.name)
        if memory is None or memory.is_lost:
            continue
        held = [(who, booking.get(device.name, 0)) for who, booking in core.ledger.bookings.items()]
        left += sum(n for who, n in held if who not in world.workers and who not in world.programs)
        left += max(0, memory.used - device.booked_bytes - device.foreign_bytes)
    return left


def nothing_is_left(world: World) -> str | None:
    """At rest: what is booked is held by living workers, and is what they hold; nothing is quarantined."""
    core = world.manager.core.world
    if (problem := balance(world)) is not None:
        return problem
    mapped = {file: n for files in core.ledger.files.values() for file, n in files.items()}
    if mapped != world.manager.told.books.mapped():
        return f"{mapped} are booked as mapped, and {world.manager.told.books.mapped()} are"
    for device in core.ledger.devices.values():
        if device.quarantine and not any(_hides_on(world, worker, device.name) for worker in core.workers):
            return f"{device.name} has {device.quarantine} in quarantine"
    if core.reservations:
        return f"{list(core.reservations)} are reserved, and nobody is there"
    for worker in core.workers.values():
        real = world.workers.get(worker.id)
        if real is None:
            return f"{worker} holds {core.ledger.held(worker.id)}, and is gone"
        for name, n in core.ledger.held(worker.id).items():
            holds = real.consumption.held(name)
            peak = max(worker.load_peak.get(name, 0), worker.service_peak.get(name, 0))
            most = max(worker.promised.get(name, 0), holds, peak)
            if n > most or (n < holds and not _hides_on(world, worker.id, name)):
                return f"{worker} is booked with {n} of {name} and holds {holds}"
    return None
