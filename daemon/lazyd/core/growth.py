"""What a worker really holds: its peaks are remembered, and a booking that was too small rises.

Nothing is admitted on what it took. One that uses much more than it was booked with is reported,
and with `hard_limit` ended when it is idle. What was learned is told when the worker ends.
"""

from __future__ import annotations

from collections.abc import Mapping

from . import wear
from .effects import Learn
from .ledger import RAM
from .lifecycle import LOADS, SERVES
from .needs import Need
from .records import Worker
from .world import World

OUTGROWN = 1.25
"""Using so much more than was booked is reported."""
RETRY = 1.1
"""A load that ran out of memory beyond its booking needs at least so much of what it had by then."""


def measured(world: World, worker: Worker, by_device: Mapping[str, int]) -> None:
    """Takes what a worker holds of some devices now."""
    worker.measured_bytes.update(by_device)
    note_peaks(worker, by_device)
    wear.measured(world, worker, by_device)
    held = world.ledger.held(worker.id)
    grown = {name: n for name, n in by_device.items() if n > held.get(name, 0)}
    if grown and worker.exited is None:
        world.ledger.rebook(worker.id, {**held, **grown}, world.now)
        for name, n in grown.items():
            report(world, worker, name, n, held.get(name, 0))


def note_peaks(worker: Worker, by_device: Mapping[str, int]) -> None:
    """Remembers the highest, apart for loading and for serving. What it keeps while it is parked, and on its way
    back, tells nothing of either."""
    inside = worker.instances.values()
    if any(instance.state in SERVES for instance in inside):
        peak = worker.service_peak
    elif any(instance.state in LOADS and not instance.ready_since for instance in inside):
        peak = worker.load_peak
    else:
        return
    for name, n in by_device.items():
        peak[name] = max(n, peak.get(name, 0))


def report(world: World, worker: Worker, device: str, n: int, booked: int) -> None:
    """Says that a booking has risen: the first time, and when it is much more than was promised."""
    promised = worker.promised.get(device, 0)
    if booked == promised:
        reason = f"it uses more of {device} than was booked"
        world.note("grew", worker.spec.key, reason, device=device, bytes=n, booked=booked)
    if n > OUTGROWN * promised and promised and not worker.outgrown:
        worker.outgrown = True
        reason = f"it uses {n / promised:.1f} times what it was booked with on {device}"
        world.note("outgrew", worker.spec.key, reason, device=device, bytes=n, booked=promised)
        for instance in worker.instances.values():
            world.touch(instance.model)


def learn(world: World, worker: Worker, *, ran_out: bool = False) -> None:
    """Tells what a worker needed, for the next of its kind: if a call has ended in it, or if its booking was
    too small. A load too quick to be measured is taken to have needed no more than its service did; of what was
    never measured, or shown without a byte, the booking is all that is known."""
    promised, service = worker.promised, worker.service_peak
    seen = {name: max(worker.load_peak.get(name, 0), service.get(name, 0)) for name in promised}
    exceeded = any(n > promised[name] for name, n in seen.items())
    was_used = bool(service) and worker.called and not ran_out
    if not worker.way or not (was_used or exceeded):
        return
    if was_used:
        peak = {name: seen[name] or n for name, n in promised.items()}
        if worker.identity in world.brief:
            peak |= {name: max(peak[name], promised[name]) for name in worker.gpus}
    else:
        needs = RETRY if ran_out else 1.0
        peak = {name: max(int(needs * n), promised[name]) for name, n in seen.items()}
    tell(world, worker, as_need(worker, peak), as_need(worker, {**promised, **service}) if was_used else None)


def tell(world: World, worker: Worker, peak: Need, service: Need | None = None) -> None:
    """What a worker has needed is known."""
    key, way = worker.spec.key, worker.way
    learned = Learn(model=key, identity=worker.identity, digest=worker.digest, way=way, peak=peak, service=service)
    world.emit(learned)


def as_need(worker: Worker, by_device: Mapping[str, int]) -> Need:
    return Need(ram_bytes=by_device.get(RAM, 0), gpu_bytes=tuple(by_device.get(gpu, 0) for gpu in worker.gpus))


def wants_its_promise(world: World, worker: Worker) -> None:
    """It has run out of memory while it serves: samples may not show its peak in service. What was booked for its
    load, or what its author says, is booked again for its GPU, and is learned to be its need."""
    held = world.ledger.held(worker.id)
    if len(worker.gpus) != 1 or worker.exited is not None or worker.gpus[0] not in held:
        return
    name = worker.gpus[0]
    needs = max(held[name], worker.promised.get(name, 0), worker.spec.memory_bytes or 0)
    world.brief.add(worker.identity)
    worker.service_peak[name] = max(worker.service_peak.get(name, 0), needs)
    world.ledger.rebook(worker.id, {**held, name: needs}, world.now)
