"""Out of memory: a load that failed for want of it is tried once more, then refused.

It is told apart from every other failure by its runtime. If the worker had exceeded its booking, the
booking was too small: what it needed is learned, and room is made for more. The second time those
who wait are answered `NoRoom`, and the model pauses like after any failed load.

What it had last was perhaps not seen, and what it wanted at one stroke was not to be had. Or somebody else has the
memory. Which it was tells the sample that shows its memory to be free, for which the next try waits. If all that was
booked for it, or that it was seen with, was there before and after, it needs more than was there. From then on what
samples show of such a model does not make its booking smaller.
"""

from __future__ import annotations

from . import growth, lives, requests
from .answers import NoRoom
from .events import RanOut
from .ledger import CUDA, Device
from .lifecycle import State
from .needs import GPU
from .records import Instance, Model, Worker
from .world import World

TRIES = 2
MOST_RISE = 4


def load_ran_out(world: World, instance: Instance, reason: str) -> None:
    """A load has failed for want of memory; its process may live or not."""
    model, worker = instance.model, instance.worker
    growth.learn(world, worker, ran_out=True)
    model.ran_out += 1
    if model.ran_out < TRIES:
        world.note("out of memory", model, f"{reason}; it is tried once more")
        lives.end_watch(world, instance)
        world.enter(instance, State.UNLOADING, reason)
        lives.detach(world, instance)
        model.ended = State.COLD
        lives.leave_worker(world, instance, lives.ABORT_GRACE_S)
        note_room(world, worker)
        return
    world.note("out of memory", model, reason)
    held = world.ledger.held(worker.id)
    name = next(iter(held), "")
    device = world.ledger.devices.get(name)
    refusal = NoRoom(
        model=model.key,
        device=name,
        needed_bytes=held.get(name, 0),
        free_bytes=max(0, device.free_bytes) if device is not None else 0,
        reason=f"it ran out of memory twice: {reason}",
    )
    requests.answer_all(world, model, refusal)
    lives.failed(world, instance, reason)
    note_room(world, worker)


def note_room(world: World, worker: Worker) -> None:
    """What there is for a worker that has run out of memory, as far as is known now."""
    if worker.stopping and len(worker.gpus) == 1 and worker.gpus[0] in world.ledger.devices:
        worker.had_room = room_of(world, worker, world.ledger.devices[worker.gpus[0]])


def room_of(world: World, worker: Worker, device: Device) -> int:
    """All that neither strangers nor others of ours have."""
    others = device.booked_bytes - world.ledger.held(worker.id).get(device.name, 0)
    return device.total_bytes - device.foreign_bytes - others


def is_looked_into(world: World, model: Model) -> bool:
    """What its last load has taught is not known yet: its memory has to be seen to be free."""
    return bool(model.ran_out) and any(
        worker.had_room is not None
        and worker.spec.key == model.spec.key
        and not worker.stuck
        and not any(world.ledger.devices[name].is_silent(world.now) for name in worker.gpus)
        for worker in world.workers.values()
    )


def look_into(world: World, worker: Worker, device: Device) -> None:
    """The memory of a worker has been seen to be free. If it has run out of it although all that was booked for
    it, or that it was seen with, was there, it needs more: as much as its author says, if that is more, or else
    more than was there. One failure raises it to `MOST_RISE` times that at most, and never to more than there is
    anywhere."""
    name = device.name
    if worker.had_room is None or worker.gpus != (name,) or not worker.way:
        return
    had = max(peak.get(name, 0) for peak in (worker.promised, worker.load_peak, worker.service_peak))
    room = min(worker.had_room, room_of(world, worker, device))
    if room < had or device.lost is not None:
        return
    wanted = worker.spec.device
    elsewhere = [d for d in world.ledger.devices.values() if d.kind == CUDA and (GPU in wanted or d.name in wanted)]
    most = max((d.ceiling_bytes for d in elsewhere or [device]), default=0)
    declared = worker.spec.memory_bytes or 0
    needs = declared if declared > had else min(room + 1, MOST_RISE * had)
    needs = max(had, min(most, needs))
    world.brief.add(worker.identity)
    peak = growth.as_need(worker, {**worker.promised, name: needs})
    growth.tell(world, worker, peak)


def call_ran_out(world: World, event: RanOut) -> None:
    """A call has failed for want of memory. That it grew is booked anyway; a person may want to know. What it was
    promised is booked again, if less has been learned since."""
    instance = world.instance(event.worker, event.model)
    if instance is not None:
        growth.wants_its_promise(world, instance.worker)
        world.note("out of memory", instance.model, "a call failed for want of memory; the model serves on")
