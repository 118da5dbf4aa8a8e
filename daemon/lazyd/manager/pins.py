"""Pins outlive restarts: a small file in the state directory, replaced as a whole."""

from __future__ import annotations

import logging

import msgspec

from lazyd import places

from .state.keeper import Keeper

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


class PinKeeper(Keeper[frozenset[str]]):
    """Keeps what is pinned."""

    def __init__(self, state: str, pins: frozenset[str]) -> None:
        super().__init__("pins", state, pins, lambda where, what: save(where, what))

    @property
    def pins(self) -> frozenset[str]:
        return self.kept
