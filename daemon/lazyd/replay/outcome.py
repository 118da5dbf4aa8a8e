"""What came of a history under one configuration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(slots=True)
class Outcome:
    """`waits_s` has the wait of every use that was served, and `refused` counts the others."""

    uses: int = 0
    cold: int = 0
    """Uses that had to wait for a load."""
    refused: int = 0
    waits_s: list[float] = field(default_factory=list)
    loads: int = 0
    evictions: int = 0
    prewarms: int = 0
    wrong: int = 0
    """Prewarms for which nobody came."""
    held_gib_h: float = 0.0
    """What was booked, over time."""
    span_s: float = 0.0
    """From the first use to the end."""
    cold_at: list[float] = field(default_factory=list)
    """When cold starts began, in seconds since 1970: for plots."""

    @property
    def cold_part(self) -> float:
        """Of all uses."""
        return self.cold / self.uses if self.uses else 0.0

    def wait_s(self, percent: float) -> float:
        """So many percent of those served waited no longer (nearest rank)."""
        return percentile(self.waits_s, percent)


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that so many percent do not exceed; 0 if there are none."""
    if not values:
        return 0.0
    return sorted(values)[max(0, -int(-len(values) * percent // 100) - 1)]
