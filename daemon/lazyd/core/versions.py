"""What is shown of names that may mean several models: the versions of each, and which of them answer.

Looking changes nothing, as in `view`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from . import promotions, routes
from .core import Core
from .meanings import Kept, Meant
from .names import split, version_order
from .records import Model, Route
from .shown import Shown
from .view import state_of
from .world import World


class Version(Shown, frozen=True, kw_only=True):
    """One model that a name means, or could."""

    model: str
    """Its key."""
    state: str
    weight: int | None = None
    """Of the shares of all requests by the name; None: it has none."""
    answers: bool
    """Requests by the name go to it now."""
    shadow: bool
    """It repeats the calls of the others."""
    calls: int
    """That have ended, by whatever name, since the manager was started."""
    failed: int
    equal: int | None = None
    """Of a shadow: calls of others that were repeated on it, by what came of them."""
    different: int | None = None
    shadow_failed: int | None = None
    skipped: int | None = None
    last_error: str | None = None


class Before(Shown, frozen=True, kw_only=True):
    """What a name has meant from then on."""

    model: str
    how: str
    """``configured``, ``promoted`` or ``rolled back``."""
    at: float | None = None
    """Seconds since 1970, where that is known."""


class Named(Shown, frozen=True, kw_only=True):
    """A name that is no model's own."""

    name: str
    means: str
    """The model with the largest share."""
    answers: str
    """The model that answers until that is ready, or that itself."""
    alias: bool
    promoted: bool
    since: float | None = None
    versions: Sequence[Version]
    history: Sequence[Before]
    """The newest last."""


def named(core: Core, name: str | None, epoch: float) -> list[Named] | None:
    """All such names, or one, or those that may lead to a model; None: there is no such name or model."""
    world = core.world
    if name is None:
        return [show(world, each, epoch) for each in sorted(world.meanings) if is_worth_showing(world, each)]
    if name in world.meanings:
        return [show(world, name, epoch)]
    if name not in world.config.models and name not in world.models:
        return None
    return [show(world, each, epoch) for each in sorted(world.meanings) if name in keys_of(world, each)]


def is_worth_showing(world: World, name: str) -> bool:
    """There is a choice, or there was one."""
    return name in world.config.aliases or name in world.kept_meanings or len(keys_of(world, name)) > 1


def keys_of(world: World, name: str) -> list[str]:
    """The models that a name means or could mean: its shares first, then other versions, the highest first."""
    route = world.routes.get(name)
    shares, shadow = routes.shares_of(world, name)
    heads = {split(key)[0] for key in shares if split(key)[1]}
    others = sorted(versions_of(world, heads), key=lambda key: version_order(split(key)[1]), reverse=True)
    first = sorted(shares, key=lambda key: -shares[key])
    before = [route.before] if route is not None and route.before is not None else []
    return list(dict.fromkeys([*first, *([shadow] if shadow else []), *before, *others]))


def versions_of(world: World, heads: set[str]) -> Iterator[str]:
    for spec in world.config.models.values():
        if spec.name in heads and spec.version and not spec.is_family:
            yield spec.key


def show(world: World, name: str, epoch: float) -> Named:
    route = world.routes.get(name)
    means = world.meanings[name]
    kept = world.kept_meanings.get(name, Kept())
    before = route.before if route is not None else None
    history = [Before(model=meant.model, how=meant.how, at=moment(meant, epoch)) for meant in kept.history]
    return Named(
        name=name,
        means=means,
        answers=before or means,
        alias=name in world.config.aliases,
        promoted=name in world.promoted,
        since=history[-1].at if history else None,
        versions=[show_version(world, name, route, key) for key in keys_of(world, name)],
        history=history,
    )


def moment(meant: Meant, epoch: float) -> float | None:
    return None if meant.at is None else meant.at + epoch


def show_version(world: World, name: str, route: Route | None, key: str) -> Version:
    record = world.models.get(key)
    shares, shadow = routes.shares_of(world, name)
    compared = world.compared.get((name, key))
    return Version(
        model=key,
        state=state_of(record) if record is not None else "cold",
        weight=shares.get(key),
        answers=answers(route, shares, record, key, world),
        shadow=key == shadow,
        calls=record.calls if record is not None else 0,
        failed=record.calls_failed if record is not None else 0,
        equal=compared.equal if compared is not None else None,
        different=compared.different if compared is not None else None,
        shadow_failed=compared.failed if compared is not None else None,
        skipped=compared.skipped if compared is not None else None,
        last_error=record.last_error if record is not None else None,
    )


def answers(route: Route | None, shares: dict[str, int], record: Model | None, key: str, world: World) -> bool:
    """Whether requests by the name go to a model now."""
    if route is not None and route.before is not None:
        return key == route.before
    return key in shares and not (len(shares) > 1 and record is not None and routes.is_paused(world, record))


def previous(core: Core, name: str) -> str | None:
    """What a name would mean if it were rolled back."""
    before = promotions.previous(core.world, name)
    return before.model if before is not None else None
