"""Routes: which model answers for a name that may mean several.

A name that is no model's own is an alias, or the name of a model without its version. It means one model, or, as an
alias with weights, several. What it means is found once for each configuration (`meanings_of`): the highest version,
unless an alias or a promotion (`promotions.py`) says otherwise. A *route* is what becomes of such a name once it has
been asked for: the models that it means with their weights, and the one that answers until one of those is ready
(`swaps.py`).

Each request chooses anew. One with a sticky key goes where the key leads, always the same way as long as the weights
stay; others take turns in a fixed order, each model as often as its weight says. Nobody is sent to a model that is
paused after a failure while another can be had, nor without a key to one that is not ready while another is: that one
is loaded in the background instead, into room that the others do not need.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from ..digest import digest_of
from . import parking
from .events import Shadowed
from .lifecycle import SERVES, State
from .meanings import Compared
from .names import MAX_ALIASES, end_of, version_order
from .records import Model, Route, Warmth
from .spec import Config, ModelSpec, Split
from .world import World

UNFIT = frozenset({Warmth.PENDING, Warmth.RUNNING, Warmth.FAILED})
"""Its warm-up has not ended well (yet)."""
LOTS = 1 << 64
"""So many different ones there are."""


def meanings_of(config: Config, promoted: Mapping[str, str]) -> dict[str, str]:
    """The one model that each name means that is no model's own: of one that is split, the largest share."""
    named = newest(config.models)
    named.update(config.aliases)
    named.update(promoted)
    return {name: end_of(name, named, config.models) for name in named}


def newest(specs: Mapping[str, ModelSpec]) -> dict[str, str]:
    """The highest version by the name without it, where no model has that very name."""
    found: dict[str, ModelSpec] = {}
    for spec in specs.values():
        if not spec.version or spec.is_family or spec.name in specs:
            continue
        other = found.get(spec.name)
        if other is None or version_order(spec.version) > version_order(other.version):
            found[spec.name] = spec
    return {name: spec.key for name, spec in found.items()}


def shares_of(world: World, name: str) -> tuple[dict[str, int], str | None]:
    """The models that a name means, with their weights, and the one that repeats their calls."""
    split = split_of(world, name)
    if split is None:
        return {world.meanings[name]: 1}, None
    shares: dict[str, int] = {}
    for target, weight in split.weights.items():
        key = world.meanings.get(target, target)
        shares[key] = shares.get(key, 0) + weight
    shadow = split.shadow
    return shares, world.meanings.get(shadow, shadow) if shadow is not None else None


def split_of(world: World, name: str) -> Split | None:
    """The shares that a name means, itself or by the alias that it names, unless a person has said otherwise."""
    aliases, splits = world.config.aliases, world.config.splits
    for _ in range(MAX_ALIASES):
        if name in world.promoted or name in splits or name not in aliases:
            break
        name = aliases[name]
    return splits.get(name) if name not in world.promoted else None


def route_of(world: World, name: str) -> Route | None:
    """The route of a name, made when it is first asked for; None: it is a model's own, or means none."""
    route = world.routes.get(name)
    if route is not None or name not in world.meanings or name in world.config.models or world.find(name) is None:
        return route
    shares, shadow = shares_of(world, name)
    route = world.routes[name] = Route(name=name, since=world.now, shares=shares, shadow=shadow)
    link(world, route)
    return route


def link(world: World, route: Route) -> None:
    """The models that it may lead to know of it, and stay."""
    for model in models(world, route):
        model.routes[route.name] = route
        for life in model.lives:
            life.replaced = False


def models(world: World, route: Route) -> list[Model]:
    """All that it may lead to now; the one first that answers until another is ready. What has been configured until
    now is still known."""
    keys = [*([route.before] if route.before is not None else []), *route.shares]
    return [model for key in keys if (model := world.models.get(key) or world.find(key)) is not None]


def means(route: Route, key: str) -> bool:
    """Whether a route leads to a model, or may as soon as it is ready."""
    return key == route.before or key in route.shares


