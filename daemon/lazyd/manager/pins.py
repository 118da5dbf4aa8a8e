"""Pins outlive restarts: a small file in the state directory, replaced as a whole."""

from __future__ import annotations

import asyncio
import logging

import msgspec

from lazyd import places

log = logging.getLogger("lazyd.pins")


def load(state: str) -> frozenset[str]:
    """What is pinned; nothing if the file is missing or damaged, which is logged."""
    path = places.pins_file(state)
    try:
        with open(path, "rb") as file:
            return msgspec.json.decode(file.read(), type=frozenset[str])
    except FileNotFoundError:
        return frozenset()
    except (OSError, msgspec.MsgspecError) as error:
        log.error("%s cannot be read: %s; nothing is pinned, pin again what should be", path, error)
        return frozenset()


def save(state: str, pins: frozenset[str]) -> None:
    """Replaces the file; after it returns the pins outlive a power cut.

    Raises:
        OSError: the disk is full, say. The old file is as it was.
    """
    from lazyd import durable  # a start only reads

    durable.replace(places.pins_file(state), msgspec.json.encode(sorted(pins)))


class PinKeeper:
    """Saves pins in a thread, the latest only. What could not be saved is tried again with the next change."""

    def __init__(self, state: str, pins: frozenset[str]) -> None:
        self._state = state
        self.pins = pins
        self.problem: str | None = None
        """Why the last save failed."""
        self._saving: asyncio.Task[None] | None = None
        self._saved = pins

    def keep(self, pins: frozenset[str]) -> None:
        self.pins = pins
        if self._saving is None:
            self._saving = asyncio.create_task(self._save(), name="pins")

    async def settled(self) -> None:
        """Waits until the pins are on the disk, or `problem` says why they are not."""
        while self._saving is not None:
            await asyncio.shield(self._saving)

    async def _save(self) -> None:
        try:
            while self._saved != self.pins:
                pins = self.pins
                try:
                    await asyncio.to_thread(save, self._state, pins)
                except OSError as error:
                    self.problem = f"pins could not be kept in {self._state}: {error.strerror}"
                    log.error(self.problem)
                    if pins == self.pins:
                        return
                else:
                    self._saved = pins
            self.problem = None
        finally:
            self._saving = None
