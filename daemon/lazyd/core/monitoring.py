"""How the recent loads and warm-ups of a model went, and whether its warm-up has to be synchronous.

A load is *slow* if it took `load_slow_above` times the median of those before, of which at least
`ENOUGH` are known. A model whose warm-up is made in mode ``async`` or ``on-demand`` falls back to
``sync`` when a load was slow, or when a warm-up has failed and with it more than `fail_above` of the
recent ones: then it serves only when it is loaded and warmed up. It has recovered when `RECOVERED` loads
in a row were not slow and their warm-ups succeeded; what happened before is not held against it then.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from .middle import median
from .wording import duration

T = TypeVar("T")

KEPT = 20
"""So many loads and warm-ups are recent."""
ENOUGH = 3
"""So many loads must be known before another one can be called slow."""
RECOVERED = 3
"""So many good loads in a row end a fallback."""


class Past(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """What is remembered of a model's loads; small, as there may be 10,000."""

    loads_s: tuple[float, ...] = ()
    """Until the weights were there; a warm-up is not counted, nor the way back from being parked."""
    warmups_s: tuple[float, ...] = ()
    """Of those that succeeded: the time in their calls."""
    outcomes: tuple[bool, ...] = ()
    """Of warm-ups: whether they succeeded."""
    fell_back: str | None = None
    """Why its warm-ups are to be synchronous."""
    good: int = 0
    """Loads in a row that went well since it fell back."""

    @property
    def success(self) -> float | None:
        """The part of the recent warm-ups that succeeded; None: there was none."""
        return sum(self.outcomes) / len(self.outcomes) if self.outcomes else None


NOTHING = Past()


def loaded(past: Past, seconds: float) -> Past:
    """A load has ended well."""
    return msgspec.structs.replace(past, loads_s=recent(past.loads_s, seconds))


def warmed(past: Past, seconds: float) -> Past:
    """A warm-up has succeeded."""
    return msgspec.structs.replace(
        past, warmups_s=recent(past.warmups_s, seconds), outcomes=recent(past.outcomes, True)
    )


def warmup_failed(past: Past) -> Past:
    """A warm-up has failed."""
    return msgspec.structs.replace(past, outcomes=recent(past.outcomes, False))


def slow(past: Past, seconds: float, above: float) -> str | None:
    """Why a load that took so long, after those in `past`, was slow; None: it was not."""
    if len(past.loads_s) < ENOUGH or seconds <= above * (usual := median(past.loads_s)):
        return None
    return f"a load took {duration(seconds)}, more than {above:g} times the usual {duration(usual)}"


def unreliable(past: Past, above: float) -> str | None:
    """Why warm-ups, the last of which has failed, cannot be relied on; None: they can."""
    failures = len(past.outcomes) - sum(past.outcomes)
    if not past.outcomes or failures <= above * len(past.outcomes):
        return None
    return f"{failures} of the last {len(past.outcomes)} warm-ups failed, and {above:.0%} may (warmup.fail_above)"


def went_wrong(past: Past, reason: str | None) -> Past:
    """A load failed or was slow, or its warm-up failed. `reason`: that is enough to fall back."""
    return msgspec.structs.replace(past, fell_back=past.fell_back or reason, good=0)


def went_well(past: Past) -> Past:
    """A load was not slow, and its warm-up, if there was one, succeeded. Counts while it has fallen back."""
    if past.fell_back is None:
        return past
    if past.good + 1 >= RECOVERED:
        return msgspec.structs.replace(past, fell_back=None, good=0, outcomes=past.outcomes[-RECOVERED:])
    return msgspec.structs.replace(past, good=past.good + 1)


def middle(seconds: tuple[float, ...]) -> float | None:
    """The median; None: nothing is known."""
    return median(seconds) if seconds else None


def p95(seconds: tuple[float, ...]) -> float | None:
    """What 95 % of them did not exceed (nearest rank); None: nothing is known."""
    return sorted(seconds)[-(-len(seconds) * 95 // 100) - 1] if seconds else None


def recent(kept: tuple[T, ...], new: T) -> tuple[T, ...]:
    return (*kept[1 - KEPT :], new)
