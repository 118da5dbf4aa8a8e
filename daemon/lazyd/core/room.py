"""Room: which of the waiting models is loaded next, and who leaves for it.

Models that wait stand in a line: nested requests first (their callers hold memory until they
are served), then the longest waiting. For each, in turn:

1. If its booking fits, and is not meant for somebody before it, it is booked and loaded.
2. If bytes on their way to be free will do, it waits for them; they are its own.
3. If idle models can leave for it, a plan is made. All its victims drain; when the last one
   has, all unload together. If one turns out to be busy, all serve again: a whole plan or none.
4. If it has waited longer than its `max_wait_s`, its plan may count on busy models too, which
   then admit no new call and are waited for (one such plan per device). Without even that, the
   bytes freed next on its device are its own, and later requests do not pass it there.
5. If it can never fit beside what is pinned, resident or foreign, it is refused.

So a request waits at most `max_wait_s` + waiters ahead x (quantum + longest call + release + load).
"""

from __future__ import annotations

from . import cycles, lives, refusals
from .effects import Predict
from .eviction import choose_victims, leaving_bytes, quantum_until, units
from .leases import ancestors
from .ledger import Booking
from .lifecycle import State
from .placement import placements
from .records import Asked, Instance, Model, Plan, Reason
from .world import World


class Line:
    """One pass along the line: what those ahead have set aside."""

    def __init__(self) -> None:
        self.ahead: dict[str, int] = {}
        self.blocked: list[Model] = []
        self.first_come: set[str] = set()
        """Devices on which a nested request is blocked: nobody else plans there before it is served."""

    def set_aside(self, booking: Booking) -> None:
        for name, n in booking.items():
            self.ahead[name] = self.ahead.get(name, 0) + n


def make_room(world: World) -> None:
    """Goes along the line once; called after every event."""
    for plan in list(world.plans.values()):
        advance(world, plan)
    if not world.wanting or not world.host_found or world.stopping:
        return
    line = Line()
    for model in sorted(world.wanting.values(), key=lambda model: (not model.nested, model.wanted_since or 0.0)):
        if model.retry_at <= world.now:
            consider(world, model, line)
    nested = [model for model in world.wanting.values() if model.nested]
    if nested:
        cycles.refuse_cycles(world, nested)
    if line.blocked:
        look_again(world, line.blocked)


def consider(world: World, model: Model, line: Line) -> None:
    """The five steps above, for one model."""
    if model.prediction is None:
        model.prediction = Asked.ASKED
        world.emit(Predict(model=model.key))
    if model.prediction is Asked.ASKED:
        return
    choices, refusal = refusals.possible(world, model, placements(world, model))
    if not choices:
        refusals.refuse(world, model, refusal)
        return
    room = [headroom(world, model, booking, line) for booking in choices]
    for booking, free in zip(choices, room, strict=True):
        if world.ledger.fits(booking) and covers(free, booking):
            drop_plan(world, model)
            lives.begin(world, model, booking)
            return
    if model.key in world.plans:
        return
    for booking, free in zip(choices, room, strict=True):
        if covers(free, booking):
            line.set_aside(booking)
            return
    if model.nested and give_way(world, choices):
        consider(world, model, line)
        return
    deficits = [{name: n - free[name] for name, n in b.items()} for b, free in zip(choices, room, strict=True)]
    overdue = is_overdue(world, model)
    for finish in (False, True) if overdue else (False,):
        plan = best_plan(world, model, choices, deficits, line, finish=finish)
        if plan is not None:
            carry_out(world, plan)
            return
    if overdue and choices:
        line.set_aside(choices[0])
    if model.nested:
        line.first_come.update(*choices)
    line.blocked.append(model)


def headroom(world: World, model: Model, booking: Booking, line: Line) -> dict[str, int]:
    """Per device: what is free or will be, less what is meant for others. A nested request
    yields only to other nested ones."""
    room: dict[str, int] = {}
    for name in booking:
        planned = sum(
            plan.booking.get(name, 0)
            for plan in world.plans.values()
            if plan.model is not model and (plan.model.nested or not model.nested)
        )
        device = world.ledger.devices[name]
        room[name] = device.free_bytes + leaving_bytes(world, name) - planned - line.ahead.get(name, 0)
    return room


