"""How soon the next sample of a device is wanted.

Fast only while something depends on it: bytes that are on their way back, a load or a call whose peak is
to be seen. Otherwise once a second while anything is booked on a GPU, or somebody waits, so that strangers
are counted soon, and rarely else.
"""

from __future__ import annotations

from .ledger import CUDA, Device
from .lifecycle import LOADS
from .world import World

AWAITED_S = 0.01
PEAK_S = 0.05
RAM_PEAK_S = 0.5
"""Measuring RAM costs more: the host walks through the page tables of its workers."""
HELD_S = 1.0
RAM_HELD_S = 5.0
REST_S = 15.0


def pace_s(world: World, name: str) -> float:
    """Seconds until a device should be sampled again."""
    device = world.ledger.devices.get(name)
    if device is None:
        return REST_S
    is_gpu = device.kind == CUDA
    if is_gpu and any(
        worker.exited is not None and holds(world, worker.id, device) for worker in world.workers.values()
    ):
        return AWAITED_S
    if any(is_at_work(world, device, worker.id) for worker in world.workers.values()):
        return PEAK_S if is_gpu else RAM_PEAK_S
    if world.wanting:
        return HELD_S
    if device.booked_bytes:
        return HELD_S if is_gpu else RAM_HELD_S
    return REST_S


def holds(world: World, holder: str, device: Device) -> bool:
    return bool(world.ledger.held(holder).get(device.name))


def is_at_work(world: World, device: Device, worker_id: str) -> bool:
    """It loads something, or a call is in flight in it."""
    instances = world.workers[worker_id].instances.values()
    return holds(world, worker_id, device) and any(i.state in LOADS or i.in_flight for i in instances)
