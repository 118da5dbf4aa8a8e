"""Checks of what happens when memory runs out, and that it does not where lazyd could have known."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from .memory import RAM
from .pages import LOCKED_FILES

if TYPE_CHECKING:
    from .world import World


def memory_does_not_run_out(world: World, owner: str, device: str) -> str | None:
    """An owner needs more of a device than there is: somebody must have taken what was not his.

    That may be a worker that needs more than was predicted, a program that takes more than was reserved, or
    strangers that came after the last admission. If it was none of these, the core has given away what it had not.
    """
    memory = world.memory[device]
    has = {**memory.by_owner(), owner: memory.refused}
    given = given_away(world, device)
    is_right = all(n <= given[name] for name, n in has.items() if name in given)
    strange = memory.strange + sum(n for name, n in has.items() if name not in given)
    if not world.scenario.profile.polite and not (is_right and strange <= world.strange_then.get(device, -1)):
        return None
    holds = f"{memory.held} of {device} are held, {memory.residues} on their way back"
    return f"{owner} needs {memory.refused}: {holds}, {given} given, strangers {strange} of {memory.total}"


def given_away(world: World, device: str) -> dict[str, int]:
    """What the core has decided to give of a device, by owner; to those who have ended until it has seen it free."""
    books, core = world.manager.told.books, world.manager.core.world
    awaited = {name: entry for name, entry in books.ended.items() if device in core.ledger.held(name)}
    given = {**books.entries, **awaited}
    found = {name: entry.granted[device] for name, entry in given.items() if device in entry.granted}
    found |= {name: held.bytes for name, held in books.reserved.items() if held.device == device}
    if device == RAM:
        found[LOCKED_FILES] = sum({f: n for lock in books.locks.values() for f, n in lock.files.items()}.values())
    return found


def note_admission(world: World, devices: Iterable[str]) -> None:
    """Remembers what was strange about devices when something was admitted to them."""
    for device in devices:
        look = world.manager.sampler.last[device][-1]
        world.strange_then[device] = look.unbooked(given_away(world, device))