def covers(room: Booking, booking: Booking) -> bool:
    return all(room[name] >= n for name, n in booking.items() if n)


def is_overdue(world: World, model: Model) -> bool:
    """It has waited longer than its `max_wait_s`."""
    since = model.wanted_since
    return since is not None and since + model.spec.max_wait_s <= world.now


def best_plan(
    world: World,
    model: Model,
    choices: list[dict[str, int]],
    deficits: list[dict[str, int]],
    line: Line,
    *,
    finish: bool,
) -> Plan | None:
    """The plan with the fewest victims over all placements; None if there is none."""
    spared = callers(world, model)
    best: Plan | None = None
    for booking, deficit in zip(choices, deficits, strict=True):
        if finish and drains_already(world, booking):
            continue
        if not model.nested and not line.first_come.isdisjoint(booking):
            continue
        chosen = choose_victims(units(world, spared=spared, finish=finish), deficit)
        if chosen is not None:
            victims = list(dict.fromkeys(instance for unit in chosen for instance in unit.instances))
            if best is None or len(victims) < len(best.victims):
                best = Plan(model=model, booking=booking, victims=victims, finish=finish)
    return best


def callers(world: World, model: Model) -> set[Instance]:
    """The instances whose calls wait for a model: they never leave for it."""
    found = set[Instance]()
    for waiter in model.waiters:
        found |= ancestors(world, waiter.parent)
    return found


def drains_already(world: World, booking: Booking) -> bool:
    """One plan per device may wait for busy models."""
    return any(
        plan.finish and not plan.committed and any(name in plan.booking for name in booking)
        for plan in world.plans.values()
    )


def carry_out(world: World, plan: Plan) -> None:
    """Asks all victims to drain."""
    world.plans[plan.model.key] = plan
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
            drop_plan(world, plan.model)
        return
    spared = callers(world, plan.model)
    if not is_wanted(world, plan.model) or not all(still_goes(v, plan) and v not in spared for v in plan.victims):
        abandon(world, plan)
    elif all(victim.leaving is None or victim.leaving.drained for victim in plan.victims):
        plan.committed = True
        for victim in plan.victims:
            if victim.state in (State.DRAINING, State.LOADING):
                victim.model.evictions += 1
                world.note("evicted", victim.model, f"room for {plan.model.key}", room_for=plan.model.key)
                lives.unload(world, victim, Reason.ROOM)


def still_goes(victim: Instance, plan: Plan) -> bool:
    """A victim is on its way for this plan, or gone already, or loads for nobody; it was not pinned meanwhile."""
    if victim.model.kept:
        return False
    if victim.state is State.LOADING:
        return not victim.model.waiters
    if victim.state is State.DRAINING:
        return victim.leaving is not None and victim.leaving.plan is plan
    return victim.state is not State.READY


def is_wanted(world: World, model: Model) -> bool:
    return model.key in world.wanting


def drop_plan(world: World, model: Model) -> None:
    """The plan has served, or is not needed any more."""
    plan = world.plans.get(model.key)
    if plan is not None:
        abandon(world, plan)


def abandon(world: World, plan: Plan) -> None:
    """Ends a plan: those who have drained for it, and have not left, serve again."""
    world.plans.pop(plan.model.key, None)
    for victim in plan.victims:
        if victim.leaving is not None and victim.leaving.plan is plan:
            lives.resume(world, victim)


def give_way(world: World, choices: list[dict[str, int]]) -> bool:
    """Plans of other requests give way to a nested one: its caller holds what they may wait for."""
    devices = set[str]().union(*choices)
    others = [
        plan
        for plan in world.plans.values()
        if not plan.model.nested and not plan.committed and not devices.isdisjoint(plan.booking)
    ]
    for plan in others:
        abandon(world, plan)
    return bool(others)


def look_again(world: World, blocked: list[Model]) -> None:
    """Sets the alarm for the moment at which time alone may have changed something for them."""
    moments = [since + model.spec.max_wait_s for model in blocked if (since := model.wanted_since) is not None]
    for instance in world.instances():
        if instance.state is State.READY:
            moments += (quantum_until(instance), instance.protected_until)
            moments += (lease.hold_until for lease in instance.leases.values())
    later = [moment for moment in moments if world.now < moment < float("inf")]
    if later:
        world.alarms.set(("room",), min(later))
