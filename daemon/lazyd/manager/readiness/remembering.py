"""What is remembered of models from one manager to the next, for the loop (see `state.clerk`)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from lazyd.core.effects import KeepPast, Memorable, WarmedUp
from lazyd.core.events import Event, Memory

from ..epoch import epoch
from ..state.clerk import Clerk
from ..tasks import Background

if TYPE_CHECKING:
    from .memories import Memories, Row  # noqa: F401  # in quotes below

GATHER_S = 30.0
"""Habits change with every use: they are written together, so long after the first change."""
BOOT_ID = "/proc/sys/kernel/random/boot_id"


class Remembering(Clerk["Memories", "Row"]):
    """`take` gives the habits that have changed since it was called last; `tell` tells the core."""

    def __init__(
        self,
        path: str,
        background: Background,
        note: Callable[[str], None],
        take: Callable[[], dict[str, Memory]],
        tell: Callable[[Event], None],
    ) -> None:
        super().__init__("what is remembered", lambda: _memories(path), background, note)
        self._is_there = os.path.exists(path)  # else nothing is begun for it
        self._take = take
        self._say = tell
        self._timer: asyncio.TimerHandle | None = None
        self._is_told = False

    async def recall(self) -> None:
        """Tells the core what is kept; nothing, if the disk does not answer."""
        known = (await self.ask(lambda memories: memories.remembered()))[0] if self._is_there else None
        if known is not None:
            by_s = epoch()
            memories = {key: later(memory, -by_s) for key, memory in known.memories.items()}
            self._say(msgspec.structs.replace(known, memories=memories))
        self._is_told = True

    def keep_past(self, effect: KeepPast) -> None:
        from .memories import OfPast

        self.keep(OfPast(effect.model, effect.identity, effect.past))

    def warmed_up(self, effect: WarmedUp) -> None:
        from .memories import OfWarmup

        self.keep(OfWarmup(effect.subject, effect.runtime))

    def gather(self, _: Memorable) -> None:
        """Habits have changed."""
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(GATHER_S, self.sweep)

    def sweep(self) -> None:
        """Keeps what has changed. Habits that were not told of yet would be written over, and wait."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._is_told:
            return
        from .memories import OfHabit

        by_s = epoch()
        for key, memory in self._take().items():
            self.keep(OfHabit(key, later(memory, by_s)))


def later(memory: Memory, by_s: float) -> Memory:
    """The same by a clock that shows `by_s` more."""
    copy = msgspec.json.decode(msgspec.json.encode(memory), type=Memory)
    if copy.habit is not None and copy.habit.last is not None:
        copy.habit.resumed(copy.habit.last + by_s)
    if copy.waste is not None:
        copy.waste.at += by_s
    return copy


def _memories(path: str) -> Memories:
    from .memories import Memories  # with the module of SQLite, which a start need not import

    with open(BOOT_ID) as file:
        boot = file.read().strip()
    return Memories(path, boot)
