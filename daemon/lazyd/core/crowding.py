"""A device that holds more than it may.

A worker has grown, strangers use the device, or its budget has become smaller. Nothing is admitted
there, by the ledger; and idle models leave, the cheapest set that is enough, until the rest fits.
What is busy or kept stays: nobody is disturbed for it. Strangers come and go, and are measured at
another moment than lazyd's own workers, so only what they are sure to use counts (`strangers.py`).

The kernel may say that programs stall for want of RAM before the numbers do. Then what is
cheapest of some size leaves, one at a time, as long as it says so.
"""

from __future__ import annotations

from . import lives, locks
from .events import MemoryPressure
from .eviction import leaving_bytes, most_freed, next_moment, units
from .ledger import RAM, Device
from .lifecycle import LOADS, State
from .locked import leaving_bytes as locked_leaving
from .records import Instance, Model, Reason, Seeker
from .victims import Unit, choose_victims
from .world import World

WORTHWHILE = 0.02
"""Where programs stall, to free less than this part of the memory helps nobody."""


def relieve(world: World) -> None:
    """Makes idle models leave the devices that hold too much; called after every event."""
    if world.stopping or not world.host_found:
        return
    for device in world.ledger.devices.values():
        if device.excess_bytes > 0:
            relieve_device(world, device, device.excess_bytes)


def relieve_device(world: World, device: Device, missing: int) -> None:
    """What leaves is the cheapest sufficient set of what is idle, or all of it."""
    missing -= leaving_bytes(world, device.name)
    if missing <= 0:
        return
    idle = idle_on(world, device.name)
    enough, most = choose_victims(idle, {device.name: missing}), most_freed(world, finish=False).get(device.name, 0)
    for unit in enough or idle:
        for instance in unit.instances:
            let_leave(world, instance, Reason.CROWDED)
    if enough is None and device.name == RAM and world.locks:
        locks.relieve(world, missing + locked_leaving(world) - most, Reason.CROWDED)
    look_again(world)


def joins_a_crowd(world: World, seeker: Seeker) -> bool:
    """It would be loaded into a worker on a device that holds more than it may: nothing is admitted there until idle
    models have left."""
    worker = world.family_worker(seeker.spec) if isinstance(seeker, Model) and seeker.spec.is_family else None
    held = world.ledger.held(worker.id) if worker is not None else {}
    return any(world.ledger.devices[name].excess_bytes > 0 for name in held if name in world.ledger.devices)


def pressure(world: World, event: MemoryPressure) -> None:
    """Memory is short now: what is cheapest of that which gives back enough leaves, unless something is leaving
    already. Where nothing gives back so much, it is what gives back most."""
    device = world.ledger.devices.get(event.device)
    if device is None or world.stopping or not world.host_found or leaving_bytes(world, event.device):
        return
    idle = idle_on(world, event.device)
    most = max((unit.freed[event.device] for unit in idle), default=0)
    for unit in choose_victims(idle, {event.device: min(most, int(WORTHWHILE * device.total_bytes))}) or []:
        for instance in unit.instances:
            let_leave(world, instance, Reason.PRESSURE)
    if not idle and event.device == RAM:
        locks.relieve_stalls(world)


def idle_on(world: World, device: str) -> list[Unit]:
    """What could leave at once, and has something of a device."""
    return units(world, [device], finish=False)


def let_leave(world: World, instance: Instance, reason: Reason) -> None:
    """A load that nobody waits for ends, and so does what is parked; what is ready is asked whether it is idle."""
    if instance.state in LOADS or instance.state is State.PARKED:
        lives.unload(world, instance, reason, lives.ABORT_GRACE_S)
    elif instance.state is State.READY:
        lives.drain(world, instance, reason, finish=False)


def look_again(world: World) -> None:
    """Sets the alarm for the moment at which time alone may let something leave."""
    world.look_again(("crowd",), [next_moment(world)])
