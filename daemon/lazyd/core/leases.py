"""Leases: a client's right to use a loaded model.

A lease exists before the client hears that the model is ready, and is safe until its first call
(5 s at most) or until the time it asked to hold. Then only a call in flight protects the model;
an open but idle connection does not. A lease that nobody presents ends after 30 s.
"""

from __future__ import annotations

from . import expecting, guesses, routes
from .answers import Done, Granted, NoSuchLease, PermissionDenied, WorkerDied
from .effects import Grant, Used, Withdraw
from .events import LeaseBusy, LeaseClosed, LeaseIdle, LeasePresented, LeaseReport, Release
from .names import split
from .records import UNPRESENTED_LEASE_S, Instance, Lease, LeaseStage, Waiter, Warmth
from .world import World

OBITUARY_S = 60.0
"""For so long a lease's death can be asked for."""

SAME_USE_S = 1.0
"""What begins sooner after the last use than this is the same use, as the history has it."""


def grant(world: World, instance: Instance, waiter: Waiter, *, cold_start: bool) -> None:
    """A new lease for a request: first the worker learns of it, then the client."""
    now = world.now
    lease = Lease(
        id=world.new_id(),
        token=world.new_id(),
        instance=instance,
        holder=waiter.holder,
        granted=now,
        hold_until=now + min(waiter.hold_s, world.settings.max_hold_s) if waiter.hold_s else 0.0,
        parent=waiter.parent,
        asked=waiter.arrived,
        route=waiter.route,
    )
    world.leases[lease.id] = lease
    instance.leases[lease.id] = lease
    instance.last_used = now
    instance.model.heat.used(now)
    instance.served = True
    route = world.routes.get(waiter.route) if waiter.route is not None else None
    if route is None or routes.means(route, instance.model.first.key):
        instance.replaced = False
    guesses.came_true(instance, now)
    world.alarms.set(("lease", lease.id), max(lease.hold_until, now + UNPRESENTED_LEASE_S))
    world.emit(
        Grant(
            worker=instance.worker.id,
            model=instance.model.key,
            lease=lease.id,
            token=lease.token,
            holder=lease.holder,
            hold_until=lease.hold_until,
            parent=lease.parent,
            route=lease.route,
            shadow=routes.shadow_of(world, route, instance.model.first),
        )
    )
    detour = waiter.detour
    asked, degraded = (waiter.arrived, None) if detour is None else (detour.asked, detour.why)
    is_split = route is not None and len(route.shares) > 1 and waiter.sticky is None
    takes_turns = is_split or bool(instance.model.siblings)
    told = granted(lease, cold_start=cold_start, waited_s=now - asked, degraded=degraded, takes_turns=takes_turns)
    world.answer(waiter.request, told)


def granted(
    lease: Lease, *, cold_start: bool, waited_s: float, degraded: str | None = None, takes_turns: bool = False
) -> Granted:
    """What the holder of a lease is told."""
    worker = lease.instance.worker
    name, version = split(lease.instance.model.first.key)
    return Granted(
        lease=lease.id,
        token=lease.token,
        model=name,
        version=version,
        worker=worker.id,
        endpoint=worker.endpoint,
        url=lease.instance.url,
        cold_start=cold_start,
        waited_s=waited_s,
        degraded=degraded,
        takes_turns=takes_turns,
    )


def release(world: World, event: Release) -> None:
    """A client gives a lease back; only the uid that got it may."""
    lease = world.leases.get(event.lease)
    if lease is None:
        world.answer(event.request, world.obituaries.get(event.lease) or NoSuchLease(lease=event.lease))
    elif lease.holder != event.holder:
        world.answer(event.request, PermissionDenied(method="Release", role="not the holder"))
    else:
        withdraw(world, lease)
        world.answer(event.request, Done())


def presented(world: World, event: LeasePresented) -> None:
    """From now on the connection is the lease."""
    lease = world.leases.get(event.lease)
    if lease is not None and lease.stage is LeaseStage.GRANTED:
        lease.stage = LeaseStage.PRESENTED
        world.alarms.clear(("lease", lease.id))


