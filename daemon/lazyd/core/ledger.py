"""What each device has, and who holds it.

A device is data: ``gpu0``, ``ram``, or the places of a family (``slots:strategy/*``, counted in
objects, not bytes). Holders are workers, reservations, or, for places, instances. A booking over
several devices is one transaction. Pages of a file are booked on ``ram`` once, however many workers
map it, and as long as one of them does.

What strangers use is known only between bounds, as measurements arrive late (`strangers.py`).
Admissions count on the upper one, `foreign_bytes`; who is sent away for strangers, or refused
because of them, on the lower one, `sure_foreign_bytes`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

HOST = "host"
CUDA = "cuda"
SLOTS = "slots"
RAM = "ram"

FRESH_S = 1.0
"""A sample older than this says nothing about strangers any more."""
SLOW_S = 2.0
"""Nor does one that took longer than this."""
SILENT_S = 0.5
"""A driver that was asked for a sample, and has not answered for so long, is not waited for."""

Booking = Mapping[str, int]
"""Bytes (or places) by device."""


def dry_run_of(model: str, number: int) -> str:
    """The holder of the RAM for a runtime's dry run, on the ledger: of this question about a model."""
    return f"dry run {number} of {model}"


def slots_of(family: str) -> str:
    """The name of the device whose places a family's objects take."""
    return f"{SLOTS}:{family}"


@dataclass(slots=True, eq=False)
class Quarantined:
    """What a worker held of a device when it ended, and the driver has not shown to be free. It is
    part of what is foreign now."""

    worker: str
    model: str
    pid: int | None
    bytes: int


@dataclass(slots=True)
class Device:
    """One device. Sizes are bytes, for places a number of objects."""

    name: str
    kind: str
    total_bytes: int
    budget_bytes: int
    margin_bytes: int = 0
    booked_bytes: int = 0
    foreign_bytes: int = 0
    """At most so much is used by strangers."""
    sure_foreign_bytes: int = 0
    """At least so much is: the less of what the last two samples found."""
    lows: list[tuple[float, int]] = field(default_factory=list)
    """When samples found at least so much, those that say what has been there for long: see `strangers`."""
    lasting_foreign_bytes: int = 0
    """At least so much has been used by strangers for longer than a driver takes to show what is free."""
    baseline_bytes: int = 0
    """What is used by nobody that the driver shows, while nothing of ours is hidden or on its way back."""
    quarantine: list[Quarantined] = field(default_factory=list)
    sampled: float = float("-inf")
    """When the last sample was begun."""
    told: float = float("-inf")
    """When it came."""
    released: float = float("-inf")
    """When a booking was last given back: what was seen before that says nothing about it."""
    asked: float | None = None
    """Since when a sample is awaited."""
    lost: str | None = None
    """Why nothing works on it any more."""
    alone: bool = False
    """A process that uses it can use no other."""
    uuid: str | None = None
    label: str | None = None
    temperature_c: int | None = None
    power_w: float | None = None

    @property
    def lower_bytes(self) -> int:
        """What the last sample alone found that strangers use at least."""
        return self.lows[-1][1] if self.lows else 0

    @property
    def ceiling_bytes(self) -> int:
        """What bookings may reach if there are no strangers."""
        return min(self.budget_bytes, self.total_bytes - self.margin_bytes)

    @property
    def limit_bytes(self) -> int:
        """What bookings may reach: the budget, or what strangers and the margin leave."""
        return min(self.budget_bytes, self.total_bytes - self.margin_bytes - self.foreign_bytes)

    @property
    def sure_limit_bytes(self) -> int:
        """What they could reach at best: no more than this, as strangers are known to use the rest."""
        return min(self.budget_bytes, self.total_bytes - self.margin_bytes - self.sure_foreign_bytes)

    @property
    def lasting_limit_bytes(self) -> int:
        """What they could reach at best for a while: strangers who have been there for long stay."""
        return min(self.budget_bytes, self.total_bytes - self.margin_bytes - self.lasting_foreign_bytes)

    @property
    def free_bytes(self) -> int:
        """What could be booked now; negative while growth or strangers make it exceed."""
        return self.limit_bytes - self.booked_bytes

    @property
    def excess_bytes(self) -> int:
        """How much more is booked than can stay, if positive."""
        return self.booked_bytes - self.sure_limit_bytes

    @property
    def quarantined_bytes(self) -> int:
        return sum(lost.bytes for lost in self.quarantine)

    def is_fresh(self, now: float) -> bool:
        """Its last sample may be built on: it was begun after the last booking was given back, and came of late.

        A booking that was added since makes it no less true: the new holder had nothing yet. What is lost
        has nothing to give.
        """
        if self.kind == SLOTS:
            return True
        is_news = self.sampled >= self.released and self.told - self.sampled <= SLOW_S
        return self.lost is None and is_news and now - self.told <= FRESH_S

    def is_silent(self, now: float) -> bool:
        """Its driver does not answer."""
        return self.asked is not None and now >= self.asked + SILENT_S


