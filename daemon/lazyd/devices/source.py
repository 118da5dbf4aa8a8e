"""The seam between lazyd and whatever tells how much memory a device has."""

from __future__ import annotations

from typing import Protocol

import msgspec


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """One device, seen once."""

    name: str
    """``ram``, ``gpu0``, …"""
    kind: str
    """``host`` or ``cuda``."""
    total_bytes: int
    used_bytes: int
    """By everybody, lazyd's workers among them."""


class Source(Protocol):
    """Something that can be asked for the devices of one kind."""

    def sample(self) -> list[Sample]:
        """Looks at every device now. May block.

        Raises:
            OSError: the devices cannot be seen.
        """
