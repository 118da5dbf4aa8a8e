"""What the core is told. Every event comes with a time, given beside it to `Core.handle`.

Times are seconds of one monotonic clock shared by all processes of the machine
(``CLOCK_MONOTONIC``), so a worker's "last used at" means the same to the next manager.
Events about a worker or a request that the core no longer knows are ignored: they crossed
a decision on their way.
"""

from __future__ import annotations

from typing import Any

import msgspec

from .habits import Habit
from .meanings import Compared, Kept
from .monitoring import Past
from .needs import Forecast, Layers
from .records import Waste
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
    sticky: str | None = None
    """Of a name that means several models the same one answers all requests with this key."""


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


class Promote(Event, frozen=True):
    """A name that is no model's own is to mean this model. Answered `Promoted` or refused."""

    request: int
    name: str
    model: str | None
    """Its key; None: what is configured."""


class Rollback(Event, frozen=True):
    """A name is to mean again what it has meant before. Answered `Promoted` or refused."""

    request: int
    name: str


class MeaningsKept(Event, frozen=True):
    """What an earlier manager has kept of names. It comes before the first `Configure`."""

    kept: dict[str, Kept]


class Shadowed(Event, frozen=True):
    """Calls by a name were repeated on its shadow."""

    name: str
    shadow: str
    compared: Compared


class Configure(Event, frozen=True):
    """A new configuration is in force. Models whose spec changed leave when they are idle."""

    config: Config
    pins: frozenset[str] = frozenset()
    """Models pinned by hand; they outlive restarts."""


class DeviceSeen(Event, frozen=True):
    """One sample of a device: it exists, so much of it is used, and so much of that is ours."""

    name: str
    kind: str
    total_bytes: int
    used_bytes: int = 0
    """By everybody."""
    begun: float = 0.0
    """When the sample was begun."""
    held_bytes: dict[str, int] = {}
    """By worker or reservation: what the device shows of them. What it does not show is left out."""
    listed_bytes: int = 0
    """Of processes that the device shows, and that are not ours."""
    alone: bool = False
    """A process can use no other device beside it (an instance of a divided GPU)."""
    uuid: str | None = None
    label: str | None = None
    temperature_c: int | None = None
    power_w: float | None = None


class DeviceLost(Event, frozen=True):
    """The driver has lost a GPU: nothing on it works any more, until it is seen again."""

    name: str
    reason: str


class DriverSilent(Event, frozen=True):
    """The driver has yet to show some or all GPUs, and does not answer: what there are is not known."""

    reason: str | None
    """None: it has answered after all."""


class MemoryPressure(Event, frozen=True):
    """Programs stall because memory is short (the kernel's pressure stall information)."""

    device: str = "ram"


class Reserve(Event, frozen=True):
    """A program that lazyd does not run wants memory. Answered `Reserved` or refused."""

    request: int
    device: str
    bytes: int
    holder: int
    """The client's uid."""
    pid: int = 0
    """The client's process, the parent of the program."""
    deadline: float | None = None
    wait: bool = True
    """False: it is refused if there is no room now."""
    resume: str | None = None
    """A reservation that was held before the manager was restarted."""
    command: str | None = None


class Unreserve(Event, frozen=True):
    """The connection that held a reservation is closed."""

    reservation: str


class LockFiles(Event, frozen=True):
    """The files of a model are to be locked in RAM. Answered `Done` when they are booked, or refused."""

    request: int
    model: str
    files: dict[str, int]
    """Size by ``device:inode``."""


class Stop(Event, frozen=True):
    """Drain calls until `deadline`, answer waiters `ShuttingDown`, free everything."""

    deadline: float


