"""Keeps a small thing in the state directory: saved in a thread whenever it changes, the latest only."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")

log = logging.getLogger("lazyd.state")


class Keeper(Generic[T]):
    """What could not be saved is tried again with the next change. `save` blocks, and raises `OSError`."""

    def __init__(self, what: str, state: str, kept: T, save: Callable[[str, T], None]) -> None:
        """`what`: how people are told of it, as ``pins``."""
        self.kept = kept
        self.problem: str | None = None
        """Why the last save failed."""
        self._what = what
        self._state = state
        self._save = save
        self._saving: asyncio.Task[None] | None = None
        self._saved = kept

    def keep(self, new: T) -> None:
        self.kept = new
        if self._saving is None:
            self._saving = asyncio.create_task(self._work(), name=self._what)

    async def settled(self) -> None:
        """Waits until it is on the disk, or `problem` says why it is not."""
        while self._saving is not None:
            await asyncio.shield(self._saving)

    async def _work(self) -> None:
        try:
            while self._saved != self.kept:
                new = self.kept
                try:
                    await asyncio.to_thread(self._save, self._state, new)
                except OSError as error:
                    self.problem = f"{self._what} could not be kept in {self._state}: {error.strerror}"
                    log.error(self.problem)
                    if new == self.kept:
                        return
                else:
                    self._saved = new
            self.problem = None
        finally:
            self._saving = None
