"""What is really so on the simulated machine, as against what the core believes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lazyd.worker.records import Lease

if TYPE_CHECKING:
    from .worker import SimWorker

FRESH_S = 5.0
"""A lease cannot be revoked for so long before its first call (docs/architecture.md, "Leases")."""


class Violation(AssertionError):
    """An invariant does not hold. `invariant` is its name in `invariants.INVARIANTS`."""

    def __init__(self, invariant: str, detail: str) -> None:
        super().__init__(f"{invariant}: {detail}")
        self.invariant = invariant
        self.detail = detail


@dataclass(slots=True, eq=False)
class LeaseTruth:
    """A lease, from the order to grant it on, whatever becomes of the order."""

    lease: str
    token: str
    model: str
    worker: SimWorker
    holder: int
    granted: float
    """When the core granted it."""
    hold_until: float
    parent: str | None
    known: Lease | None = None
    """As the worker knows it, once the grant has reached it."""
    lost: bool = False
    """The grant never reaches the worker: their connection broke."""
    given_back: bool = False
    """Its owner has released it, or has gone."""

    @property
    def in_flight(self) -> int:
        return self.known.in_flight if self.known is not None and not self.worker.gone else 0

    @property
    def presented(self) -> bool:
        return self.known is not None and self.known.connection is not None

    @property
    def is_over(self) -> bool:
        """The worker knows it no more, or never will."""
        if self.lost or self.worker.gone:
            return True
        return self.known is not None and self.lease not in self.worker.admission.leases

    def is_protected(self, now: float) -> bool:
        """Its model may not be taken away: a call is in flight, or it is fresh, or held."""
        if self.in_flight:
            return True
        if self.given_back or self.is_over:
            return False
        called = self.known is not None and self.known.called
        return now < self.hold_until or (not called and now < self.granted + FRESH_S)
