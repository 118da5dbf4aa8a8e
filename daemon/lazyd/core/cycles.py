"""Nested requests that wait for each other, for memory or for their turn.

A call that waits for a nested request holds its own model in memory. If the models so held
leave too little for any of the waiting nested requests, none of them will ever be served, and
nothing ends on its own. The request that closes such a cycle, the newest, is refused at once.

The test is the banker's: a nested request can be served if its booking fits beside what is kept
and what the other waiting callers hold. Then its callers can finish and let go, so the test
goes on with the rest, until all are served in thought or no further one can be.

A model also runs one call at a time. A nested call of a model whose own call waits, directly or by
way of others, for the caller would wait for itself.
"""

from __future__ import annotations

from . import requests
from .answers import NoRoom
from .leases import ancestors
from .placement import placements
from .records import Instance, LeaseStage, Model, Prediction, Waiter
from .world import World


def refuse_cycles(world: World, models: list[Model]) -> None:
    """Refuses the newest request of every cycle among those that wait for `models`, until there is none.

    A model for which room is being made counts as well: what it waits for may be a call in the cycle.
    """
    while stuck := deadlocked(world, models):
        newest = max(stuck, key=lambda waiter: (waiter.arrived, waiter.request))
        requests.leave_line(world, newest)
        booking = placements(world, newest.model)[0]
        device = next(iter(booking))
        refusal = NoRoom(
            model=newest.model.key,
            device=device,
            needed_bytes=booking[device],
            free_bytes=max(0, world.ledger.devices[device].free_bytes),
            reason="its caller, and others that wait like it, hold the memory that it needs (a cycle of waiting)",
        )
        world.answer(newest.request, refusal)


def deadlocked(world: World, models: list[Model]) -> list[Waiter]:
    """The nested requests for `models` that no sequence of finished calls can serve."""
    waiting = {
        waiter: ancestors(world, waiter.parent)
        for model in models
        if isinstance(model.prediction, Prediction)
        for waiter in model.waiters
        if waiter.parent is not None
    }
    while waiting:
        held: set[Instance] = set().union(*waiting.values())
        served = [waiter for waiter in waiting if fits_beside(world, waiter.model, held)]
        if not served:
            return list(waiting)
        for waiter in served:
            del waiting[waiter]
    return []


def fits_beside(world: World, model: Model, held: set[Instance]) -> bool:
    """Whether a placement fits once everything has left that is neither kept nor held."""
    for booking in placements(world, model):
        left = {name: world.ledger.devices[name].limit_bytes for name in booking}
        for worker in world.workers.values():
            stays = [i for i in worker.instances.values() if i in held or i.model.kept]
            for name in left:
                if stays:
                    left[name] -= world.ledger.held(worker.id).get(name, 0)
                left[name] -= sum(world.ledger.held(i.holder).get(name, 0) for i in stays)
        if all(left[name] >= n for name, n in booking.items()):
            return True
    return False


def would_wait_for_itself(world: World, instance: Instance, waiter: Waiter) -> bool:
    """Whether the call that a nested request is for would wait, at `instance`, for its own caller."""
    callers = ancestors(world, waiter.parent)
    waited_for = {instance}
    further = [instance]
    while further:
        caller = further.pop()
        for lease in world.leases.values():
            parent = world.leases.get(lease.parent) if lease.parent is not None else None
            waits = parent is not None and parent.instance is caller and lease.stage is LeaseStage.BUSY
            if waits and lease.instance not in waited_for:
                waited_for.add(lease.instance)
                further.append(lease.instance)
    return not waited_for.isdisjoint(callers)


def refuse_self_wait(world: World, instance: Instance, waiter: Waiter) -> None:
    """Answers a request whose call would never have its turn."""
    requests.leave_line(world, waiter)
    device = next(iter(world.ledger.held(instance.worker.id)), "")
    refusal = NoRoom(
        model=instance.model.key,
        device=device,
        needed_bytes=0,
        free_bytes=0,
        reason="its own caller is what the call would wait for, since a model runs one call at a time (a cycle)",
    )
    world.answer(waiter.request, refusal)
