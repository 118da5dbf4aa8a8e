"""Swaps: a name comes to mean another version while the old one is in memory.

With ``swap = "overlap"`` the new one is loaded and warmed up in the background: it stands in the line for room like one
that somebody waits for, but nobody busy is made to leave for it, nothing is set aside for it, and the version that
answers meanwhile stays. When it is fit, its warm-up included, new requests go to it. Clients of the old one with
open connections are told to ask anew (`Revoke`), each after its last call; then the old one leaves, unless somebody
asks for it by its own name. If the new one fails, the old one answers on, and the load is tried again after the
growing pause. If the old one leaves for another reason, the swap is over at once.

With ``swap = "stop-first"`` the old one finishes and leaves first, and requests wait for the new one. If that fails,
the name goes back to the old one, as a person would have it go (`promotions.look`).
"""

from __future__ import annotations

from . import parking, routes, waiting
from .effects import Revoke
from .records import Instance, Model, Route, Waiter
from .spec import Swap
from .wording import listed
from .world import World


def follow_all(world: World) -> None:
    """What names mean has changed: routes follow."""
    for route in list(world.routes.values()):
        if route.name not in world.meanings:
            forget(world, route)
            continue
        shares, shadow = routes.shares_of(world, route.name)
        if shadow != route.shadow and (old := world.models.get(route.shadow or "")) is not None:
            unlink(world, route, old)
        route.shadow = shadow
        if shares != route.shares:
            reroute(world, route, shares)


def forget(world: World, route: Route) -> None:
    """The name is no more, or has become a model's own."""
    del world.routes[route.name]
    shadow = world.models.get(route.shadow or "")
    for model in dict.fromkeys([*routes.models(world, route), *filter(None, [shadow])]):
        unlink(world, route, model)


def reroute(world: World, route: Route, shares: dict[str, int]) -> None:
    """A name means other models, or the same in other shares, from now on."""
    old = routes.models(world, route)
    route.shares, route.before, route.stopped, route.since = shares, None, None, world.now
    route.turns.clear()
    route.paused.clear()
    new = routes.models(world, route)
    if not any(routes.is_fit(model) for model in new):
        begin(world, route, [model for model in old if routes.serves(world, model) and model not in new])
    routes.link(world, route)
    world.resolved.pop(route.name, None)
    for model in old:
        if list(shares) == [model.key]:
            hand_over(world, model, route)
        elif model.key != route.before:
            send_away(world, route, model)
        world.touch(model)
    for model in new:
        world.touch(model)


def begin(world: World, route: Route, serving: list[Model]) -> None:
    """None of what a name means is ready. If something is that it has meant, that answers or makes way, as the new
    one's `swap` says; what another name means makes no way."""
    main = world.find(max(route.shares, key=lambda key: route.shares[key]))
    if not serving or main is None:
        return
    old = serving[0]
    if main.spec.swap is Swap.OVERLAP:
        route.before, route.failures = old.key, main.failures
        world.note("swap", main, f"{route.name} goes over to it from {old.key} when it is ready", name=route.name)
    elif not old.kept and old.instance is not None and old.routes.keys() <= {route.name}:
        for life in old.lives:
            life.replaced = True
        main.after, route.stopped = old.instance, old.key
        world.note("swap", main, f"{route.name} goes over to it when {old.key} has left", name=route.name)


def look(world: World, model: Model) -> None:
    """A rule about one model: swaps go on, and what is awaited for a name ends with its reason."""
    for route in list(model.routes.values()):
        if route.before is not None:
            advance(world, route)
    if model.awaited is not None and not is_next(model) and is_settled(world, model):
        model.awaited = None
    if model.waiters and routes.is_paused(world, model):
        for name in dict.fromkeys(waiter.route for waiter in model.waiters if waiter.route is not None):
            hand_over(world, model, world.routes.get(name))
    if model.routes and routes.is_fit(model):
        take_over(world, model)


def take_over(world: World, model: Model) -> None:
    """Who waits for another share of a name need not any more, unless a sticky key has sent him there."""
    for route in model.routes.values():
        if len(route.shares) == 1 or model.key not in route.shares:
            continue
        for other in routes.models(world, route):
            if other.waiters and not routes.is_fit(other):
                for waiter in [w for w in other.waiters if w.route == route.name and w.sticky is None]:
                    move(world, waiter, model)
                routes.expect(world, other)


