"""Checks of guesses: loads that nobody has asked for, as a habit or a schedule says that somebody will."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lazyd.core import effects, events
from lazyd.core.spec import PrewarmWhen, Tier

from . import about_requests
from .told import Stage, ToldObject, ToldWorker

if TYPE_CHECKING:
    from .world import World

ENOUGH_VISITS = 3
"""So many visits are a habit (docs/readiness.md)."""
SETTLE_S = 5.0
"""Nothing leaves sooner after its last use, whatever is expected."""
LATE_S = 15.0
"""What a guess holds may leave so much later than its time is over: it is asked, and its driver may hang."""
A_MOMENT_S = 1e-6


def guess_is_allowed(world: World, effect: effects.Note) -> str | None:
    """Only where the spec lets it be prewarmed, it is expected now, and nobody has said that it be freed."""
    if effect.kind != "prewarm":
        return None
    told, key = world.manager.told, effect.model or ""
    spec = told.spec_of(key)
    if spec is None or spec.tier is not Tier.ON_DEMAND or spec.prewarm.when is PrewarmWhen.OFF or told.is_kept(key):
        return f"{key} is loaded for a guess, and is {spec}"
    if key in told.unloaded or key in told.failures:
        return f"{key} is loaded for a guess, and was unloaded by name, or has failed"
    if not told.expectations.is_due(key, told.expectations.lead_s):
        return f"{key} is loaded for a guess, and expected at {told.expectations.spans(key)}"
    habit = world.manager.core.world.models[key].habit
    if spec.prewarm.when is PrewarmWhen.LEARNED and (habit is None or len(habit.visits) + 1 < ENOUGH_VISITS):
        return f"{key} is loaded for a guess, and its habit is {habit}"
    return None


def guess_waits_for_all(world: World, effect: effects.Note) -> str | None:
    """A guess is not a wish: none is made while somebody waits for this model, or for room."""
    if effect.kind != "prewarm":
        return None
    told = world.manager.told
    for pending in world.control.by_number.values():
        if pending.kind in (events.Reserve, events.LockFiles):
            return f"{effect.model} is loaded for a guess, and {pending} waits"
        if pending.kind not in (events.Get, events.Load):
            continue
        chain = _chain(world, pending)
        if effect.model in chain or not any(_is_there(told.workers.values(), key) for key in chain):
            return f"{effect.model} is loaded for a guess, and {pending} waits"
    return None


def _chain(world: World, pending: object) -> list[str]:
    chain: list[str] = []
    for is_degraded in (False, True):
        chain += about_requests.may_answer(world, pending, is_degraded=is_degraded)  # type: ignore[arg-type]
    return chain


def _is_there(workers: object, key: str) -> bool:
    """It loads, serves or drains, so nobody waits for room for it; or is a family's, which may wait for its place."""
    if key.startswith("strategy/"):
        return True
    return any(key in worker.objects and not worker.stopping for worker in workers)  # type: ignore[attr-defined]


def loads_have_a_cause(world: World, effect: effects.LoadObject | effects.UnparkObject) -> str | None:
    """Somebody waits for it, or it stands; or it is a guess, and is called so."""
    told, key = world.manager.told, effect.model
    thing = told.workers[effect.worker].objects.get(key)
    if (thing is not None and thing.stage is Stage.LOADING) or told.is_kept(key):
        return None  # in the first case the order is repeated
    asked = [p for p in world.control.by_number.values() if p.kind in (events.Get, events.Load)]
    if any(key in _chain(world, pending) for pending in asked):
        return None
    if key in world.control.in_vain or key in told.restarted or any(_is_marked(world, key)):
        return None
    return f"{key} is loaded, and nobody waits for it"


def _is_marked(world: World, key: str) -> Iterator[bool]:
    for effect in world.manager.steps[-1][2]:
        if isinstance(effect, effects.Note) and effect.kind == "prewarm" and effect.model == key:
            yield True


