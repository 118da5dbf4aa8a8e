"""Checks of what happens when memory runs out, and that it does not where lazyd could have known."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .worker import SimWorker
    from .world import World


def memory_does_not_run_out(world: World, worker: SimWorker, device: str) -> str | None:
    """A worker has needed more of a device than there was: somebody has taken what was not his.

    That may be a worker that needs more than was predicted, or a stranger that came after the last
    admission. If it was neither, the core has given away what it did not have.
    """
    profile = world.scenario.profile
    is_excused = profile.wrong > 1.0 or profile.leaks or profile.programs_lie or not profile.polite
    if is_excused:
        return None
    memory, books = world.memory[device], world.manager.told.books
    booked, strange = books.booked(device), memory.strange
    return f"{worker} has run out of {device}: {booked} are booked, strangers have {strange}, of {memory.total}"