class Memory(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is remembered of when a model is asked for."""

    habit: Habit | None = None
    waste: Waste | None = None
    """What came of guesses."""


class Remembered(Event, frozen=True):
    """What an earlier manager has kept, by the keys of models."""

    memories: dict[str, Memory] = {}
    pasts: dict[str, tuple[str, Past]] = {}
    """With the identity of the spec for which it holds."""
    warmed: dict[str, tuple[str, ...]] = {}
    """See `World.warmed`."""


class Scheduled(Event, frozen=True):
    """By its schedule a model will be needed `at` this time (the core's seconds); None: at no time."""

    model: str
    at: float | None


class Tick(Event, frozen=True):
    """Time has passed: something that `Core.next_deadline` announced is due."""


# What was found out about a model before a load.


class Predicted(Event, frozen=True):
    """Answers the effect `Predict`: what loading needs, for each way in which it can be loaded."""

    model: str
    ways: dict[str, Forecast]
    """``ram`` and ``gpu``, as far as they are possible, and divided ways that were learned."""
    layers: Layers | None = None
    """How it can be divided, if it can."""
    files: dict[str, int] = {}
    """Files that it maps while any of it is in RAM: size by ``device:inode``."""
    number: int = 0
    """Of the question. An answer to another one than the last is late, and does not count."""
    digest: str = ""
    """Of its files' names, sizes and times: what the load teaches is told of these, see `Learn`."""
    absent: bool = False
    """Its files have yet to be fetched: this is what their heads tell, without `ways` if they tell nothing."""


class Unpredictable(Event, frozen=True):
    """Answers the effect `Predict`, or `Fetch`: the model cannot be loaded, its file is missing, say."""

    model: str
    reason: str
    number: int = 0


class Fetching(Event, frozen=True):
    """News of the effect `Fetch`."""

    model: str
    number: int
    fraction: float | None = None


class Fetched(Event, frozen=True):
    """Answers the effect `Fetch`: the files are here."""

    model: str
    number: int


class Renewed(Event, frozen=True):
    """The files that a model was loaded from have changed where they come from; the new ones are here."""

    model: str


# What the host and the workers report.


class ObjectReport(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One loaded or loading object of a worker, as the worker itself tells it."""

    model: str
    state: str
    """``loading``, ``warming``, ``ready``, ``draining``, ``parking`` or ``parked``."""
    since: float
    """When it entered that state."""
    load_s: float | None = None
    """How long it took to become ready; while it is warming, how long the load took."""
    last_used: float | None = None
    parks: bool = False
    """See `ObjectReady`."""
    url: str | None = None
    warmup: str = ""
    """As in `ObjectReady`. Of one beside the calls of others also ``running``, where one of its calls is in
    flight, and in the end ``done`` or ``failed``."""
    warmup_s: float = 0.0
    runtime: str = ""
    problem: str = ""
    """Why its warm-up has failed."""


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
    route: str | None = None
    """The name by which it was asked for, if that is no model's own."""
    revoked: bool = False
    """Its client is told to ask anew."""


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
    calls: int = 0
    """That have ended in it."""


class ReservationReport(msgspec.Struct, frozen=True, kw_only=True):
    """A reservation as the host has kept it for the next manager."""

    id: str
    device: str
    bytes: int
    holder: int
    pid: int = 0
    command: str | None = None


class LockReport(msgspec.Struct, frozen=True, kw_only=True):
    """Files that a host has locked in RAM, or was told to lock once they are read."""

    model: str
    files: dict[str, int]
    """Size by ``device:inode``."""
    locked: bool = True


class HostFound(Event, frozen=True):
    """A host is connected; these are its workers and its locks, and there are no others."""

    workers: tuple[WorkerReport, ...] = ()
    reservations: tuple[ReservationReport, ...] = ()
    locks: tuple[LockReport, ...] = ()


class HostAway(Event, frozen=True):
    """The connection to the host is lost, but it may live: nothing is started until `HostFound` or
    `HostLost` says more."""


class HostLost(Event, frozen=True):
    """The host has died, and all workers with it."""


class FilesLocked(Event, frozen=True):
    """The files of a model have been locked in RAM."""

    model: str


class FilesUnlocked(Event, frozen=True):
    """They are not locked: the effect `UnlockFiles` was carried out, or it could not be done, or did not last."""

    model: str
    reason: str = ""


class WorkerStarted(Event, frozen=True):
    """The process exists."""

    worker: str
    pid: int


class WorkerExited(Event, frozen=True):
    """The process is gone and its cgroup is empty: its RAM is free. What it had on a GPU is free when
    the driver shows it."""

    worker: str
    status: int | None = None
    signal: int | None = None
    log: str = ""
    """The last lines it wrote."""
    out_of_memory: bool = False
    """It ended for want of memory."""


class WorkerMeasured(Event, frozen=True):
    """What a worker holds of RAM. What it holds of a GPU comes with `DeviceSeen`."""

    worker: str
    bytes_by_device: dict[str, int]
    """Anonymous and shared memory."""
    file_bytes: int = 0
    """Its share of the pages of files that it maps."""


class LoadProgress(Event, frozen=True):
    worker: str
    model: str
    phase: str
    fraction: float | None = None


class ObjectWarming(Event, frozen=True):
    """A call of a warm-up begins, or, where `runs` is false, has ended with more of them to come. The first
    one of a synchronous warm-up comes before `ObjectReady`: the load is done."""

    worker: str
    model: str
    call: int
    """From 1 to `calls`."""
    calls: int
    spent_s: float = 0.0
    """In the calls before it."""
    runs: bool = True


class ObjectReady(Event, frozen=True):
    """A load, with its synchronous warm-up, or the way back from being parked, is done."""

    worker: str
    model: str
    parks: bool = False
    """It can give back its device memory and stay."""
    url: str | None = None
    """Where a service is."""
    warmup: str = ""
    """``done``, ``waiting`` (it will be made beside the calls of others), ``known`` (none was made, as there is
    a record of one); empty: it has none."""
    warmup_s: float = 0.0
    """In the calls of its warm-up."""
    runtime: str = ""
    """The version of its runtime."""


class WarmupEnded(Event, frozen=True):
    """A warm-up beside the calls of others has ended, well if there is no `problem`."""

    worker: str
    model: str
    warmup_s: float = 0.0
    runtime: str = ""
    problem: str | None = None
    out_of_memory: bool = False


class ObjectFailed(Event, frozen=True):
    """The load failed inside the worker; the worker itself lives on."""

    worker: str
    model: str
    reason: str
    out_of_memory: bool = False


class ObjectUnloaded(Event, frozen=True):
    worker: str
    model: str


class ObjectParked(Event, frozen=True):
    """Answers `ParkObject`: its device memory is given back."""

    worker: str
    model: str


class ParkFailed(Event, frozen=True):
    """Answers `ParkObject`: it could not; nothing is known of what it holds."""

    worker: str
    model: str
    reason: str


class WorkerUsed(Event, frozen=True):
    """So many calls have ended in a worker: `max_calls` of its spec, or a multiple of that."""

    worker: str
    calls: int


class RanOut(Event, frozen=True):
    """A call has failed for want of memory. The model serves on."""

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
    calls: int = 1
    """Since it was told so last."""
    failed: int = 0
    """Of these, without a result."""


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
