"""What is remembered of models beyond the life of a manager: habits, guesses, how their loads went.

The shell keeps it in a file, and tells of it once, soon after it has started. Times in a `Memory` are of the core's
clock; the shell turns them to the clock of its day when it reads them.
"""

from __future__ import annotations

from . import warmups
from .events import Memory, Remembered
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
        if model is None or model.key != key or model.habit is not None:
            continue
        model.habit, model.waste = told.habit, told.waste
        moment += SPREAD_S
        world.alarms.set_by(("prewarm", key), moment)
