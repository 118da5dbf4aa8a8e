"""Checks of leases: that they are what was asked for, hold what they promise, and go to their owner."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lazyd.core import answers, effects, events

from . import about_requests
from .told import Stage

if TYPE_CHECKING:
    from .world import World


def names_what_exists(world: World, effect: Any) -> str | None:
    worker = world.manager.told.workers.get(effect.worker)
    if worker is None:
        if isinstance(effect, effects.StopWorker) and effect.worker not in world.manager.exited:
            return None  # One that the core had given up as lost, and that is there after all.
        return f"{effect} names a worker that is gone"
    if worker.stopping and isinstance(effect, effects.LoadObject | effects.Grant | effects.Drain | effects.Resume):
        return f"{effect} names a worker that was told to stop"
    return None


def granted_is_valid(world: World, effect: effects.Grant | effects.Answer) -> str | None:
    if isinstance(effect, effects.Grant):
        return _grant_is_valid(world, effect)
    outcome = effect.outcome
    if not isinstance(outcome, answers.Granted):
        return None
    told = world.manager.told
    lease, pending = world.leases.get(outcome.lease), world.control.by_number[effect.request]
    if lease is None or (lease.token, lease.worker.id) != (outcome.token, outcome.worker):
        return f"{outcome} was never granted so to a worker"
    key = f"{outcome.model}:{outcome.version}" if outcome.version else outcome.model
    may_be = about_requests.may_answer(world, pending, is_degraded=outcome.degraded is not None)
    if lease.model != key or key not in may_be or lease.holder != pending.fields["holder"]:
        return f"{outcome} is not what {pending} asked for"
    hold_s = min(pending.fields["hold_s"], told.config.settings.max_hold_s) if "hold_s" in pending.fields else 0.0
    if hold_s and lease.hold_until < world.clock.now + hold_s:
        return f"{outcome} is held until {lease.hold_until}, which is not {hold_s} s"
    return None


def _grant_is_valid(world: World, effect: effects.Grant) -> str | None:
    thing = world.manager.told.workers[effect.worker].objects.get(effect.model)
    if thing is None or thing.stage is not Stage.READY:
        return f"{effect} names a model that is not ready"
    if thing.drain is not None and effect.parent is None:
        return f"{effect} names a model that drains"
    return None


def busy_is_protected(world: World, effect: effects.StopWorker | effects.UnloadObject) -> str | None:
    worker = world.workers.get(effect.worker)
    if worker is None:
        return None
    only = effect.model if isinstance(effect, effects.UnloadObject) else None
    told = world.manager.told.workers.get(effect.worker)
    for lease in worker.protected_leases():
        if only is not None and lease.model != only:
            continue
        thing = told.objects.get(lease.model) if told is not None else None
        if told is None or told.stopping or (thing is not None and thing.stage is Stage.UNLOADING):
            continue  # It was ordered before, and is ordered again.
        if not world.may_end_calls(worker, lease.model):
            return f"{lease.model} in {worker} leaves, and {lease.lease} is busy, fresh or held"
    return None


def lease_is_not_taken(world: World, effect: effects.Withdraw) -> str | None:
    lease = world.leases.get(effect.lease)
    if lease is None or lease.is_over or lease.given_back:
        return None
    if any(p.kind is events.Release and p.fields["lease"] == effect.lease for p in world.control.by_number.values()):
        return None
    worker = world.manager.told.workers.get(effect.worker)
    thing = worker.objects.get(lease.model) if worker is not None else None
    if worker is None or worker.stopping or thing is None or thing.stage is Stage.UNLOADING:
        return None
    if lease.presented or lease.is_protected(world.clock.now):
        return f"{effect.lease} on {lease.model} is withdrawn, and its owner still has it"
    return None


def only_the_holder_releases(world: World, effect: effects.Answer) -> str | None:
    pending = world.control.by_number[effect.request]
    if pending.kind is not events.Release or not isinstance(effect.outcome, answers.Done):
        return None
    lease = world.leases.get(pending.fields["lease"])
    if lease is None or lease.holder != pending.fields["holder"]:
        return f"{pending} is answered Done"
    return None