def busy(world: World, event: LeaseBusy) -> None:
    """The first call under it has begun."""
    lease = world.leases.get(event.lease)
    if lease is not None and lease.stage is not LeaseStage.ENDING:
        world.alarms.clear(("lease", lease.id))
        if lease.stage is LeaseStage.IDLE:  # the first call was counted when the lease was granted
            lease.instance.model.heat.used(world.now)
            expecting.arrived(world, lease.instance.model.first)
            lease.asked = world.now
            if lease.instance.model.siblings:
                world.touch(lease.instance.model)
        lease.stage, lease.busy_since = LeaseStage.BUSY, world.now
        world.stirred.add(lease.instance.worker.id)
        lease.instance.last_used = world.now


def idle(world: World, event: LeaseIdle) -> None:
    """The last call under it has ended: the model works, whatever went wrong before."""
    lease = world.leases.get(event.lease)
    if lease is not None:
        model = lease.instance.model
        tell_use(world, lease)
        is_over = lease.stage is LeaseStage.ENDING
        lease.stage = LeaseStage.IDLE
        lease.instance.last_used = world.now
        if lease.instance.warmup not in (Warmth.RUNNING, Warmth.FAILED):
            model.failures = model.first.failures = 0
        lease.instance.worker.called = True
        model.first.calls += event.calls
        model.first.calls_failed += event.failed
        world.touch(model)
        if is_over:
            forget(world, lease)


def tell_use(world: World, lease: Lease) -> None:
    """For the history: a model was used. Calls that follow each other closely are one use."""
    model = lease.instance.model.first
    if lease.is_busy and world.settings.history and lease.asked >= model.use_told + SAME_USE_S:
        model.use_told = lease.asked
        world.emit(Used(model=model.key, began=lease.asked, busy_s=world.now - lease.busy_since))


def closed(world: World, event: LeaseClosed) -> None:
    """The client has gone, or its connection was closed after a drain."""
    lease = world.leases.get(event.lease)
    if lease is not None:
        forget(world, lease)


def unpresented(world: World, lease_id: str) -> None:
    """Nobody came with the token in time (an alarm)."""
    lease = world.leases.get(lease_id)
    if lease is not None and lease.stage is LeaseStage.GRANTED:
        withdraw(world, lease)


def withdraw(world: World, lease: Lease) -> None:
    """Ends a lease and lets the worker know. While a call is in flight, the worker has the last word."""
    world.emit(Withdraw(worker=lease.instance.worker.id, lease=lease.id))
    if lease.is_busy:
        lease.stage, lease.hold_until = LeaseStage.ENDING, 0.0
        world.stirred.add(lease.instance.worker.id)
    else:
        forget(world, lease)


def reported_stage(told: LeaseReport) -> LeaseStage:
    """How far a client had come with its lease when the worker reported."""
    if told.in_flight:
        return LeaseStage.BUSY
    if told.called:
        return LeaseStage.IDLE
    return LeaseStage.PRESENTED if told.presented else LeaseStage.GRANTED


def forget(world: World, lease: Lease) -> None:
    world.leases.pop(lease.id, None)
    lease.instance.leases.pop(lease.id, None)
    world.alarms.clear(("lease", lease.id))
    world.touch(lease.instance.model)


def forget_all(world: World, instance: Instance) -> None:
    """The worker has ended all leases of an object: it drained, and told those who were connected."""
    for lease in list(instance.leases.values()):
        forget(world, lease)


def bury(world: World, instance: Instance, status: int | None, signal: int | None, log: str) -> None:
    """The worker died: its leases are remembered for a while, with the cause."""
    for lease in list(instance.leases.values()):
        world.obituaries[lease.id] = WorkerDied(
            model=instance.model.first.key, exit_status=status, signal=signal, log=log
        )
        world.alarms.set(("obituary", lease.id), world.now + OBITUARY_S)
        forget(world, lease)


def forget_obituary(world: World, lease_id: str) -> None:
    """A minute has passed (an alarm)."""
    world.obituaries.pop(lease_id, None)


def ancestors(world: World, parent: str | None) -> set[Instance]:
    """The instances whose calls wait for a nested request: that of its parent lease, and so on up."""
    found: set[Instance] = set()
    seen: set[str] = set()
    while parent is not None and parent not in seen and (lease := world.leases.get(parent)) is not None:
        seen.add(parent)
        found.add(lease.instance)  # a model may call itself and stand in the chain twice
        parent = lease.parent
    return found