def guess_takes_what_is_over(world: World, effect: effects.Note) -> str | None:
    """Who leaves for a guess is past its own time: idle, and not expected."""
    if effect.kind not in ("draining", "evicted") or not (effect.reason or "").startswith("room for "):
        return None
    seeker = (effect.reason or "").removeprefix("room for ")
    if not is_guessed_at(world, seeker):
        return None
    told, key = world.manager.told, effect.model or ""
    things = [worker.objects[key] for worker in told.workers.values() if key in worker.objects]
    if told.is_kept(key) or told.expectations.is_due(key) or told.expectations.spans(key) is None:
        return f"{effect}: a guess, and {key} is expected at {told.expectations.spans(key)}"
    if any(world.clock.now < thing.used + SETTLE_S - A_MOMENT_S for thing in things if thing.stage is Stage.READY):
        return f"{effect}: a guess, and {key} was used a moment ago"
    return None


def is_guessed_at(world: World, key: str) -> bool:
    """What room is made for is a model that nobody waits for."""
    told = world.manager.told
    spec = told.spec_of(key)
    if spec is None or told.is_kept(key) or key in world.control.in_vain:
        return False
    asked = [p for p in world.control.by_number.values() if p.kind in (events.Get, events.Load)]
    return not any(key in _chain(world, pending) for pending in asked)


def guesses_are_damped(world: World, effect: effects.Note) -> str | None:
    """Wrong guesses hold no more than the budget of their model."""
    told, key = world.manager.told, effect.model or ""
    spec = told.spec_of(key)
    if spec is None or spec.prewarm.when is not PrewarmWhen.LEARNED:
        return None
    if effect.kind == "prewarm" and told.expectations.left_s(key) <= 0:
        return f"{key} is loaded for a guess, and {told.expectations.left_s(key):.1f} s are left"
    if effect.kind == "not used":
        for guess in _guesses_about(world, key):
            held_s = world.clock.now - guess.begun
            if held_s > max(guess.left_s, 0.0) + LATE_S + A_WHILE_TO_LOAD_S:
                return f"{key} was held in vain for {held_s:.1f} s, and {guess.left_s:.1f} s were left"
    return None


A_WHILE_TO_LOAD_S = 15.0


def _guesses_about(world: World, key: str) -> Iterator[object]:
    for worker in world.manager.told.workers.values():
        thing = worker.objects.get(key)
        if thing is not None and thing.guess is not None:
            yield thing.guess


def wrong_guesses_end(world: World, _: events.Event) -> str | None:
    """If nobody has come when its time is over, it leaves."""
    told, now = world.manager.told, world.clock.now
    for name, worker, thing in unproven(world):
        if thing.stage is not Stage.READY or thing.guess is None or told.stop_deadline is not None:
            continue
        key = next(model for model, other in worker.objects.items() if other is thing)
        if now > max(thing.guess.until, thing.ready_at) + LATE_S and thing.drain is None and not told.is_kept(key):
            return f"{key} in {name} was loaded for a guess, which was wrong at {thing.guess.until:.3f}"
    return None


def unproven(world: World) -> Iterator[tuple[str, ToldWorker, ToldObject]]:
    """What is held for guesses, and nobody has come for yet."""
    for name, worker in world.manager.told.workers.items():
        if worker.stopping:
            continue
        for thing in worker.objects.values():
            if thing.guess is not None and not thing.guess.was_wrong:
                yield name, worker, thing


def only_requests_are_uses(world: World, event: events.Event) -> str | None:
    """What is learned of uses is what was asked for: a guess, a load or looking is none."""
    was, world.uses_seen = world.uses_seen, _uses(world)
    told = world.manager.told
    for key, now in world.uses_seen.items():
        if key not in was or now == was[key]:
            continue
        match event:
            case events.Get(model=name) if told.resolve(name) == key:
                continue
            case events.LeaseBusy(lease=lease) if lease in world.leases and world.leases[lease].model == key:
                continue
            case events.Remembered() | events.Configure() | events.HostFound():
                continue
        if any(isinstance(e, effects.Grant) and e.model == key for e in world.manager.steps[-1][2]):
            continue
        return f"{key} counts as used by {event}: {was[key]} has become {now}"
    return None


def _uses(world: World) -> dict[str, object]:
    if not world.scenario.profile.expects:
        return {}
    return {
        model.key: (model.heat.at, model.heat.count, model.habit and (model.habit.last, len(model.habit.visits)))
        for model in world.manager.core.world.models.values()
    }
