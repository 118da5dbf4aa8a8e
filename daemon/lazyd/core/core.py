"""The decision core: it is told what happened and says what is to be done.

    core = Core(new_id)
    effects = core.handle(Get(request=1, model="gemma", holder=1000), now)

It does no I/O, has no clock, and is not thread-safe: one writer owns it. Each event is first
written down (`EVENTS`), then the rules about every model it touched are applied until nothing
is left to do, then room is made for those who wait. Time passes only by `now`; `next_deadline`
says when a `Tick` is due at the latest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import (
    adoption,
    configuring,
    crowding,
    deaths,
    events,
    eviction,
    expecting,
    fetching,
    leases,
    lives,
    locks,
    parking,
    pins,
    prewarming,
    promotions,
    release,
    remembering,
    reports,
    requests,
    reservations,
    routes,
    shortage,
    unloads,
    waiting,
    warming,
    wear,
)
from .effects import Effect
from .records import Reason
from .room import make_room
from .rules import RULES
from .world import World


def cancel(world: World, event: events.Cancel) -> None:
    """A client has gone, whatever it waited for."""
    requests.cancel(world, event)
    unloads.cancel(world, event)
    reservations.cancel(world, event.request)
    locks.cancel(world, event.request)


def stop(world: World, event: events.Stop) -> None:
    """Everything leaves; at the deadline even what is in the middle of a call."""
    world.stop_deadline = event.deadline
    world.alarms.set(("stop",), event.deadline)
    locks.end_all(world, Reason.STOPPING)
    touch_all(world)


def touch_all(world: World) -> None:
    """Everything is looked at again (an alarm)."""
    for model in world.models.values():
        world.touch(model)
    for instance in world.instances():
        world.touch(instance.model)


def touch(world: World, *key: str) -> None:
    """Time alone may have changed something for one model (an alarm)."""
    instance = world.instance(key[0], key[1]) if len(key) == 2 else None
    model = instance.model if instance else world.models.get(key[-1])
    if model is not None:
        world.touch(model)


def touch_waited_for(world: World, _: int, key: str) -> None:
    """Somebody has waited for a model long enough to take its fallback (an alarm)."""
    if (model := world.models.get(key)) is not None:
        world.touch(model)


def nothing(world: World, *_: object) -> None:
    """The rules run after every event anyway."""


EVENTS: dict[type[events.Event], Callable[[World, Any], None]] = {
    events.Get: requests.get,
    events.Load: requests.load,
    events.Cancel: cancel,
    events.Unload: unloads.unload,
    events.Release: leases.release,
    events.Pin: pins.pin,
    events.Configure: configuring.configure,
    events.Promote: promotions.promote,
    events.Rollback: promotions.rollback,
    events.MeaningsKept: promotions.remembered,
    events.Shadowed: routes.shadowed,
    events.Stop: stop,
    events.Scheduled: expecting.scheduled,
    events.Remembered: remembering.remembered,
    events.Tick: nothing,
    events.Reserve: reservations.reserve,
    events.Unreserve: reservations.unreserve,
    events.LockFiles: locks.ask,
    events.FilesLocked: locks.held,
    events.FilesUnlocked: locks.unlocked,
    events.DeviceSeen: reports.device_seen,
    events.DeviceLost: reports.device_lost,
    events.DriverSilent: reports.driver_silent,
    events.MemoryPressure: crowding.pressure,
    events.Predicted: reports.predicted,
    events.Unpredictable: reports.unpredictable,
    events.Fetching: fetching.progressed,
    events.Fetched: fetching.fetched,
    events.Renewed: fetching.renewed,
    events.HostFound: adoption.host_found,
    events.HostAway: deaths.host_away,
    events.HostLost: deaths.host_lost,
    events.WorkerStarted: reports.worker_started,
    events.WorkerExited: deaths.worker_exited,
    events.WorkerMeasured: reports.worker_measured,
    events.LoadProgress: reports.load_progress,
    events.ObjectWarming: warming.warming,
    events.ObjectReady: reports.object_ready,
    events.WarmupEnded: warming.ended,
    events.ObjectFailed: reports.object_failed,
    events.ObjectUnloaded: reports.object_unloaded,
    events.ObjectParked: parking.parked,
    events.ParkFailed: parking.park_failed,
    events.WorkerUsed: wear.used,
    events.RanOut: shortage.call_ran_out,
    events.LeasePresented: leases.presented,
    events.LeaseClosed: leases.closed,
    events.LeaseBusy: leases.busy,
    events.LeaseIdle: leases.idle,
    events.Drained: reports.drained,
    events.StillBusy: reports.still_busy,
}

OVERTURNS = (
    events.Configure,
    events.Promote,
    events.Rollback,
    events.HostFound,
    events.HostAway,
    events.HostLost,
    events.Stop,
)
"""After these nothing need be as it was."""

ALARMS: dict[str, Callable[..., None]] = {
    "deadline": requests.deadline_passed,
    "fallback": touch_waited_for,
    "wish": waiting.wish_is_old,
    "unload": unloads.deadline_passed,
    "lease": leases.unpresented,
    "obituary": leases.forget_obituary,
    "load": lives.no_progress,
    "warm": warming.took_too_long,
    "drain": lives.unanswered,
    "idle": touch,
    "prewarm": touch,
    "retry": touch,
    "release": release.overdue,
    "park": touch,
    "silent": parking.look_again,
    "stuck": lives.does_not_end,
    "object": lives.object_does_not_leave,
    "reserve": reservations.deadline_passed,
    "reservation": reservations.end,
    "room": nothing,
    "crowd": nothing,
    "worn": wear.has_waited,
    "stop": touch_all,
}


class Core:
    def __init__(self, new_id: Callable[[], str]) -> None:
        """`new_id` makes names that no other worker, lease or token has ever had."""
        self.world = World(new_id=new_id)

    def handle(self, event: events.Event, now: float) -> list[Effect]:
        """Takes one event; returns what is to be done, in order."""
        world = self.world
        world.now = max(now, world.now)
        if isinstance(event, OVERTURNS):
            eviction.look_anew(world)
        EVENTS[type(event)](world, event)
        for name, *rest in world.alarms.due(world.now):
            ALARMS[name](world, *rest)
        settle(world)
        effects, world.out = world.out, []
        return effects

    def next_deadline(self) -> float | None:
        """When a `Tick` is due; None while only events can change anything."""
        return self.world.alarms.next()

    def __repr__(self) -> str:
        return repr(self.world)


def settle(world: World) -> None:
    """Applies the rules until nothing is left to do."""
    while True:
        while world.touched:
            model, _ = world.touched.popitem()
            for rule in RULES:
                rule(world, model)
        if world.unloads:
            unloads.freed(world)
        prewarming.give_way(world)
        if world.wanting or world.plans:
            make_room(world)
        if world.lock_wishes:
            locks.advance(world)
        if world.guesses:
            prewarming.make_room(world)
        crowding.relieve(world)
        if not world.touched:
            return
