"""The seam between lazyd and whatever tells how much memory a device has."""

from __future__ import annotations

from typing import Protocol

import msgspec

HOST = "host"
CUDA = "cuda"


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """One device, seen once."""

    name: str
    """``ram``, ``gpu0``, …"""
    kind: str
    """`HOST` or `CUDA`."""
    total_bytes: int
    """That programs can have: without what a driver has set aside for itself."""
    used_bytes: int
    """By everybody, lazyd's workers among them."""
    begun: float = 0.0
    """When it was begun: what happens after this moment it may miss. ``CLOCK_MONOTONIC``."""
    processes: dict[int, int] = {}
    """Bytes by process id, of the processes of which the device tells it."""
    alone: bool = False
    """A process can use no other device beside it."""
    uuid: str | None = None
    """What ``CUDA_VISIBLE_DEVICES`` calls it."""
    label: str | None = None
    """What its maker calls it."""
    temperature_c: int | None = None
    power_w: float | None = None


class DeviceGone(Exception):
    """A device does not work any more, until it is seen again. `str` says why."""


class Source(Protocol):
    """Something that can be asked for the devices of one kind. All of it may block, in several threads at once."""

    def names(self) -> list[str]:
        """The devices that there are now. A name means the same device as long as this process lives.

        Raises:
            OSError: they cannot be found out.
        """

    def sample(self, name: str) -> Sample:
        """Looks at one of them now.

        Raises:
            DeviceGone: it was there and is so no more.
            OSError: no answer; the next one may be better.
        """
