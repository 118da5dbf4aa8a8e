"""A device that holds more than it may.

A worker has grown, strangers use the device, or its budget has become smaller. Nothing is admitted
there, by the ledger; and idle models leave, the least recently used first, until the rest fits.
What is busy or kept stays: nobody is disturbed for it. Strangers come and go, and are measured at
another moment than lazyd's own workers, so they are believed when two samples in a row say so.
"""

from __future__ import annotations

from . import lives
from .eviction import choose_victims, leaving_bytes, quantum_until, units
from .ledger import Device
from .lifecycle import LOADS, State
from .records import Instance, Reason
from .world import World

SAMPLES = 2
"""So many samples in a row must find that strangers leave too little."""


def relieve(world: World) -> None:
    """Makes idle models leave the devices that hold too much; called after every event."""
    if world.stopping or not world.host_found:
        return
    for device in world.ledger.devices.values():
        if device.free_bytes < 0 and is_certain(device):
            relieve_device(world, device)


def is_certain(device: Device) -> bool:
    """It is too full by what is booked alone, or strangers were seen often enough."""
    without_strangers = min(device.budget_bytes, device.total_bytes - device.margin_bytes)
    return device.booked_bytes > without_strangers or device.samples_over >= SAMPLES


def relieve_device(world: World, device: Device) -> None:
    """What leaves is the smallest sufficient set of what is idle, or all of it."""
    missing = -device.free_bytes - leaving_bytes(world, device.name)
    if missing <= 0:
        return
    idle = [unit for unit in units(world, spared=set(), finish=False) if unit.freed.get(device.name)]
    for unit in choose_victims(idle, {device.name: missing}) or idle:
        for instance in unit.instances:
            let_leave(world, instance)
    look_again(world)


def let_leave(world: World, instance: Instance) -> None:
    """A load that nobody waits for ends; what is ready is asked whether it is idle."""
    if instance.state in LOADS:
        lives.unload(world, instance, Reason.CROWDED, lives.ABORT_GRACE_S)
    elif instance.state is State.READY:
        lives.drain(world, instance, Reason.CROWDED, finish=False)


def look_again(world: World) -> None:
    """Sets the alarm for the moment at which time alone may let something leave."""
    moments: list[float] = []
    for instance in world.instances():
        if instance.state is State.READY and not instance.model.kept:
            moments += (quantum_until(instance), instance.protected_until, instance.ask_again)
    world.look_again(("crowd",), moments)
