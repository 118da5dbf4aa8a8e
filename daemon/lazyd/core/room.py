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

from . import cycles, lives, plans, refusals
from .effects import Predict
from .eviction import choose_victims, leaving_bytes, quantum_until, units
from .ledger import Booking
from .lifecycle import State
from .placement import placements
from .records import Asked, Model, Plan
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
        plans.advance(world, plan)
    if not world.wanting or not world.host_found or world.stopping:
        return
    line = Line()
    for model in sorted(world.wanting.values(), key=lambda model: (not model.nested, model.wanted_since or 0.0)):
        if model.retry_at <= world.now:
            consider(world, model, line)
    if any(model.nested for model in world.wanting.values()):
        cycles.refuse_cycles(world)
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
            plans.drop(world, model)
            lives.begin(world, model, booking)
            return
    if model.key in world.plans:
        return
    for booking, free in zip(choices, room, strict=True):
        if covers(free, booking):
            line.set_aside(booking)
            return
    if model.nested and plans.give_way(world, choices):
        consider(world, model, line)
        return
    deficits = [{name: n - free[name] for name, n in b.items()} for b, free in zip(choices, room, strict=True)]
    overdue = is_overdue(world, model)
    for finish in (False, True) if overdue else (False,):
        plan = best_plan(world, model, choices, deficits, line, finish=finish)
        if plan is not None:
            plans.carry_out(world, plan)
            return
    if overdue:
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
    spared = plans.callers(world, model)
    best: Plan | None = None
    for booking, deficit in zip(choices, deficits, strict=True):
        if finish and plans.drains_already(world, booking):
            continue
        if not model.nested and not line.first_come.isdisjoint(booking):
            continue
        chosen = choose_victims(units(world, spared=spared, finish=finish), deficit)
        if chosen is not None:
            victims = list(dict.fromkeys(instance for unit in chosen for instance in unit.instances))
            if best is None or len(victims) < len(best.victims):
                best = Plan(model=model, booking=booking, victims=victims, finish=finish)
    return best


def look_again(world: World, blocked: list[Model]) -> None:
    """Sets the alarm for the moment at which time alone may have changed something for them."""
    moments = [since + model.spec.max_wait_s for model in blocked if (since := model.wanted_since) is not None]
    for instance in world.instances():
        if instance.state is State.READY:
            moments += (quantum_until(instance), instance.protected_until, instance.ask_again)
            moments += (lease.hold_until for lease in instance.leases.values())
    world.look_again(("room",), moments)
