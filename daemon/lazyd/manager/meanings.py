"""Promotions outlive restarts: a small file in the state directory, replaced as a whole.

Times stand there as seconds since 1970; the core has its own clock.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping

import msgspec

from lazyd import places
from lazyd.core.meanings import Kept

from .epoch import epoch
from .state.keeper import Keeper

log = logging.getLogger("lazyd.meanings")

Meanings = Mapping[str, Kept]
"""By name."""


def load(state: str) -> dict[str, Kept]:
    """What was kept, in the core's seconds. A damaged file is kept beside, and logged: then names mean what is
    configured."""
    path = places.meanings_file(state)
    try:
        with open(path, "rb") as file:
            return shifted(msgspec.json.decode(file.read(), type=dict[str, Kept]), -epoch())
    except FileNotFoundError:
        return {}
    except (OSError, msgspec.MsgspecError) as error:
        log.error("%s cannot be read: %s; names mean what is configured, promote again what should be", path, error)
        set_aside(path)
        return {}


def set_aside(path: str) -> None:
    """What is damaged is not written over."""
    try:
        os.replace(path, f"{path}.damaged")
    except OSError as error:
        log.error("%s stays where it is: %s", path, error)


def save(state: str, kept: Meanings) -> None:
    """Replaces the file; after it returns, what is in it outlives a power cut.

    Raises:
        OSError: the disk is full, say. The old file is as it was.
    """
    from lazyd import durable  # a start only reads

    durable.replace(places.meanings_file(state), msgspec.json.encode(shifted(kept, epoch())))


def shifted(kept: Meanings, seconds: float) -> dict[str, Kept]:
    """The same with other times."""
    replace = msgspec.structs.replace
    return {
        name: replace(
            known,
            history=tuple(
                meant if meant.at is None else replace(meant, at=meant.at + seconds) for meant in known.history
            ),
        )
        for name, known in kept.items()
    }


def promoted(kept: Meanings) -> frozenset[str]:
    """The versions that names mean by a person's will."""
    return frozenset(known.promoted for known in kept.values() if known.promoted is not None)


class MeaningsKeeper(Keeper[Meanings]):
    """Keeps what people have said of names."""

    def __init__(self, state: str, kept: Meanings) -> None:
        super().__init__("promotions", state, kept, lambda where, what: save(where, what))
