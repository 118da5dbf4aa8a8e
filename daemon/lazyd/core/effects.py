"""What the core wants done. `Core.handle` returns these; the shell carries them out in order.

The core has already changed its own state when it returns them, so an effect cannot fail in
the core's eyes: what goes wrong comes back as an event.
"""

from __future__ import annotations

from typing import Any

import msgspec

from .answers import Outcome
from .events import ReservationReport
from .meanings import Kept
from .monitoring import Past
from .needs import Need
from .spec import Warmup


class Effect(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all effects."""


class Answer(Effect, frozen=True):
    """The one answer to a request."""

    request: int
    outcome: Outcome


class Progress(Effect, frozen=True):
    """News for a request that waits for a load."""

    request: int
    state: str
    phase: str
    fraction: float | None = None


class Predict(Effect, frozen=True):
    """Find out what a load will need. Answered by `Predicted` or `Unpredictable` with the same `number`."""

    model: str
    number: int
    dry_run: bool = False
    """RAM for a dry run of the runtime is booked; otherwise it must do without."""


class Fetch(Effect, frozen=True):
    """Fetch the files of a model. Answered by `Fetching` any number of times, then by `Fetched` or `Unpredictable`."""

    model: str
    number: int
    """Of the `Predict` that has found them absent."""


class StopFetching(Effect, frozen=True):
    """They are not wanted any more, and no answer is."""

    model: str
    number: int


class Sample(Effect, frozen=True):
    """A sample of a device is wanted that is begun after this. Answered by `DeviceSeen`."""

    device: str


class StartWorker(Effect, frozen=True):
    """Start a process. Its memory is booked already.

    `memo` is kept by the host and comes back in `WorkerReport.memo`, so that a later manager
    finds the ledger as it was.
    """

    worker: str
    model: str
    """The key of the spec: a model or a family pattern."""
    devices: tuple[str, ...]
    """GPUs first."""
    memo: dict[str, Any]
    layers: dict[str, int] = {}
    """How many layers go to which device, where it is divided."""


class StopWorker(Effect, frozen=True):
    """End a process: it may close its objects for `grace_s`, then it and all its descendants
    are killed. Answered by `WorkerExited`."""

    worker: str
    grace_s: float


class LoadObject(Effect, frozen=True):
    """Load a model inside a worker. Answered by `ObjectReady`, `ObjectFailed` or the exit.

    `warmup` is a `WarmupMode`, or empty: none. With ``on-demand`` the worker makes none if its runtime is
    one of those in `warmed_by`.
    """

    worker: str
    model: str
    warmup: str = ""
    table: Warmup | None = None
    """Its calls, as they are configured now."""
    warmed_by: tuple[str, ...] = ()


class UnloadObject(Effect, frozen=True):
    """Free one object of a family. Answered by `ObjectUnloaded` or the exit."""

    worker: str
    model: str


class ParkObject(Effect, frozen=True):
    """Have a model give back its device memory. Answered by `ObjectParked`, `ParkFailed` or the exit."""

    worker: str
    model: str


class UnparkObject(Effect, frozen=True):
    """Have a parked model load again. Answered by `ObjectReady`, `ObjectFailed` or the exit."""

    worker: str
    model: str


class Learn(Effect, frozen=True):
    """What a worker really needed is to be kept for the next one."""

    model: str
    """The key of the spec."""
    identity: str
    digest: str
    """Of the files that it was loaded from, see `Predicted`."""
    way: str
    peak: Need
    service: Need | None = None


class WarmedUp(Effect, frozen=True):
    """A warm-up has succeeded: to be kept until the machine is started anew, see `World.warmed`."""

    model: str
    subject: str
    """What was warmed up, see `warmups.subject`."""
    runtime: str


class KeepPast(Effect, frozen=True):
    """How the recent loads of a model went, to be kept for the next manager. It replaces what was kept of it."""

    model: str
    identity: str
    past: Past


class Memorable(Effect, frozen=True):
    """There is something new to be kept for the next manager, see `remembering.take`."""


class Used(Effect, frozen=True):
    """A model was used: asked for at `began` (the core's seconds), and busy for `busy_s` once it was there."""

    model: str
    began: float
    busy_s: float


class KeepReservations(Effect, frozen=True):
    """The reservations that there are now: the host keeps them for the next manager."""

    reservations: tuple[ReservationReport, ...]


class UnlockFiles(Effect, frozen=True):
    """Let go of the files of a model, locked or to be locked. Answered by `FilesUnlocked`."""

    model: str


class Grant(Effect, frozen=True):
    """Tell the worker of a lease. It comes before the `Answer` that hands out the token."""

    worker: str
    model: str
    lease: str
    token: str
    holder: int
    hold_until: float
    parent: str | None
    route: str | None = None
    """The name by which it was asked for, if that is no model's own."""
    shadow: str | None = None
    """The model on which its calls are repeated, see docs/versions.md."""


class Revoke(Effect, frozen=True):
    """The name by which a lease was asked for means another model: when no call is in flight under it, the worker
    tells its client to ask anew. Until then, and if it was never presented, nothing more is admitted under it."""

    worker: str
    lease: str


class Withdraw(Effect, frozen=True):
    """A lease has ended: the worker forgets its token and closes its connection."""

    worker: str
    lease: str


class Drain(Effect, frozen=True):
    """The first half of the hand-shake that frees a model.

    With `finish` the worker admits nothing more and answers `Drained` when the last call has
    ended; without it answers at once, `Drained` or `StillBusy`. A nested call (its lease has a
    parent and was granted after the drain began) is admitted all the same.
    """

    worker: str
    model: str
    drain: int
    finish: bool


class Resume(Effect, frozen=True):
    """Undo a `Drain`: the model serves again."""

    worker: str
    model: str


class SavePins(Effect, frozen=True):
    """Pins are the user's will and outlive restarts."""

    pins: frozenset[str]


class KeepMeanings(Effect, frozen=True):
    """What people have said of names, and what these have meant, outlives restarts. It replaces what was kept."""

    kept: dict[str, Kept]


class Note(Effect, frozen=True):
    """Something happened that a person may want to know."""

    kind: str
    model: str | None = None
    device: str | None = None
    reason: str | None = None
    data: dict[str, Any] = {}
