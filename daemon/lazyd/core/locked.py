"""What is locked in RAM, and what would come back of it: looked up here, decided in `locks`."""

from __future__ import annotations

import enum
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .world import World


class Stage(enum.StrEnum):
    """How far a lock has come."""

    WANTED = "wanted"
    BOOKED = "booked"
    HELD = "held"
    LEAVING = "leaving"


@dataclass(slots=True, eq=False)
class Lock:
    """The files of one model, in RAM until they are let go of."""

    model: str
    files: dict[str, int]
    """Size by ``device:inode``."""
    asked: float
    stage: Stage = Stage.WANTED
    request: int | None = None
    """Who waits to hear whether there is room."""
    since: float | None = None
    """When they were locked: in samples that were begun before, their pages count as free."""

    @property
    def holder(self) -> str:
        """Its name on the ledger; no worker is called so."""
        return f"lock {self.model}"

    @property
    def bytes(self) -> int:
        return sum(self.files.values())

    @property
    def stands(self) -> bool:
        """It is booked, and nobody has asked it to leave."""
        return self.stage in (Stage.BOOKED, Stage.HELD)


def freed_by(world: World, lock: Lock, spared: Collection[str] = ()) -> int:
    """What comes back of RAM once it has left: not what a worker maps or another holds, nor the `spared` files."""
    mapped = world.ledger.mapped
    return sum(n for file, n in lock.files.items() if mapped.get(file) == 1 and file not in spared)


def leaving_bytes(world: World) -> int:
    """What is on its way to be free."""
    return sum(freed_by(world, lock) for lock in world.locks.values() if lock.stage is Stage.LEAVING)


def could_free(world: World) -> int:
    """What of RAM would come back if all of them left."""
    return sum(freed_by(world, lock) for lock in world.locks.values() if lock.stands)


def shown_bytes(world: World, begun: float) -> int:
    """What a sample that was begun then shows of locked files: the kernel counts them as used, unlike other files."""
    files: dict[str, int] = {}
    for lock in world.locks.values():
        if lock.since is not None and lock.since <= begun:
            files.update(lock.files)
    return sum(files.values())
