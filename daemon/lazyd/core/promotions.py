"""Promotions: a person says what a name means, over the configuration, until that is taken back.

What was said, and what each name has meant, is kept like pins: it outlives restarts. A name goes over to what it means
now by a swap (`swaps.py`). What was said of a model that is no longer configured is told once, and does not count until
it is configured again.
"""

from __future__ import annotations

import msgspec

from . import configuring, routes, swaps
from .answers import ModelNotFound, Promoted, ShuttingDown
from .effects import KeepMeanings
from .events import MeaningsKept, Promote, Rollback
from .meanings import CONFIGURED, PROMOTED, ROLLED_BACK, Kept, Meant
from .records import Model, Route
from .world import World

MOST_KEPT = 10
"""So many meanings of a name are remembered, the last ones."""

NOTHING = Kept()


def remembered(world: World, event: MeaningsKept) -> None:
    """What an earlier manager has kept."""
    world.kept_meanings = dict(event.kept)


def promote(world: World, event: Promote) -> None:
    """A name means another model, or again what is configured, from now on."""
    kept = world.kept_meanings.get(event.name, NOTHING)
    if world.stopping:
        world.answer(event.request, ShuttingDown())
    elif event.name not in world.meanings or event.name in world.config.models:
        world.answer(event.request, ModelNotFound(model=event.name, nearest=world.nearest(event.name)))
    elif event.model is not None and event.model not in world.config.models:
        world.answer(event.request, ModelNotFound(model=event.model, nearest=world.nearest(event.model)))
    else:
        how = CONFIGURED if event.model is None else PROMOTED
        say(world, event.request, event.name, msgspec.structs.replace(kept, promoted=event.model), how)


def rollback(world: World, event: Rollback) -> None:
    """A name means again what it has meant before."""
    before = previous(world, event.name)
    if world.stopping:
        world.answer(event.request, ShuttingDown())
    elif before is None:
        world.answer(event.request, ModelNotFound(model=event.name, nearest=None))
    else:
        history = world.kept_meanings[event.name].history
        earlier = history[: history.index(before)]
        is_configured = before.how == CONFIGURED and configured(world, event.name) == before.model
        promoted = None if is_configured else before.model
        how = CONFIGURED if is_configured else ROLLED_BACK
        again = Meant(model=before.model, at=world.now, how=how)
        say(world, event.request, event.name, Kept(promoted=promoted, history=(*earlier, again)), how)


def look(world: World, model: Model) -> None:
    """A rule about one model: where another one had to leave for it, and it has failed, names go back."""
    for route in list(model.routes.values()):
        if route.stopped is None or model.key not in route.shares:
            continue
        if routes.is_fit(model):
            route.stopped = None
        elif routes.is_paused(world, model) and model.key == max(route.shares, key=route.shares.__getitem__):
            go_back(world, route, model)


def go_back(world: World, route: Route, failed: Model) -> None:
    """As if it had been rolled back. To try again would make the old one leave again: a person says when."""
    old, route.stopped = str(route.stopped), None
    reason = f"{failed.key} has failed ({failed.last_error}), and {old}"
    if old not in world.config.models:
        world.note("swap failed", failed, f"{reason}, which has left for it, is not configured", name=route.name)
        return
    back = f"{reason} answers for {route.name} again until it is promoted"
    world.note("swap failed", failed, back, name=route.name, back=old)
    kept = world.kept_meanings.get(route.name, NOTHING)
    world.kept_meanings[route.name] = msgspec.structs.replace(kept, promoted=old)
    mean_anew(world, ROLLED_BACK)
    keep(world)


def previous(world: World, name: str) -> Meant | None:
    """What a name has meant before, if that is still configured."""
    history = world.kept_meanings.get(name, NOTHING).history
    now = world.meanings.get(name)
    there = (meant for meant in reversed(history[:-1]) if meant.model in world.config.models and meant.model != now)
    return next(there, None)


def configured(world: World, name: str) -> str | None:
    """What a name would mean if nobody had said anything of it."""
    others = {other: key for other, key in world.promoted.items() if other != name}
    return routes.meanings_of(world.config, others).get(name)


def say(world: World, request: int, name: str, kept: Kept, how: str) -> None:
    """A person has said what a name means."""
    before = world.meanings[name]
    world.kept_meanings[name] = kept
    mean_anew(world, how)
    keep(world)
    route = world.routes.get(name)
    answers = route.before if route is not None and route.before is not None else world.meanings[name]
    world.answer(request, Promoted(name=name, model=world.meanings[name], before=before, answers=answers))


def mean_anew(world: World, how: str = CONFIGURED) -> None:
    """The configuration, or what people have said, is another one: names are looked up again, and routes follow."""
    old = world.meanings
    world.promoted = in_force(world)
    world.meanings = routes.meanings_of(world.config, world.promoted)
    world.resolved.clear()
    world.users = configuring.users(world)
    changed = False
    for name, key in world.meanings.items():
        changed |= note_change(world, name, old.get(name), key, how)
    swaps.follow_all(world)
    if changed:
        keep(world)


def in_force(world: World) -> dict[str, str]:
    """What people have said of names, as far as it is configured."""
    found = {}
    models = world.config.models
    for name, kept in world.kept_meanings.items():
        if kept.promoted is None or name in models:
            continue
        if kept.promoted in models:
            found[name] = kept.promoted
        elif name in world.promoted or not world.meanings:
            reason = f"{kept.promoted} is not configured, and {name} means what is, until it is again"
            world.note("promotion ignored", kept.promoted, reason, name=name)
    return found


def note_change(world: World, name: str, old: str | None, new: str, how: str) -> bool:
    """Whether a name has come to mean another model. Of a name that was not there before what was kept is compared."""
    kept = world.kept_meanings.get(name, NOTHING)
    last = kept.history[-1].model if kept.history else old
    if last in (None, new):
        return False
    history = kept.history or (Meant(model=str(last)),)
    history = (*history, Meant(model=new, at=world.now, how=how))[-MOST_KEPT:]
    world.kept_meanings[name] = Kept(promoted=kept.promoted, history=history)
    world.note("meaning", new, f"{name} means {new}, no longer {last} ({how})", name=name, before=last)
    return True


def keep(world: World) -> None:
    """It outlives restarts."""
    world.emit(KeepMeanings(kept=dict(world.kept_meanings)))
