"""What the rules of a worker are about: leases, objects, drains; and what they want done."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

QUICK_S = 0.002
"""A call that comes so soon after the one before it is one of a quick caller's."""
BURST = 8
"""So many quick calls in a row are a burst."""
MOST_UNTOLD = 1000
"""Of so many calls of a burst the manager is told at the latest."""
FRESH_S = 5.0
"""A lease cannot be revoked for so long before its first call (docs/architecture.md: "The life of a model")."""


@dataclass(eq=False)
class Lease:
    """A client's right to call one model."""

    id: str
    token: str
    model: str
    holder: int
    granted: float
    hold_until: float = 0.0
    parent: str | None = None
    connection: Any = None
    called: bool = False
    in_flight: int = 0
    closing: bool = False
    """Its connection has ended; the calls that were in flight have not yet."""
    route: str | None = None
    """The name by which it was asked for, if that is no model's own."""
    shadow: str | None = None
    """The model on which its calls are repeated."""
    revoked: bool = False
    """That name means another model: its client is told to ask anew."""
    ended: int = 0
    failed: int = 0
    """Calls of which the manager has not heard."""
    idle_since: float = 0.0
    quick: int = 0
    """Calls in a row that were quick."""

    @property
    def named(self) -> str:
        """The model as its holder knows it: ``x:1`` where this worker is ``x#2:1`` (docs/runtimes.md: "replicas")."""
        return re.sub("#[0-9]+", "", self.model)

    @property
    def protected_until(self) -> float:
        """Until when it may not be revoked although no call is in flight: fresh, or held."""
        return self.hold_until if self.called else max(self.hold_until, self.granted + FRESH_S)

    def is_protected(self, now: float) -> bool:
        return self.in_flight > 0 or now < self.protected_until

    @property
    def in_burst(self) -> bool:
        """The next call is likely to come before the manager could make anything of its being idle."""
        return self.quick >= BURST and self.ended < MOST_UNTOLD

    def report(self) -> dict[str, Any]:
        """As `lazyd.core.events.LeaseReport` spells it."""
        return {
            "lease": self.id,
            "token": self.token,
            "model": self.model,
            "holder": self.holder,
            "granted": self.granted,
            "presented": self.connection is not None,
            "called": self.called,
            "inFlight": self.in_flight,
            "holdUntil": self.hold_until,
            "parent": self.parent,
            **({"route": self.route, "revoked": self.revoked} if self.route is not None else {}),
        }


@dataclass(eq=False)
class Drain:
    """A hand-shake under way: it waits, or is done."""

    number: int
    began: float
    done: bool = False


@dataclass(frozen=True)
class Warmth:
    """What has come of an object's warm-up, as `lazyd.core.events.ObjectReport` spells it."""

    warmup: str = ""
    seconds: float = 0.0
    """In its calls."""
    runtime: str = ""
    """Version of the runtime."""
    problem: str = ""


@dataclass(eq=False)
class Object:
    """One model of this worker. `state` is ``loading`` (also on the way back from being parked), ``warming``,
    ``ready``, ``parking``, ``parked`` or ``unloading``."""

    model: str
    state: str
    since: float
    load_s: float | None = None
    last_used: float | None = None
    parks: bool = False
    """It can give back its device memory and stay."""
    url: str | None = None
    """Where a service is."""
    warmth: Warmth = field(default_factory=Warmth)
    drain: Drain | None = None
    leases: dict[str, Lease] = field(default_factory=dict)

    @property
    def in_flight(self) -> int:
        return sum(lease.in_flight for lease in self.leases.values())

    @property
    def shown(self) -> str:
        """The state as a report tells it."""
        return "draining" if self.state == "ready" and self.drain else self.state

    def report(self) -> dict[str, Any]:
        """As `lazyd.core.events.ObjectReport` spells it."""
        return {
            "model": self.model,
            "state": self.shown,
            "since": self.since,
            "loadS": self.load_s,
            "lastUsed": self.last_used,
            "parks": self.parks,
            "url": self.url,
            "warmup": self.warmth.warmup,
            "warmupS": self.warmth.seconds,
            "runtime": self.warmth.runtime,
            "problem": self.warmth.problem,
        }


@dataclass(frozen=True)
class Tell:
    """A message for the manager."""

    message: dict[str, Any]


@dataclass(frozen=True)
class Revoke:
    """Say ``revoked`` on this connection and close it."""

    connection: Any


@dataclass(frozen=True)
class Drop:
    """Close this connection; calls under way on it are cancelled."""

    connection: Any


@dataclass(frozen=True)
class Emptied:
    """No call is in flight any more on an object that is to be unloaded or parked."""

    model: str


Action = object
"""One of `Tell`, `Revoke`, `Drop`, `Emptied`."""
