"""What each device has, and who holds it.

A device is data: ``gpu0``, ``ram``, or the places of a family (``slots:strategy/*``, counted in
objects, not bytes). Holders are workers, or, for places, instances. A booking over several
devices is one transaction.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

HOST = "host"
CUDA = "cuda"
SLOTS = "slots"

Booking = Mapping[str, int]
"""Bytes (or places) by device."""


@dataclass(slots=True)
class Device:
    """One device. Sizes are bytes, for places a number of objects."""

    name: str
    kind: str
    total_bytes: int
    budget_bytes: int
    margin_bytes: int = 0
    foreign_bytes: int = 0
    booked_bytes: int = 0
    samples_over: int = 0
    """So many samples in a row found it over its limit."""

    @property
    def limit_bytes(self) -> int:
        """What lazyd's bookings may reach: its budget, or what strangers and the margin leave."""
        return min(self.budget_bytes, self.total_bytes - self.margin_bytes - self.foreign_bytes)

    @property
    def free_bytes(self) -> int:
        """What could be booked now; negative while growth or strangers make it exceed."""
        return self.limit_bytes - self.booked_bytes


@dataclass(slots=True)
class Ledger:
    """All devices and all bookings. Only `book`, `rebook` and `release` change what is booked."""

    devices: dict[str, Device] = field(default_factory=dict)
    bookings: dict[str, dict[str, int]] = field(default_factory=dict)
    """By holder."""

    def fits(self, booking: Booking) -> bool:
        """Whether every part of a booking is free now."""
        return all(name in self.devices and self.devices[name].free_bytes >= n for name, n in booking.items() if n)

    def book(self, holder: str, booking: Booking) -> None:
        """Books all parts at once. The caller has decided that they fit, or that they must be held."""
        assert holder not in self.bookings, f"{holder} is booked already"
        self.bookings[holder] = dict(booking)
        self._add(booking, 1)

    def rebook(self, holder: str, booking: Booking) -> None:
        """Replaces what a holder has, after a measurement, say."""
        self.release(holder)
        self.book(holder, booking)

    def release(self, holder: str) -> None:
        """Gives back all that a holder has. Unknown holders hold nothing."""
        self._add(self.bookings.pop(holder, {}), -1)

    def held(self, holder: str) -> dict[str, int]:
        return self.bookings.get(holder, {})

    def _add(self, booking: Booking, sign: int) -> None:
        for name, n in booking.items():
            if name in self.devices:
                self.devices[name].booked_bytes += sign * n

    def add_device(self, device: Device) -> None:
        """Adds a device or replaces one of the same name; what is booked on it stays booked."""
        device.booked_bytes = sum(booking.get(device.name, 0) for booking in self.bookings.values())
        self.devices[device.name] = device
