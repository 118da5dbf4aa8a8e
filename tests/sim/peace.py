"""The end of a schedule: traffic and faults stop, time passes, and the machine must come to rest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazyd.core import events, view

from . import invariants
from .host import MOST_GROWN
from .scenario import FAMILY
from .truth import FRESH_S, Violation

if TYPE_CHECKING:
    from .world import World

SETTLE_S = 90.0
"""For sessions, unloads, restarts and releases that are under way."""
UNPRESENTED_S = 30.0
LEAVING_S = 15.0
"""From the end of the idle time until the bytes are free."""
LONGEST_PAUSE_S = 300.0


def check(world: World) -> None:
    make_peace(world)
    if world.manager.told.stop_deadline is not None:
        world.run_until(world.manager.told.stop_deadline + LEAVING_S)
        everything_is_answered(world)
        if world.workers:
            raise Violation("stop_frees_everything", f"{list(world.workers.values())}")
        return
    longest = world.config.settings.first_call_timeout_s or 0.0
    world.run_until(world.clock.now + longest + SETTLE_S)
    everything_is_answered(world)
    world.clients.leave()
    idle_s = max((spec.idle_timeout_s or 0.0 for spec in world.config.models.values()), default=0.0)
    world.run_until(world.clock.now + UNPRESENTED_S + FRESH_S + idle_s + LEAVING_S)
    idle_gets_cold(world)
    world.run_until(world.clock.now + LONGEST_PAUSE_S + LEAVING_S)
    idle_gets_cold(world)
    nothing_lingers(world)
    residents_stand(world)


def make_peace(world: World) -> None:
    """No new sessions, no faults, no strangers; a manager and a host are there."""
    world.faults = False
    world.clients.retire()
    world.run_until(world.clock.now + 3.0)
    for name in world.foreign:
        world.foreign[name] = 0
        world.manager.tell(world.sample(name))


def everything_is_answered(world: World) -> None:
    left = [*world.control.by_number.values(), *world.control.parked]
    if left:
        raise Violation("everything_is_answered", f"{left} after {SETTLE_S} s of peace")


def idle_gets_cold(world: World) -> None:
    for worker in world.workers.values():
        keeps = [o.model for o in worker.objects.values() if invariants.stays_loaded(world, o.model)]
        extra = [o.model for o in worker.objects.values() if o.model not in keeps]
        if extra or not keeps:
            raise Violation("idle_gets_cold", f"{worker} is still there")


def nothing_lingers(world: World) -> None:
    """The ledger holds what the remaining workers hold, which may have grown a little; nobody has a lease or waits."""
    core = world.manager.core
    for device in view.devices(core):
        really = world.booked(device.name)
        if not really <= device.booked_bytes <= really * MOST_GROWN:
            raise Violation("nothing_lingers", f"{device} at rest, and {really} are really booked")
    for model in view.models(core, world.clock.now):
        if model.leases or model.in_flight or model.waiting:
            raise Violation("nothing_lingers", f"{model} at rest")


def residents_stand(world: World) -> None:
    """Every resident that was not freed by name is loaded, or has no room beside what is kept."""
    told = world.manager.told
    for spec in told.config.models.values():
        if spec.tier != "resident" or spec.key in told.dismissed or spec.name == FAMILY:
            continue
        stands = any(
            o.model == spec.key and o.state == "ready" for w in world.workers.values() for o in w.objects.values()
        )
        need = spec.memory_bytes or 0
        pinned = sum(n.booked.get("ram", 0) for n in world.workers.values())
        if not stands and need + pinned <= 0.5 * invariants.limit(world, "ram"):
            raise Violation("residents_stand", f"{spec.key} is cold, {need} would fit beside {pinned}")


def stop(world: World) -> None:
    """The daemon is told to stop."""
    world.manager.tell(events.Stop(deadline=world.clock.now + world.rng.choice((0.0, 1.0, 5.0))))
