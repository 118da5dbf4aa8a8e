"""Samples of devices: when a new one is needed, and asked for.

Whoever is admitted to a device, or made room for, is so on a sample that may be built on
(`Device.is_fresh`). If there is none, one is asked for and the decision waits for it. A driver that
does not answer admits nothing on its device, and holds up nothing else: who could go elsewhere does.
"""

from __future__ import annotations

from collections.abc import Iterable

from .effects import Sample
from .ledger import SILENT_S, Device
from .world import World


def ask(world: World, name: str) -> None:
    """Has a device sampled; once, until the answer comes."""
    device = world.ledger.devices.get(name)
    if device is not None and device.asked is None and device.lost is None:
        device.asked = world.now
        world.alarms.set(("silent", name), world.now + SILENT_S)
        world.emit(Sample(device=name))


def are_fresh(world: World, names: Iterable[str]) -> bool:
    """Whether all these devices have been seen of late; those that have not are asked."""
    stale = [name for name in names if not world.ledger.devices[name].is_fresh(world.now)]
    for name in stale:
        ask(world, name)
    return not stale


def are_news(world: World, names: Iterable[str]) -> bool:
    """Whether nothing newer can be had of these devices: each has been seen of late, or does not answer, or is lost."""
    devices = [world.ledger.devices[name] for name in names if name in world.ledger.devices]
    stale = [d for d in devices if not d.is_fresh(world.now) and not d.is_silent(world.now) and d.lost is None]
    for device in stale:
        ask(world, device.name)
    return not stale


def answered(world: World, device: Device, begun: float) -> None:
    """A sample has come."""
    device.sampled, device.told = max(device.sampled, begun), world.now
    device.asked = None
    world.alarms.clear(("silent", device.name))
