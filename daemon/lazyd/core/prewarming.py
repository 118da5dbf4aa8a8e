"""Prewarming: a model that is expected is loaded before it is asked for, so that it is hot when it is.

A guess is not a wish. It is made only while nobody waits for room, takes what is free or is held by models past
their own time, and yields to the first request that needs its bytes: its load may be ended, and once
ready it has no quantum. It does not count as use. If nobody has come when the span has ended, the model leaves, and
what it held is taken from its budget of wrong guesses (`guesses.py`); with none left no guess is made.
"""

from __future__ import annotations

from . import crowding, expecting, guesses, parking, plans, replicas, room, samples, seekers, together, uses
from .line import Line
from .placement import Placement
from .records import FOREVER, Guess, Instance, Model, Span
from .spec import Tier
from .world import World


def expect(world: World, model: Model) -> None:
    """A rule about one model: one that is cold and expected is guessed at when its load has to begin."""
    world.guesses.pop(model, None)
    if replicas.is_wanted(world, model):
        world.guesses[model] = Guess(until=FOREVER, expected=world.now, beside=True)
        return
    if model.again_until is not None and comes_again(world, model):
        if model.again_until < FOREVER:
            world.alarms.set(("prewarm", model.key), model.again_until)
        world.guesses[model] = Guess(until=model.again_until, expected=world.now, again=True)
        return
    if not may_be_expected(model):
        return
    span = expecting.next_span(model, world.now)
    if span is None:
        return
    begin = begins(model, span)
    if begin > world.now:
        world.alarms.set(("prewarm", model.key), begin)
        return
    world.alarms.set(("prewarm", model.key), span.end)
    if guesses.affords(model, span.end, world.now) and begin >= away_since(model):
        world.guesses[model] = Guess(until=span.end, expected=span.expected or span.start)


def comes_again(world: World, model: Model) -> bool:
    """It was restarted (`wear.py`), and is loaded again as a guess is: in what is free, and yielding to all others."""
    assert model.again_until is not None
    if model.failures or model.dismissed or model.retired or model.again_until <= world.now:
        model.again_until = None
        return False
    return parking.is_away(world, model) and not model.waiters and not model.stands


def begins(model: Model, span: Span) -> float:
    """When its load has to begin, to be ready when the span does."""
    return max(span.start - expecting.lead_s(model), model.retry_at)


def away_since(model: Model) -> float:
    """Since when it has been cold or parked. What had to leave in the middle of a span is not brought back for it."""
    parked_at = model.instance.parked_at if model.instance is not None else None
    return model.cold_since if parked_at is None else parked_at


def may_be_expected(model: Model) -> bool:
    """It is cold or parked, nobody waits for it, and nobody has said that it should be so."""
    is_away = model.instance is None or parking.is_parked(model)
    if not is_away or model.waiters or model.kept or model.retired or model.failures:
        return False
    if model.spec.tier is Tier.TRANSIENT:
        return False
    return not model.dismissed


def give_way(world: World) -> None:
    """Called before the line is walked along. While somebody waits for room nobody leaves for a guess. Nor does who is
    not past its time: a plan of somebody who has gone does not go on for a guess about the same model."""
    if not world.guesses or not world.plans:
        return
    is_wanted = is_room_wanted(world)
    for model in world.guesses:
        plan = world.plans.get(model.key)
        if plan is not None and (is_wanted or not all(is_past_its_time(world, victim) for victim in plan.victims)):
            plans.drop(world, model)


def make_room(world: World) -> None:
    """Called after the line has been walked along. While somebody waits for room no guess is made."""
    if not world.host_found or world.stopping or is_room_wanted(world):
        return
    for model in list(world.guesses):
        consider(world, model, Line(world))


def is_room_wanted(world: World) -> bool:
    """By a request, a reservation, or files that are to be locked."""
    return bool(world.lock_wishes) or any(seekers.waits(world, seeker) for seeker in world.wanting.values())


def consider(world: World, model: Model, line: Line) -> None:
    """Loads a model into what is free, or what is held by models past their own time."""
    if not seekers.is_known(world, model) or crowding.joins_a_crowd(world, model):
        return
    for group in together.placements(world, model, lambda name: line.headroom(model, name)):
        possible = [placement for placement in group if seekers.never(world, model, placement) is None]
        if not samples.are_fresh(world, dict.fromkeys(name for p in possible for name in p.booking)):
            return
        for placement in possible:
            free = {name: line.headroom(model, name) for name in placement.booking}
            if world.ledger.fits(placement.booking) and room.covers(free, placement.booking):
                plans.drop(world, model)
                begin(world, model, placement)
                return
        if model.key in world.plans:
            return
        spared = [instance for instance in world.instances() if not is_past_its_time(world, instance)]
        if room.plans_for(world, model, possible, line, finish=False, spared=spared):
            return


def is_past_its_time(world: World, instance: Instance) -> bool:
    """It is held although neither it nor what uses it is expected."""
    if not expecting.is_past_its_time(instance, world.now):
        return False
    return all(is_past_its_time(world, user) for user in uses.keepers(world, instance.model))


def begin(world: World, model: Model, placement: Placement) -> None:
    """There is room for it, and for what it uses."""
    guess = world.guesses.pop(model)
    seekers.take(world, model, placement)
    for each, _ in placement.parts_of(model):
        if each.instance is not None:
            each.instance.guess = guess
    if guess.beside:
        world.note("replica", model, "all others are busy")
    elif guess.again:
        world.note("again", model, "it was restarted, and is loaded for whoever comes next")
    elif model.instance is not None:
        world.note("prewarm", model, "it is expected to be asked for", expected_in_s=guess.expected - world.now)
