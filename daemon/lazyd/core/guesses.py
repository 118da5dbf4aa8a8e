"""What comes of guesses, by which models are loaded before they are asked for, and what wrong ones may cost.

A model has a budget of seconds in which it may be held in vain: a cold start's worth at first. A guess that comes
true earns another one's, a wrong one spends what it held, and an empty budget fills again in a day. So a habit
that has ended is given up after a few wrong guesses, and tried again the next day.
"""

from __future__ import annotations

from .expecting import PRICE_S
from .lifecycle import SERVES
from .records import Instance, Model, Waste
from .spec import PrewarmWhen
from .world import World

MOST_STARTS = 2
"""A budget holds at most so many cold starts' worth."""
REFILL_S = 86_400.0
"""An empty budget is full again after so long."""


def affords(model: Model, until: float, now: float) -> bool:
    """Whether it may be held in vain until then. A schedule was written down, and is no guess."""
    if model.spec.prewarm.when is PrewarmWhen.SCHEDULE:
        return True
    return until - now <= left_s(model, now)


def left_s(model: Model, now: float) -> float:
    """What is left of its budget."""
    if model.waste is None:
        return PRICE_S
    refilled = model.waste.left_s + PRICE_S * max(0.0, now - model.waste.at) / REFILL_S
    return min(refilled, max(PRICE_S, model.waste.left_s))


def is_unproven(instance: Instance) -> bool:
    """It was loaded for a guess, and nobody has come yet."""
    return instance.guess is not None


def came_true(instance: Instance, now: float) -> None:
    """Somebody has come."""
    model = instance.model
    if instance.guess is not None:
        if not (instance.guess.again or instance.guess.beside):
            settle(model, min(MOST_STARTS * PRICE_S, left_s(model, now) + PRICE_S), now)
        instance.guess = None


def was_wrong(world: World, instance: Instance) -> None:
    """It leaves because its time is over, and nobody has come. Time in which it was pinned is not the guess's."""
    model, guess = instance.model, instance.guess
    if guess is None or guess.again or guess.beside or instance.state not in SERVES:
        return
    held_s = min(world.now, guess.until) - instance.load_started
    waste = settle(model, max(0.0, left_s(model, world.now) - held_s), world.now)
    waste.wrong += 1
    instance.guess = None
    world.remember(model)
    world.note("not used", model, "it was expected, and nobody has asked for it", wrong_guesses=waste.wrong)


def settle(model: Model, left: float, now: float) -> Waste:
    """What is left from now on."""
    if model.waste is None:
        model.waste = Waste()
    model.waste.left_s, model.waste.at = left, now
    model.waste.guesses += 1
    return model.waste