def choose(world: World, route: Route, sticky: str | None) -> Model | None:
    """The model that is to answer one request."""
    if route.before is not None and (before := world.models.get(route.before)) is not None and serves(world, before):
        return before
    able = able_of(world, route)
    chosen = world.find(by_key(able, f"{route.name}\0{sticky}") if sticky is not None else by_turn(route, able))
    if chosen is None or sticky is not None or len(able) == 1 or is_fit(chosen):
        return chosen
    ready = [model for key in able if (model := world.find(key)) is not None and is_fit(model)]
    if not ready:
        return chosen
    expect(world, chosen)
    return max(ready, key=lambda model: able[model.key])


def able_of(world: World, route: Route) -> dict[str, int]:
    """The shares of those that are not paused after a failure; of all, if all are."""
    if len(route.shares) == 1:
        return route.shares
    paused = {key for key in route.shares if (model := world.models.get(key)) and is_paused(world, model)}
    if paused != route.paused:
        for key in sorted(paused - route.paused):
            reason = f"{key} cannot be had, and its share of {route.name} goes to the others"
            world.note("share", key, reason, name=route.name)
        route.paused = paused
    return {key: n for key, n in route.shares.items() if key not in paused} or route.shares


def by_key(shares: Mapping[str, int], key: str) -> str:
    """The same key leads to the same model, however the shares are written or ordered. A share that grows takes keys
    from the others, one that shrinks gives some to them, and no other key moves: each model draws a lot by the key
    (weighted rendezvous hashing)."""
    return max(shares, key=lambda name: shares[name] / -math.log(lot(name, key)))


def lot(name: str, key: str) -> float:
    """Between 0 and 1, evenly, and always the same."""
    return (int(digest_of(f"{name}\0{key}".encode()), 16) + 1) / (LOTS + 2)


def by_turn(route: Route, shares: Mapping[str, int]) -> str:
    """Smooth weighted round robin: of ten requests at 9 to 1 one goes to the second, wherever it stands."""
    turns = route.turns
    for name, weight in shares.items():
        turns[name] = turns.get(name, 0) + weight
    chosen = max(shares, key=lambda name: turns[name])
    turns[chosen] -= sum(shares.values())
    return chosen


def is_fit(model: Model) -> bool:
    """It is ready, and so is its warm-up, if it has one: it may take over."""
    return any(life.state is State.READY and life.warmup not in UNFIT for life in model.lives)


def serves(world: World, model: Model) -> bool:
    """It answers, or is asked whether it can leave; its warm-up has not failed."""
    return any(life.state in SERVES for life in model.lives) and not is_paused(world, model)


def is_paused(world: World, model: Model) -> bool:
    """Its last load or warm-up has failed."""
    return model.retry_at > world.now


def expect(world: World, model: Model) -> None:
    """A share of a name is meant for it: it is loaded in the background."""
    if model.awaited is None and parking.is_away(world, model) and not is_paused(world, model):
        model.dismissed = False
        model.awaited = world.now
        world.touch(model)


def is_background(model: Model) -> bool:
    """It is to be loaded, and nobody waits for it: others answer meanwhile."""
    return model.awaited is not None and not model.waiters and not model.stands


def siblings(world: World, model: Model) -> Iterable[Model]:
    """Those that answer meanwhile. They do not leave for it."""
    return (other for route in model.routes.values() for other in models(world, route) if other is not model)


def shadow_of(world: World, route: Route | None, model: Model) -> str | None:
    """The model on which calls of another by this name are repeated. It is loaded for that in the background."""
    if route is None or route.shadow in (None, model.key):
        return None
    expect_shadow(world, route)
    return route.shadow


def expect_shadow(world: World, route: Route) -> None:
    shadow = world.find(route.shadow or "")
    if shadow is not None:
        shadow.routes[route.name] = route
        expect(world, shadow)


def answers_meanwhile(model: Model) -> bool:
    """A name means another one by now, and it answers until that is ready."""
    return any(route.before == model.key for route in model.routes.values())


def shadowed(world: World, event: Shadowed) -> None:
    """A worker tells what came of calls that it has repeated."""
    known = world.compared.get((event.name, event.shadow), Compared())
    world.compared[event.name, event.shadow] = known.plus(event.compared)
    route = world.routes.get(event.name)
    if event.compared.skipped and route is not None and route.shadow == event.shadow:
        expect_shadow(world, route)  # it has left, and who calls by the name need not ask for a lease again
