"""What is really so on the simulated machine, as against what the core believes."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .clock import Future, Process

if TYPE_CHECKING:
    from .worker import SimWorker

FRESH_S = 5.0
"""A lease cannot be revoked for so long before its first call (ARCHITECTURE, "Loads and leases")."""


class Violation(AssertionError):
    """An invariant does not hold. `invariant` is its name in `invariants.INVARIANTS`."""

    def __init__(self, invariant: str, detail: str) -> None:
        super().__init__(f"{invariant}: {detail}")
        self.invariant = invariant
        self.detail = detail


class Stage(enum.Enum):
    """Where an object of a worker is in its life."""

    LOADING = "loading"
    READY = "ready"
    DRAINING = "draining"
    DRAINED = "drained"
    UNLOADING = "unloading"


@dataclass(slots=True, eq=False)
class ObjectTruth:
    """One loaded or loading model inside a worker."""

    model: str
    stage: Stage
    since: float
    load_s: float | None = None
    last_used: float | None = None
    in_flight: int = 0
    drain: int = 0
    drained_from: int = 0
    """The order number of the drain: leases granted after it are newer than it."""
    is_stuck: bool = False


@dataclass(slots=True, eq=False)
class LeaseTruth:
    """A lease, from the order to grant it on. With a connection, it is the connection."""

    lease: str
    token: str
    model: str
    worker: SimWorker
    holder: int
    granted: float
    hold_until: float
    parent: str | None
    order: int = 0
    """Counts what the worker was told, so that grants and drains can be compared."""
    reached: bool = False
    """The worker knows of it."""
    lost: bool = False
    """The manager died while the grant was on its way."""
    presented: bool = False
    called: bool = False
    given_back: bool = False
    ended: bool = False
    in_flight: int = 0
    received: float = 0.0
    calls: list[tuple[Process, Future]] = field(default_factory=list)

    def is_fresh(self, now: float) -> bool:
        """Granted, not used yet, and not given up by its owner."""
        return not (self.called or self.given_back or self.ended or self.lost) and now < self.granted + FRESH_S

    def is_held(self, now: float) -> bool:
        return not (self.given_back or self.ended or self.lost) and now < self.hold_until
