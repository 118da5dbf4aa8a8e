"""In whose lines a request stands: that of the model it wants and, once it looks for a fallback, others' too.

A request stands once in a line, as a `Waiter`. Those of one request share a `Detour`; whichever model is ready first
answers, and then the request leaves all lines at once. What nobody waits for any more, as its request took a fallback,
is still wanted: a *wish* stands in its line, until it is ready or refused.
"""

from __future__ import annotations

from .effects import Progress
from .records import FOREVER, NOBODY, Model, Waiter
from .world import World


def join(world: World, waiter: Waiter) -> None:
    """The last in the line of its model."""
    waiter.model.dismissed = False
    waiter.model.waiters.append(waiter)
    world.waiters.setdefault(waiter.request, waiter)
    world.touch(waiter.model)


def move(world: World, waiter: Waiter, model: Model) -> None:
    """It waits for another version of what it asked for, in the place that it has had so far."""
    old = waiter.model
    old.waiters.remove(waiter)
    if waiter.falls_back is not None:
        world.alarms.clear(("fallback", waiter.request, old.key))
        waiter.falls_back = None
    if waiter.detour is not None:
        waiter.detour.wanted, waiter.detour.tried = model, [model]
    waiter.model = model
    model.dismissed = False
    later = (place for place, other in enumerate(model.waiters) if other.arrived > waiter.arrived)
    model.waiters.insert(next(later, len(model.waiters)), waiter)
    world.touch(old)
    world.touch(model)


def step_out(world: World, waiter: Waiter) -> None:
    """Leaves one line. The request goes on in others, if it stands in any."""
    waiter.model.waiters.remove(waiter)
    if waiter.falls_back is not None:
        world.alarms.clear(("fallback", waiter.request, waiter.model.key))
    world.touch(waiter.model)
    if waiter.detour is not None:
        waiter.detour.standing.remove(waiter)
        if waiter.detour.standing and waiter.request in world.waiters:
            world.waiters[waiter.request] = waiter.detour.standing[0]


def come_back(world: World, model: Model) -> None:
    """It was refused to them, and is ready now."""
    for request, waiter in list(model.elsewhere.items()):
        del model.elsewhere[request]
        if waiter.detour is not None:
            waiter.detour.refusal = None
            waiter.detour.standing.insert(0, waiter)
            model.waiters.append(waiter)
            world.waiters[request] = waiter


def leave_line(world: World, waiter: Waiter) -> None:
    """The request is answered, or its client has gone."""
    if waiter is waiter.model.wish:
        drop_wish(world, waiter.model)
        return
    world.waiters.pop(waiter.request, None)
    world.alarms.clear(("deadline", waiter.request))
    if waiter.detour is None:
        step_out(world, waiter)
        return
    waiter.detour.wanted.elsewhere.pop(waiter.request, None)
    for each in list(waiter.detour.standing):
        step_out(world, each)


def tell(world: World, model: Model, state: str, phase: str, fraction: float | None) -> None:
    """News for those who wait for a model."""
    for waiter in model.waiters:
        if waiter.request != NOBODY:
            world.emit(Progress(request=waiter.request, state=state, phase=phase, fraction=fraction))


def keep_wish(world: World, model: Model) -> None:
    """Its request takes a fallback: what it wanted is still to be loaded, in the place that it had in the line.

    As long as somebody without a limit of his own would have waited for it.
    """
    if model.wish is not None or not model.waiters:
        return
    first = model.waiters[0]
    wish = Waiter(request=NOBODY, model=model, arrived=first.arrived, deadline=FOREVER, lease_wanted=False)
    model.wish = wish
    model.waiters.insert(0, wish)
    limit_s = world.settings.first_call_timeout_s
    if limit_s is not None:
        world.alarms.set(("wish", model.key), world.now + limit_s)


def drop_wish(world: World, model: Model) -> None:
    """It has come true, or cannot, or is too old."""
    if model.wish is not None:
        model.waiters.remove(model.wish)
        model.wish = None
        world.alarms.clear(("wish", model.key))
        world.touch(model)


def wish_is_old(world: World, key: str) -> None:
    """Nobody has come for what it stands for, for long (an alarm)."""
    model = world.models.get(key)
    if model is not None:
        drop_wish(world, model)