def is_settled(world: World, model: Model) -> bool:
    """What it was awaited for is there, or cannot be had."""
    return not parking.is_away(world, model) or routes.is_paused(world, model) or bool(model.refused)


def is_next(model: Model) -> bool:
    """A name goes over to it as soon as it is ready."""
    return any(route.before is not None and model.key in route.shares for route in model.routes.values())


def purpose(model: Model) -> str:
    """What it is to be loaded for, although nobody waits for it."""
    names = sorted(model.routes)
    over = [name for name in names if model.routes[name].before is not None and model.key in model.routes[name].shares]
    return f"{listed(over)} goes over to it" if over else f"it has a part in {listed(names)}"


def advance(world: World, route: Route) -> None:
    """Whether a swap is over, as one of the new ones is ready, or the old one has gone. Else the new one is awaited."""
    old = world.models.get(route.before or "")
    new = [model for key in route.shares if (model := world.find(key)) is not None]
    if old is None or not routes.serves(world, old):
        finish(world, route, old, "the old one has left")
    elif any(routes.is_fit(model) for model in new):
        finish(world, route, old, "it is ready")
    elif new:
        main = max(new, key=lambda model: route.shares[model.key])
        if main.failures > route.failures:
            reason = (
                f"{main.key} has failed ({main.last_error}): {route.name} stays with {old.key}, and it is tried again"
            )
            world.note("swap failed", main, reason, name=route.name)
        route.failures = main.failures
        if main.awaited is None:
            main.awaited = world.now
            world.touch(main)


def finish(world: World, route: Route, old: Model | None, why: str) -> None:
    """New requests go to what the name means."""
    was, route.before = route.before, None
    world.resolved.pop(route.name, None)
    new = routes.models(world, route)
    world.note(
        "swapped", new[0] if new else None, f"{route.name} has gone over to it from {was}: {why}", name=route.name
    )
    for model in new:
        world.touch(model)
    if old is not None:
        send_away(world, route, old)


def send_away(world: World, route: Route, model: Model) -> None:
    """All that came by this name ask anew, and whoever waits goes where it leads now."""
    for life in model.lives:
        revoke(world, route, life)
    hand_over(world, model, route)
    if not routes.means(route, model.key):
        unlink(world, route, model)


def revoke(world: World, route: Route, instance: Instance) -> None:
    """Clients that came by this name are told to ask anew, each when no call of it is in flight."""
    for lease in instance.leases.values():
        if lease.route == route.name and not lease.revoked:
            lease.revoked = True
            world.emit(Revoke(worker=instance.worker.id, lease=lease.id))


def hand_over(world: World, model: Model, route: Route | None) -> None:
    """Requests that wait for a model by way of a name wait for what that leads to now."""
    if route is None:
        return
    for waiter in list(model.waiters):
        if waiter.route != route.name:
            continue
        other = routes.choose(world, route, waiter.sticky)
        has_to = not routes.means(route, model.key)
        if other is not None and other is not model and (has_to or not routes.is_paused(world, other)):
            move(world, waiter, other)


def move(world: World, waiter: Waiter, model: Model) -> None:
    """It waits for this one instead, unless it stands in for another in its line, as a fallback."""
    if waiter.detour is None or waiter.detour.wanted is waiter.model:
        waiting.move(world, waiter, model)


def unlink(world: World, route: Route, model: Model) -> None:
    """A name does not lead to a model any more. If no other does, it leaves when nobody uses it."""
    model.routes.pop(route.name, None)
    if not model.routes:
        model.awaited = None
        for life in model.lives:
            life.replaced = life.replaced or not life.model.kept
    world.touch(model)


def waits_for_old(model: Model) -> bool:
    """It is not loaded before the one whose place it takes has left, unless that is wanted again."""
    old = model.after
    lives = {old, *old.model.lives} if old is not None else ()
    if any(life.replaced and life.worker.instances.get(life.model.key) is life for life in lives):
        return True
    model.after = None
    return False


def adopted(world: World) -> None:
    """A new manager has found leases by names that mean another version by now: the swap is still under way."""
    for lease in list(world.leases.values()):
        route = routes.route_of(world, lease.route) if lease.route is not None else None
        model = lease.instance.model.first
        if route is None or routes.means(route, model.key):
            continue
        if not any(routes.is_fit(each) for each in routes.models(world, route)) and routes.serves(world, model):
            begin(world, route, [model])
            routes.link(world, route)
            world.resolved.pop(route.name, None)
        if not routes.means(route, model.key):
            send_away(world, route, model)
        world.touch(model)
