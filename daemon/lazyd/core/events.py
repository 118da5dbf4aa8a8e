"""What the core is told. Every event comes with a time, given beside it to `Core.handle`.

Times are seconds of one monotonic clock shared by all processes of the machine
(``CLOCK_MONOTONIC``), so a worker's "last used at" means the same to the next manager.
Events about a worker or a request that the core no longer knows are ignored: they crossed
a decision on their way.
"""

from __future__ import annotations

from typing import Any

import msgspec

from .spec import Config


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all events."""


# What clients ask. `request` is a number that the caller chooses; it is answered by exactly
# one `Answer` effect. `deadline` is absolute; None: `first_call_timeout_s` while the model loads.


class Get(Event, frozen=True):
    """A lease on a loaded model is wanted. Answered `Granted` or refused."""

    request: int
    model: str
    holder: int
    """The client's uid: only it may release the lease."""
    deadline: float | None = None
    hold_s: float = 0.0
    parent: str | None = None
    """The lease under which a worker itself asks."""
    lease: str | None = None
    """An earlier lease, claimed again after a restart of the manager."""


class Load(Event, frozen=True):
    """The model is to be loaded; no lease is wanted. Answered `Loaded` or refused."""

    request: int
    model: str
    deadline: float | None = None


class Unload(Event, frozen=True):
    """Models are to be freed. Answered `Unloaded`, or refused with `Busy`.

    `models` names them; else `all` or `idle` chooses among what is loaded, leaving pinned and
    resident ones alone unless `force`. `deadline` ends the drain; force ends calls at once.
    """

    request: int
    deadline: float
    models: tuple[str, ...] = ()
    all: bool = False
    idle: bool = False
    force: bool = False


class Cancel(Event, frozen=True):
    """The client has gone: its request needs no answer any more (and gets none)."""

    request: int


class Release(Event, frozen=True):
    """A lease is given back. Answered `Done`, `NoSuchLease`, or `WorkerDied` (for 60 s)."""

    request: int
    lease: str
    holder: int


class Pin(Event, frozen=True):
    """Answered `Done` or refused."""

    request: int
    model: str
    pinned: bool


class Configure(Event, frozen=True):
    """A new configuration is in force. Models whose spec changed leave when they are idle."""

    config: Config
    pins: frozenset[str] = frozenset()
    """Models pinned by hand; they outlive restarts."""


class DeviceSeen(Event, frozen=True):
    """A device exists, or was sampled anew."""

    name: str
    kind: str
    total_bytes: int
    foreign_bytes: int = 0
    """Used by others than lazyd's workers."""


class Stop(Event, frozen=True):
    """Drain calls until `deadline`, answer waiters `ShuttingDown`, free everything."""

    deadline: float


class Tick(Event, frozen=True):
    """Time has passed: something that `Core.next_deadline` announced is due."""


# What was found out about a model before a load.


class Predicted(Event, frozen=True):
    """Answers the effect `Predict`: what loading needs, per kind of device."""

    model: str
    bytes_by_kind: dict[str, int]
    """For example ``{"host": 268435456}``."""
    source: str = "file size"


class Unpredictable(Event, frozen=True):
    """Answers the effect `Predict`: the model cannot be loaded, its file is missing, say."""

    model: str
    reason: str


# What the host and the workers report.


class ObjectReport(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One loaded or loading object of a worker, as the worker itself tells it."""

    model: str
    state: str
    """``loading``, ``ready`` or ``draining``."""
    since: float
    """When it entered that state."""
    load_s: float | None = None
    last_used: float | None = None


class LeaseReport(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One lease that a worker knows."""

    lease: str
    token: str
    model: str
    holder: int
    granted: float
    presented: bool = False
    called: bool = False
    """At least one call was made under it."""
    in_flight: int = 0
    hold_until: float = 0.0
    parent: str | None = None


class WorkerReport(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One worker found alive by a new manager. `memo` is what `StartWorker` gave the host."""

    worker: str
    pid: int
    started: float
    endpoint: str
    memo: dict[str, Any]
    objects: tuple[ObjectReport, ...] = ()
    leases: tuple[LeaseReport, ...] = ()
    measured_bytes: dict[str, int] = {}


class HostFound(Event, frozen=True):
    """A host is connected; these are its workers, and there are no others."""

    workers: tuple[WorkerReport, ...] = ()


class HostAway(Event, frozen=True):
    """The connection to the host is lost, but it may live: nothing is started until `HostFound` or
    `HostLost` says more."""


class HostLost(Event, frozen=True):
    """The host has died, and all workers with it."""


class WorkerStarted(Event, frozen=True):
    """The process exists."""

    worker: str
    pid: int


class WorkerExited(Event, frozen=True):
    """The process is gone and its cgroup is empty: its bytes are free."""

    worker: str
    status: int | None = None
    signal: int | None = None
    log: str = ""
    """The last lines it wrote."""


class WorkerMeasured(Event, frozen=True):
    worker: str
    bytes_by_device: dict[str, int]


class LoadProgress(Event, frozen=True):
    worker: str
    model: str
    phase: str
    fraction: float | None = None


class ObjectReady(Event, frozen=True):
    worker: str
    model: str


class ObjectFailed(Event, frozen=True):
    """The load failed inside the worker; the worker itself lives on."""

    worker: str
    model: str
    reason: str


class ObjectUnloaded(Event, frozen=True):
    worker: str
    model: str


class LeasePresented(Event, frozen=True):
    """A data connection has shown the token: from now on the connection is the lease."""

    worker: str
    lease: str


class LeaseClosed(Event, frozen=True):
    """The data connection has ended."""

    worker: str
    lease: str


class LeaseBusy(Event, frozen=True):
    """The number of calls in flight under a lease went from 0 to 1."""

    worker: str
    lease: str


class LeaseIdle(Event, frozen=True):
    """The number of calls in flight under a lease went from 1 to 0."""

    worker: str
    lease: str


class Drained(Event, frozen=True):
    """Answers the effect `Drain` number `drain`: nothing is in flight, nothing more is admitted."""

    worker: str
    model: str
    drain: int


class StillBusy(Event, frozen=True):
    """Answers a `Drain` that was not to wait: something is in flight, all goes on as before."""

    worker: str
    model: str
    drain: int
