"""What a model uses: models that its calls call, as its spec says (`uses`; docs/configuration.md).

They are admitted together or not at all (`together.py`). Afterwards what is used is kept as long as its user: it is
idle no sooner, and no plan takes it away while its user loads or is in use, unless somebody has waited for too long.
A circle is refused by the configuration.
"""

from __future__ import annotations

from collections.abc import Iterator

from .lifecycle import LOADS, State
from .records import Instance, Model
from .world import World


def used_by(world: World, user: Model) -> list[Model]:
    """All that it uses, also by way of others. What is used comes before what uses it."""
    found: dict[Model, None] = {}
    open_ends = [user]
    while open_ends:
        model = open_ends[-1]
        used = [each for name in model.spec.uses if (each := world.find(name)) is not None]
        if all(each in found for each in used):
            found[open_ends.pop()] = None
        else:
            open_ends += [each for each in reversed(used) if each not in found]
    del found[user]
    return list(found)


def users(world: World, used: Model) -> Iterator[Instance]:
    """What is in memory and uses it."""
    for key in world.users.get(used.key, ()):
        spec = world.specs[key]
        if not spec.is_family:
            user = world.models.get(key)
            if user is not None and user.instance is not None:
                yield user.instance
        elif (worker := world.family_worker(spec)) is not None:
            yield from worker.instances.values()


def needed_until(world: World, used: Model) -> float:
    """Until when a user is in use, and may call it; infinity while one loads."""
    return max(
        (float("inf") if user.state in LOADS else user.protected_until for user in users(world, used)), default=0.0
    )


def keepers(world: World, used: Model) -> list[Instance]:
    """The users that are there, or will be, and so keep it."""
    return [user for user in users(world, used) if user.state in LOADS or user.state is State.READY]


def is_wanted_with(world: World, used: Model) -> bool:
    """One that uses it stands in the line for room, or is expected."""
    if used.key not in world.users:
        return False
    seekers = [*world.wanting.values(), *world.guesses]
    return any(isinstance(seeker, Model) and used in used_by(world, seeker) for seeker in seekers)
