"""The daemon's replies, as types: plain dicts that look as io.lazyd.varlink says.

Field names are the interface's own. What is optional there may be missing here or be None.
"""

from __future__ import annotations

from typing import Any, TypedDict


class _Device(TypedDict):
    name: str
    kind: str
    totalBytes: int
    budgetBytes: int
    marginBytes: int
    bookedBytes: int
    foreignBytes: int
    quarantinedBytes: int
    freeBytes: int
    reservedBytes: int
    state: str


class Device(_Device, total=False):
    """Memory of one kind: a GPU's, or the machine's."""

    uuid: str | None
    label: str | None
    temperatureC: int | None
    powerW: float | None


class Worker(TypedDict):
    """A process that holds a model."""

    id: str
    pid: int
    devices: list[str]
    bookedBytes: dict[str, int]
    measuredBytes: dict[str, int]
    inFlight: int
    uptimeSec: float


class _Model(TypedDict):
    name: str
    version: str
    aliases: list[str]
    runtime: str
    tier: str
    state: str
    residency: str
    warmup: str
    pinned: bool
    source: str
    workers: list[Worker]
    devices: list[str]
    bookedBytes: dict[str, int]
    measuredBytes: dict[str, int]
    leases: int
    inFlight: int
    waiting: int
    loads: int
    evictions: int


class ModelStatus(_Model, total=False):
    """What is known of a model, without touching it."""

    family: str | None
    cachedFraction: float | None
    idleSec: float | None
    idleTimeoutSec: float | None
    lastLoadSec: float | None
    expectedLoadSec: float | None
    loadMedianSec: float | None
    loadP95Sec: float | None
    warmupMedianSec: float | None
    warmupP95Sec: float | None
    warmupSuccess: float | None
    fellBack: str | None
    expectedUse: float | None
    expectedUseWithinSec: float | None
    retryAfterSec: float | None
    lastError: str | None
    why: list[str] | None


class _Reservation(TypedDict):
    id: str
    device: str
    bytes: int
    pid: int


class Reservation(_Reservation, total=False):
    """Memory kept for a program that the daemon does not run."""

    command: str | None


class _Daemon(TypedDict):
    version: str
    pid: int
    uptimeSec: float
    state: str


class Daemon(_Daemon, total=False):
    """The daemon itself."""

    problems: list[str] | None
    warnings: list[str] | None


class Status(TypedDict):
    """The reply of ``Status``."""

    schema: int
    daemon: Daemon
    devices: list[Device]
    models: list[ModelStatus]
    reservations: list[Reservation]


class Health(TypedDict):
    """The reply of ``Health``."""

    status: str
    live: bool
    ready: bool
    models: dict[str, str]


class Description(TypedDict):
    """The reply of ``Describe``."""

    model: ModelStatus
    spec: dict[str, Any]
    metadata: dict[str, Any]
    prediction: dict[str, Any]


class _Event(TypedDict):
    seq: int
    time: float
    kind: str
    data: dict[str, Any]
    dropped: int


class Event(_Event, total=False):
    """One reply of ``Subscribe``."""

    model: str | None
    device: str | None
    reason: str | None


class _LoadStep(TypedDict):
    state: str
    phase: str


class LoadStep(_LoadStep, total=False):
    """One reply of ``Load``; the last one has `loadSec`."""

    fraction: float | None
    loadSec: float | None


class _Grant(TypedDict):
    model: str
    version: str
    coldStart: bool
    waitedSec: float


class Grant(_Grant, total=False):
    """The reply of ``Get``: a lease, or a fallback value without one."""

    lease: str | None
    endpoint: str | None
    token: str | None
    url: str | None
    degraded: str | None
    value: Any
    takesTurns: bool


class _Version(TypedDict):
    model: str
    state: str
    answers: bool
    calls: int
    failed: int


class Version(_Version, total=False):
    """One model that a name means, or could."""

    weight: int | None
    shadow: bool
    equal: int | None
    different: int | None
    shadowFailed: int | None
    skipped: int | None
    lastError: str | None


class _Meant(TypedDict):
    model: str
    how: str


class Meant(_Meant, total=False):
    """What a name has meant from then on (seconds since 1970, where that is known)."""

    at: float | None


class _Named(TypedDict):
    name: str
    means: str
    answers: str
    alias: bool
    promoted: bool
    versions: list[Version]
    history: list[Meant]


class Named(_Named, total=False):
    """One name of the reply of ``Versions``."""

    since: float | None


class Promoted(TypedDict):
    """The reply of ``Promote`` and ``Rollback``."""

    model: str
    before: str
    answers: str


class _Reloaded(TypedDict):
    added: list[str]
    changed: list[str]
    removed: list[str]


class Reloaded(_Reloaded, total=False):
    """The reply of ``Reload``: what is different now."""

    warnings: list[str] | None


class _Reserved(TypedDict):
    reservation: str


class Reserved(_Reserved, total=False):
    """The reply of ``Reserve``."""

    uuid: str | None


class Info(TypedDict):
    """The reply of ``org.varlink.service.GetInfo``."""

    vendor: str
    product: str
    version: str
    url: str
    interfaces: list[str]
