"""Release: what a worker held is free when that is seen, not when it was asked to go.

RAM is free when the process is gone and its cgroup is empty. What it had of a GPU stays booked
until a sample that was begun after its end shows it to be free: drivers take a second or so. What
has not come back in time is quarantined: it is foreign from then on, is shown with the name of the
model that left it, and shrinks as the driver gives it back.
"""

from __future__ import annotations

from . import lives, samples, shortage
from .ledger import CUDA, Device, Quarantined
from .lifecycle import State
from .records import Worker
from .wording import size
from .world import World

RELEASE_S = 5.0
"""Drivers show memory to be free 0.5 to 1.5 s after the exit; what takes longer than this is lost for now."""
TOLERANCE_BYTES = 2 << 20
"""Drivers count in pages of 2 MiB."""


def begin(world: World, worker: Worker) -> None:
    """The process is gone: RAM is free, GPUs are watched."""
    held = world.ledger.held(worker.id)
    awaited = {name: n for name, n in held.items() if n and is_watched(world.ledger.devices.get(name))}
    world.ledger.unmap(worker.id, world.now)
    world.ledger.rebook(worker.id, awaited, world.now)
    worker.stopping, worker.exited, worker.stuck = True, world.now, False
    world.alarms.clear(("stuck", worker.id))
    if not awaited:
        finish(world, worker)
        return
    worker.measured_bytes = awaited  # it may have taken all of it since the last sample
    world.alarms.set(("release", worker.id), world.now + RELEASE_S)
    for name in awaited:
        samples.ask(world, name)


def is_watched(device: Device | None) -> bool:
    return device is not None and device.kind == CUDA and device.lost is None


def seen(world: World, device: Device) -> None:
    """A device was sampled: what has come back is given back, what was quarantined may have, too."""
    for worker in list(world.workers.values()):
        if worker.exited is not None and device.sampled >= worker.exited and is_back(worker, device):
            device.foreign_bytes += worker.measured_bytes.get(device.name, 0)  # a last page is nobody's now
            shortage.look_into(world, worker, device)
            give_back(world, worker, device)
    for lost in [lost for lost in device.quarantine if lost.bytes <= TOLERANCE_BYTES]:
        device.quarantine.remove(lost)
        world.note("came back", lost.model, f"what it had left on {device.name} is free", device=device.name)


def is_back(worker: Worker, device: Device) -> bool:
    return worker.measured_bytes.get(device.name, 0) <= TOLERANCE_BYTES


def give_back(world: World, worker: Worker, device: Device) -> None:
    """One device is done with; the worker, when all are."""
    left = {name: n for name, n in world.ledger.held(worker.id).items() if name != device.name}
    world.ledger.rebook(worker.id, left, device.sampled)  # the sample that has shown it may be built on
    if not left:
        finish(world, worker)


def overdue(world: World, worker_id: str) -> None:
    """What has not come back in time (an alarm). A driver that has not answered since tells nothing of it."""
    worker = world.workers.get(worker_id)
    if worker is None or worker.exited is None:
        return
    if any(world.ledger.devices[name].sampled < worker.exited for name in world.ledger.held(worker.id)):
        world.alarms.set(("release", worker.id), world.now + RELEASE_S)
        return
    for name in world.ledger.held(worker.id):
        device = world.ledger.devices[name]
        left = worker.measured_bytes.get(name, 0)
        device.quarantine.append(Quarantined(worker=worker.id, model=worker.spec.key, pid=worker.pid, bytes=left))
        device.foreign_bytes += left
        reason = f"{size(left)} of its process (pid {worker.pid}) did not come back on {name}"
        world.note("quarantined", worker.spec.key, reason, device=name, bytes=left)
    finish(world, worker)


def counted(world: World) -> set[str]:
    """All workers of which something is or may be on a device: a driver may show what is left under a dead process."""
    left = (lost.worker for device in world.ledger.devices.values() for lost in device.quarantine)
    return {*world.workers, *left}


def device_lost(world: World, name: str) -> None:
    """Nothing comes back from a lost device, and nothing is there to be waited for."""
    for worker in list(world.workers.values()):
        if worker.exited is not None and name in world.ledger.held(worker.id):
            give_back(world, worker, world.ledger.devices[name])


def finish(world: World, worker: Worker) -> None:
    """All that it held is accounted for."""
    world.alarms.clear(("release", worker.id))
    for instance in list(worker.instances.values()):
        lives.gone(world, instance, State.COLD)
    lives.worker_gone(world, worker)
