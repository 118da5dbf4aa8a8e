"""Out of memory: a load that failed for want of it is tried once more, then refused.

It is told apart from every other failure by its runtime. If the worker had exceeded its booking, the
booking was too small: what it needed is learned, and room is made for more. If it had not, somebody
else has the memory: strangers, seen by the sample that the next try waits for. The second time those
who wait are answered `NoRoom`, and the model pauses like after any failed load.
"""

from __future__ import annotations

from . import growth, lives, requests
from .answers import NoRoom
from .events import RanOut
from .lifecycle import State
from .records import Instance
from .world import World

TRIES = 2


def load_ran_out(world: World, instance: Instance, reason: str) -> None:
    """A load has failed for want of memory; its process may live or not."""
    model, worker = instance.model, instance.worker
    growth.learn(world, worker, ran_out=True)
    model.ran_out += 1
    if model.ran_out < TRIES:
        world.note("out of memory", model, f"{reason}; it is tried once more")
        world.alarms.clear(("load", worker.id, model.key))
        world.enter(instance, State.UNLOADING, reason)
        lives.detach(world, instance)
        model.ended = State.COLD
        lives.leave_worker(world, instance, lives.ABORT_GRACE_S)
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


def call_ran_out(world: World, event: RanOut) -> None:
    """A call has failed for want of memory. That it grew is booked anyway; a person may want to know."""
    instance = world.instance(event.worker, event.model)
    if instance is not None:
        world.note("out of memory", instance.model, "a call failed for want of memory; the model serves on")
