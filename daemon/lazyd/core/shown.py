"""The shapes in which things are shown: those of `io.lazyd.varlink`, name for name."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec


class Shown(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Base of what is shown; absent optional fields are left out."""


class Quarantined(Shown, frozen=True, kw_only=True):
    """What a worker left on a device."""

    model: str
    pid: int | None = None
    bytes: int


class Stranger(Shown, frozen=True, kw_only=True):
    """A process of others on a GPU."""

    pid: int
    bytes: int
    name: str | None = None


class Device(Shown, frozen=True):
    name: str
    kind: str
    total_bytes: int
    budget_bytes: int
    margin_bytes: int
    booked_bytes: int
    foreign_bytes: int
    quarantined_bytes: int
    free_bytes: int
    reserved_bytes: int
    """The part of what is booked that reservations hold."""
    state: str
    """``ok``, ``lost`` (the driver has lost it) or ``silent`` (the driver does not answer)."""
    quarantined: Sequence[Quarantined] | None = None
    strangers: Sequence[Stranger] | None = None
    """The largest, as far as the driver shows them."""
    uuid: str | None = None
    label: str | None = None
    temperature_c: int | None = None
    power_w: float | None = None


class Reservation(Shown, frozen=True):
    id: str
    device: str
    bytes: int
    pid: int
    command: str | None = None


class Wish(Shown, frozen=True, kw_only=True):
    """A reservation that its client waits for."""

    device: str
    bytes: int
    pid: int
    command: str | None = None
    waited_sec: float
    why: Sequence[str]
    """What keeps it waiting."""


class Worker(Shown, frozen=True):
    id: str
    pid: int
    devices: list[str]
    booked_bytes: dict[str, int]
    measured_bytes: dict[str, int]
    in_flight: int
    uptime_sec: float


class Model(Shown, frozen=True, kw_only=True, gc=False):  # no cycles, and there may be 10,000
    name: str
    version: str
    aliases: Sequence[str]
    runtime: str
    tier: str
    state: str
    residency: str
    phase: str | None = None
    """What its load is about, while it loads."""
    fraction: float | None = None
    """How much of that is done, where it is known."""
    warmup: str
    pinned: bool
    source: str
    family: str | None = None
    workers: Sequence[Worker]
    booked_bytes: dict[str, int]
    measured_bytes: dict[str, int]
    devices: Sequence[str]
    """Where it is, GPUs first."""
    why: Sequence[str] | None = None
    """Why it is where it is; only where that was asked for."""
    cached_fraction: float | None = None
    """Of its files, in the page cache."""
    locked_bytes: int | None = None
    """Of its files, locked in RAM."""
    leases: int
    in_flight: int
    waiting: int
    idle_sec: float | None = None
    idle_timeout_sec: float | None = None
    loads: int
    evictions: int
    last_load_sec: float | None = None
    expected_load_sec: float | None = None
    load_median_sec: float | None = None
    """Of the recent loads, warm-ups not counted."""
    load_p95_sec: float | None = None
    warmup_median_sec: float | None = None
    warmup_p95_sec: float | None = None
    warmup_success: float | None = None
    """The part of the recent warm-ups that succeeded."""
    fell_back: str | None = None
    """Why its warm-ups are synchronous although another mode is configured."""
    expected_use: float | None = None
    """When it is asked for next, as its habit or its schedule says; seconds since 1970."""
    expected_use_within_sec: float | None = None
    """How far from that it may be."""
    retry_after_sec: float | None = None
    last_error: str | None = None


class ModelCounts(msgspec.Struct, frozen=True, kw_only=True):
    """What is counted per model, for metrics."""

    state: str
    loads: int
    evictions: int
    leases: int
    in_flight: int
    waiting: int
    last_load_s: float | None
    load_median_s: float | None
    load_p95_s: float | None
    warmup_median_s: float | None
    warmup_p95_s: float | None
    warmup_success: float | None
    fell_back: float
    calls: int = 0
    """That have ended."""
    calls_failed: int = 0
