"""What is remembered of names beside their configuration: what a person has said of them, and what they have meant."""

from __future__ import annotations

import msgspec

CONFIGURED = "configured"
PROMOTED = "promoted"
ROLLED_BACK = "rolled back"


class Meant(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A name has meant a model from then on."""

    model: str
    """Its key."""
    at: float | None = None
    """The core's seconds, or, where it is kept, seconds since 1970; None: not known."""
    how: str = CONFIGURED


class Kept(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What outlives the manager of one name."""

    promoted: str | None = None
    """What it means by a person's will, whatever is configured."""
    history: tuple[Meant, ...] = ()
    """The newest last."""


class Compared(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Calls that were repeated on a shadow, since the manager was started."""

    equal: int = 0
    different: int = 0
    failed: int = 0
    """The shadow's call has failed, and the other had not."""
    skipped: int = 0
    """They were not repeated: the shadow was not ready, or too many were under way."""

    def plus(self, other: Compared) -> Compared:
        return Compared(
            equal=self.equal + other.equal,
            different=self.different + other.different,
            failed=self.failed + other.failed,
            skipped=self.skipped + other.skipped,
        )
