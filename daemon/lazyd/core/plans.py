"""Plans: room that is being made for one model.

All victims of a plan are asked to drain. When the last one has, all unload together; if one of
them turns out to be busy, is pinned, or calls the very model that it was to leave for, all serve
again. So nothing leaves for a load that then cannot happen. A plan ends with the wish for its
model, and gives way to a nested request, whose caller may be what it waits for.
"""

from __future__ import annotations

from collections.abc import Iterable

from . import lives, routes, swaps, uses
from .eviction import goes, leaving_bytes
from .leases import ancestors
from .lifecycle import LOADS, State
from .records import Instance, Model, Plan, Reason, Seeker
from .world import World


def carry_out(world: World, plan: Plan) -> None:
    """Asks all victims to drain."""
    world.plans[plan.seeker.key] = plan
    for victim in plan.victims:
        if victim.state is State.READY:
            lives.drain(world, victim, Reason.ROOM, finish=plan.finish, plan=plan)
    advance(world, plan)


def advance(world: World, plan: Plan) -> None:
    """Commits a plan whose victims have all drained; drops one that has lost a victim or its use.

    One whose victims have all gone has done what it could: what they freed is the first's in the
    line, or a plan and an older waiter would each keep it from the other.
    """
    if plan.committed:
        if all(victim.state is not State.UNLOADING for victim in plan.victims):
            drop(world, plan.seeker)
        return
    spared = callers(world, plan.seeker)
    is_wanted = plan.seeker.key in world.wanting or plan.seeker in world.guesses
    lasts = is_wanted and all(still_goes(v, plan) and v not in spared for v in plan.victims)
    if not lasts or not would_do(world, plan):
        abandon(world, plan)
    elif all(victim.leaving is None or victim.leaving.drained for victim in plan.victims):
        plan.committed = True
        for victim in plan.victims:
            if victim.state in (State.DRAINING, *LOADS, State.PARKED):
                victim.model.evictions += 1
                world.note("evicted", victim.model, f"room for {plan.seeker.named}", room_for=plan.seeker.title)
                lives.unload(world, victim, f"room for {plan.seeker.named}")


def would_do(world: World, plan: Plan) -> bool:
    """What leaves is still enough, for all that is sure of strangers, who may have come meanwhile."""
    held = {holder for victim in plan.victims if not goes(victim) for holder in (victim.worker.id, victim.holder)}
    rest = [world.ledger.freed_by(holder) for holder in held]
    for device in map(world.ledger.devices.__getitem__, plan.short):
        coming = leaving_bytes(world, device.name) + sum(freed.get(device.name, 0) for freed in rest)
        if coming - device.excess_bytes < plan.booking[device.name]:
            return False
    return True


def still_goes(victim: Instance, plan: Plan) -> bool:
    """A victim is on its way for this plan, or gone already, or loads for nobody; it was not pinned meanwhile."""
    if victim.model.kept:
        return False
    if victim.state in LOADS or victim.state is State.PARKED:
        return not victim.model.waiters and not swaps.is_next(victim.model)
    if victim.state is State.DRAINING:
        return victim.leaving is not None and victim.leaving.plan is plan
    return victim.state is not State.READY


def callers(world: World, seeker: Seeker) -> set[Instance]:
    """The instances whose calls wait for a model, its own parked one, what it uses, and what answers until it is there:
    they never leave for it."""
    found = set[Instance]()
    if not isinstance(seeker, Model):
        return found
    meanwhile = routes.siblings(world, seeker) if routes.is_background(seeker) else ()
    for model in (*uses.used_by(world, seeker), *meanwhile, seeker):
        found.update(model.lives[:1])
    for waiter in seeker.waiters:
        found |= ancestors(world, waiter.parent)
    return found


def drop(world: World, seeker: Seeker) -> None:
    """The plan has served, or is not needed any more."""
    plan = world.plans.get(seeker.key)
    if plan is not None:
        abandon(world, plan)


def abandon(world: World, plan: Plan) -> None:
    """Ends a plan: those who have drained for it, and have not left, serve again."""
    world.plans.pop(plan.seeker.key, None)
    for victim in plan.victims:
        if victim.leaving is not None and victim.leaving.plan is plan:
            lives.resume(world, victim)


def give_way(world: World, devices: set[str]) -> bool:
    """Plans of other requests give way to a nested one: its caller holds what they may wait for."""
    others = [
        plan
        for plan in world.plans.values()
        if not plan.seeker.nested and not plan.committed and not devices.isdisjoint(plan.booking)
    ]
    for plan in others:
        abandon(world, plan)
    return bool(others)


def drains_already(world: World, devices: Iterable[str]) -> bool:
    """One plan per device may wait for busy models."""
    return any(
        plan.finish and not plan.committed and not set(plan.short).isdisjoint(devices) for plan in world.plans.values()
    )
