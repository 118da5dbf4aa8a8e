"""In whose lines a request stands: that of the model it wants and, once it looks for a fallback, others' too.

A request stands once in a line, as a `Waiter`. Those of one request share a `Detour`; whichever model is ready first
answers, and then the request leaves all lines at once. What nobody waits for any more, as its request took a fallback,
is still wanted: a *wish* stands in its line, until it is ready or refused.
"""

from __future__ import annotations

from .records import FOREVER, NOBODY, Model, Waiter
from .world import World


def join(world: World, waiter: Waiter) -> None:
    """The last in the line of its model."""
    waiter.model.dismissed = False
    waiter.model.waiters.append(waiter)
    world.waiters.setdefault(waiter.request, waiter)
    world.touch(waiter.model)


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
