"""What is remembered of models beyond the life of a manager: habits, guesses, how their loads went.

The shell keeps it in a file, and tells of it once, soon after it has started. Times in a `Memory` are of the core's
clock; the shell turns them to the clock of its day when it reads them.
"""

from __future__ import annotations

from . import warmups
from .events import Memory, Remembered
from .habits import Habit
from .world import World

SPREAD_S = 0.002
"""Looking at a habit takes a moment, and there may be thousands: they are looked at one after the other."""


def take(world: World) -> dict[str, Memory]:
    """Of each model of which something has changed since this was called last."""
    changed, world.memorable = world.memorable, set()
    found = (model for key in changed if (model := world.models.get(key)) is not None)
    return {model.key: Memory(habit=model.habit, waste=model.waste) for model in found}


def remembered(world: World, event: Remembered) -> None:
    """Gives models what is known of them, unless they have learned anew meanwhile."""
    warmups.remembered(world, event.warmed, event.pasts)
    moment = world.now
    for key, told in event.memories.items():
        model = world.find(key)
        if model is None or model.key != key:
            continue
        if model.habit is None or not model.habit.visits:
            model.habit = joined(told.habit, model.habit)
        if model.waste is None:
            model.waste = told.waste
        moment += SPREAD_S
        world.alarms.set_by(("prewarm", key), moment)


def joined(known: Habit | None, seen: Habit | None) -> Habit | None:
    """What is known, and the one visit that was seen before it was told: that of the very request that has started
    this manager, perhaps."""
    if known is None or seen is None or seen.last is None:
        return known or seen
    for at in (seen.began, seen.last):
        known.arrived(at)
    return known
