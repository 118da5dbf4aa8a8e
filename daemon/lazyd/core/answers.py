"""How a request can end. A refusal's name and fields are those of the varlink error of that name."""

from __future__ import annotations

from typing import Any

import msgspec


class Outcome(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of all outcomes."""


class Granted(Outcome, frozen=True):
    """A lease on a ready model. Presenting `token` at the worker's socket makes it a connection."""

    lease: str
    token: str
    model: str
    """The name without the version."""
    version: str
    worker: str
    endpoint: str | None
    """The path of the worker's data socket, where an earlier manager had told it."""
    cold_start: bool
    waited_s: float
    degraded: str | None = None
    """Why it is not the model that was asked for."""
    url: str | None = None
    """Where a service is."""
    takes_turns: bool = False
    """The name means several models: the next call asks anew."""


class Substituted(Outcome, frozen=True):
    """The fallback value of a model that cannot be had in time. There is no lease."""

    model: str
    """The name without the version."""
    version: str
    degraded: str
    waited_s: float
    value: Any = None


class Loaded(Outcome, frozen=True):
    """The model is ready."""

    state: str
    load_s: float


class Unloaded(Outcome, frozen=True):
    """These were freed, and their bytes are back."""

    unloaded: tuple[str, ...]


class Reserved(Outcome, frozen=True):
    """The memory is the client's, as long as its connection lasts."""

    reservation: str
    uuid: str | None = None
    """Of the GPU."""


class Promoted(Outcome, frozen=True):
    """A name means this model from now on."""

    name: str
    model: str
    before: str
    """What it has meant."""
    answers: str
    """What answers until that is ready."""


class Done(Outcome, frozen=True):
    """It is so now."""


class Refusal(Outcome, frozen=True):
    """Base of all refusals."""


class ModelNotFound(Refusal, frozen=True):
    model: str
    nearest: str | None = None


class LoadFailed(Refusal, frozen=True):
    model: str
    reason: str
    retry_after_sec: float


class NoRoom(Refusal, frozen=True):
    model: str
    device: str
    needed_bytes: int
    free_bytes: int
    reason: str
    remedy: str | None = None
    """What to do, if that is not to try later."""


class Timeout(Refusal, frozen=True):
    model: str
    phase: str
    timeout_sec: float
    reason: str | None = None
    """What it waited for."""
    expected_sec: float | None = None
    """How long the load will take still, or take once there is room: as measured, or by its progress."""


class Busy(Refusal, frozen=True):
    model: str
    in_flight: int
    reason: str | None = None
    """What keeps it, if that is no call."""


class Cancelled(Refusal, frozen=True):
    model: str


class NoSuchLease(Refusal, frozen=True):
    lease: str


class WorkerDied(Refusal, frozen=True):
    model: str
    exit_status: int | None = None
    signal: int | None = None
    log: str = ""


class PermissionDenied(Refusal, frozen=True):
    method: str
    role: str


class ShuttingDown(Refusal, frozen=True):
    pass