@dataclass(slots=True)
class Ledger:
    """All devices and all bookings. Only the methods here change what is booked."""

    devices: dict[str, Device] = field(default_factory=dict)
    bookings: dict[str, dict[str, int]] = field(default_factory=dict)
    """By holder."""
    files: dict[str, dict[str, int]] = field(default_factory=dict)
    """By holder: the size of each file that it maps."""
    mapped: dict[str, int] = field(default_factory=dict)
    """By file: how many holders map it."""
    file_bytes: int = 0
    """Of all files that are mapped: booked on ``ram``, though the kernel counts them as free."""
    changed: set[str] = field(default_factory=set)
    """Holders whose end gives back something else than before, for `eviction` to look at."""

    def fits(self, booking: Booking) -> bool:
        """Whether every part of a booking is free now."""
        return all(name in self.devices and self.devices[name].free_bytes >= n for name, n in booking.items() if n)

    def free(self, names: Iterable[str]) -> dict[str, int]:
        """What could still be booked now, by device."""
        return {name: self.devices[name].free_bytes for name in names if name in self.devices}

    def book(self, holder: str, booking: Booking, files: Booking | None = None) -> None:
        """Books all parts at once. The caller has decided that they fit, or that they must be held."""
        assert holder not in self.bookings, f"{holder} is booked already"
        self.bookings[holder] = dict(booking)
        self.changed.add(holder)
        self._add(booking, 1)
        for file, size in (files or {}).items():
            self.files.setdefault(holder, {})[file] = size
            self.mapped[file] = self.mapped.get(file, 0) + 1
            self._note_sharing(file)
            if self.mapped[file] == 1:
                self.file_bytes += size
                self._add({RAM: size}, 1)

    def rebook(self, holder: str, booking: Booking, now: float) -> None:
        """Replaces what a holder has, after a measurement, say. The files that it maps stay. What is given
        back was free at `now`."""
        before = self.bookings[holder]
        self.bookings[holder] = dict(booking)
        self.changed.add(holder)
        self._add(booking, 1)
        self._add(before, -1)
        self._note_release([name for name, n in before.items() if n > booking.get(name, 0)], now)

    def release(self, holder: str, now: float) -> None:
        """Gives back all that a holder has. Unknown holders hold nothing."""
        if holder in self.bookings:
            self.rebook(holder, {}, now)
            self.unmap(holder, now)
            del self.bookings[holder]

    def unmap(self, holder: str, now: float) -> None:
        """A holder maps no file any more."""
        self.changed.add(holder)
        for file, size in self.files.pop(holder, {}).items():
            self.mapped[file] -= 1
            self._note_sharing(file)
            if not self.mapped[file]:
                del self.mapped[file]
                self.file_bytes -= size
                self._add({RAM: size}, -1)
                self._note_release([RAM], now)

    def held(self, holder: str) -> dict[str, int]:
        """What a holder has, without the files that it maps."""
        return self.bookings.get(holder, {})

    def freed_by(self, holder: str) -> dict[str, int]:
        """What the end of a holder gives back: with the files that nobody else maps."""
        freed = dict(self.held(holder))
        for file, size in self.files.get(holder, {}).items():
            if self.mapped[file] == 1:
                freed[RAM] = freed.get(RAM, 0) + size
        return freed

    def files_of(self, holders: Iterable[str]) -> dict[str, int]:
        """The files that any of these holders maps, each once."""
        return {file: size for holder in holders for file, size in self.files.get(holder, {}).items()}

    def unmapped(self, files: Booking) -> int:
        """The bytes of those files that nobody maps yet."""
        return sum(size for file, size in files.items() if file not in self.mapped)

    def _add(self, booking: Booking, sign: int) -> None:
        for name, n in booking.items():
            if name in self.devices:
                self.devices[name].booked_bytes += sign * n

    def _note_sharing(self, file: str) -> None:
        """So many map a file that others may be the last one, or not any more."""
        self.changed.update(holder for holder, files in self.files.items() if file in files)

    def _note_release(self, names: list[str], now: float) -> None:
        for name in names:
            if name in self.devices:
                self.devices[name].released = max(now, self.devices[name].released)

    def add_device(self, device: Device) -> None:
        """Adds a device; what is booked on it already stays booked."""
        device.booked_bytes = sum(booking.get(device.name, 0) for booking in self.bookings.values())
        if device.name == RAM:
            device.booked_bytes += self.file_bytes
        self.devices[device.name] = device
