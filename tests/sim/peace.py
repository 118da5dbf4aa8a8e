"""The end of a schedule: traffic and faults stop, time passes, and the machine must come to rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazyd.core import events, view
from lazyd.core.spec import Tier

from . import about_ledger
from .memory import RAM
from .truth import FRESH_S, Violation

if TYPE_CHECKING:
    from .world import World

RECOVERY_S = 3.0
"""A manager or host that is down comes back within this time."""
UNPRESENTED_S = 30.0
LEAVING_S = 15.0
"""From the end of the idle time until the bytes are free."""
LONGEST_PAUSE_S = 300.0


def check(world: World) -> None:
    """Raises `Violation` if something does not come to rest, or rests in the wrong place."""
    make_peace(world)
    deadline = world.manager.told.stop_deadline
    if deadline is not None:
        world.run_until(deadline + LEAVING_S)
        everything_is_answered(world, 0.0)
        stop_frees_everything(world)
        world.run_until(world.clock.now + UNPRESENTED_S)
        nothing_is_booked(world)
        return
    finish_requests(world)
    world.clients.leave()
    world.run_until(world.clock.now + UNPRESENTED_S + FRESH_S + LEAVING_S)
    transient_leaves(world)
    idle_s = max((spec.idle_timeout_s or 0.0 for spec in world.config.models.values()), default=0.0)
    world.run_until(world.clock.now + idle_s + LEAVING_S)
    idle_gets_cold(world)
    world.run_until(world.clock.now + LONGEST_PAUSE_S + LEAVING_S)
    idle_gets_cold(world)
    nothing_lingers(world)
    residents_stand(world)


def stop(world: World) -> None:
    """The daemon is told to stop."""
    world.manager.tell(events.Stop(deadline=world.clock.now + world.rng.choice((0.0, 1.0, 5.0))))


def make_peace(world: World) -> None:
    """No new sessions, no faults, no strangers; a manager and a host are there."""
    world.faults = False
    world.clients.retire()
    world.reserving.leave()
    world.run_until(world.clock.now + RECOVERY_S)
    world.drivers.unstick()
    for memory in world.memory.values():
        if memory.is_lost:
            world.find(memory)
    for memory in world.memory.values():
        for kind, n in memory.strangers.items():
            memory.grow_stranger(kind, -n)


def finish_requests(world: World) -> None:
    """Sessions under way come to their end, each request within the bound.

    Where something is kept, a request may find no room beside it until its own time is over.
    """
    profile = world.scenario.profile
    within_s = world.bound.after(len(world.control.by_number)) * (1 + profile.calls_deep)
    if profile.keeps:
        within_s = max(within_s, world.config.settings.first_call_timeout_s or 0.0)
    world.run_until(world.clock.now + within_s)
    everything_is_answered(world, within_s)
    calls_end(world, within_s)


def everything_is_answered(world: World, within_s: float) -> None:
    arrived_before = world.clock.now - within_s
    left = [pending for pending in world.control.by_number.values() if pending.arrived <= arrived_before]
    if left or world.control.parked:
        raise Violation("everything_is_answered", f"{left} after {within_s:.1f} s of peace; {world.control.parked}")


def calls_end(world: World, within_s: float) -> None:
    """No call waits for a call that waits for it.

    Of a silent worker a manager may not know the last leases, and so not that a request is nested.
    """
    if world.scenario.profile.silent:
        return
    for worker in world.workers.values():
        for model, line in worker.desk.lines.items():
            if line:
                raise Violation(
                    "calls_end", f"{len(line)} calls of {model} in {worker} after {within_s:.1f} s of peace"
                )


def stop_frees_everything(world: World) -> None:
    if world.workers:
        raise Violation("stop_frees_everything", f"{list(world.workers.values())}")


def transient_leaves(world: World) -> None:
    told = world.manager.told
    for worker in world.workers.values():
        for known in worker.objects.values():
            spec = told.spec_of(known.model)
            if spec is None or spec.tier is not Tier.TRANSIENT or told.is_kept(known.model):
                continue
            if any(lease.model == known.model and lease.worker is worker for lease in world.leases.values()):
                raise Violation("transient_leaves", f"{known.model} is still in {worker}, and nobody has a lease")


def idle_gets_cold(world: World) -> None:
    for worker in world.workers.values():
        if world.scenario.profile.expects and worker.ordered_to_stop:
            continue  # a guess has just been wrong
        stays = [known.model for known in worker.objects.values() if stays_loaded(world, known.model)]
        if len(stays) < len(worker.objects) or not stays:
            raise Violation("idle_gets_cold", f"{worker} is still there")


def stays_loaded(world: World, key: str) -> bool:
    """What may be in memory although nobody asks for it."""
    told = world.manager.told
    spec = told.spec_of(key)
    if spec is None:
        return False
    if told.is_kept(key) or (spec.idle_timeout_s is None and spec.tier is Tier.ON_DEMAND):
        return True
    is_guess = any(thing.guess is not None for thing in told.objects_of(key))
    return is_guess or told.expectations.is_due(key, told.expectations.lead_s)


def nothing_lingers(world: World) -> None:
    """The ledger holds what the remaining workers hold; nobody has a lease or waits."""
    nothing_is_booked(world)
    for model in view.models(world.manager.core, world.clock.now):
        if model.leases or model.in_flight or model.waiting:
            raise Violation("nothing_lingers", f"{model} at rest")


def nothing_is_booked(world: World) -> None:
    """But for what is there."""
    problem = about_ledger.nothing_is_left(world)
    if problem is not None:
        raise Violation("nothing_lingers", problem)


def residents_stand(world: World) -> None:
    """Every resident that was not freed by name is loaded, or has no room beside what is kept."""
    told = world.manager.told
    for spec in told.config.models.values():
        if spec.tier is not Tier.RESIDENT or spec.key in told.dismissed or told.serves(spec.key):
            continue
        predicted = told.predicted.get(spec.key)
        need = predicted.ways[RAM].peak.ram_bytes + sum(predicted.files.values()) if predicted is not None else 0
        booked, most = told.books.booked(RAM), told.books.most(RAM)
        if need + booked <= most * told.config.settings.max_pinned:
            raise Violation("residents_stand", f"{spec.key} is cold, {need} would fit beside {booked} in {most}")
