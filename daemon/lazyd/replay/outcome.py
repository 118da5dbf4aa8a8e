"""What came of a history under one configuration."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from .course import Course


@dataclass(slots=True)
class Outcome:
    """Every use was served or refused: `waits_s` has the wait of each that was served."""

    uses: int = 0
    cold: int = 0
    """Uses that had to wait for a load."""
    degraded: int = 0
    """Of those served: by a fallback, a model or a value."""
    refusals: dict[str, int] = field(default_factory=dict)
    """How many were refused, by the name of the error."""
    waits_s: list[float] = field(default_factory=list)
    loads: int = 0
    evictions: int = 0
    prewarms: int = 0
    wrong: int = 0
    """Prewarms for which nobody came."""
    held_byte_s: dict[str, float] = field(default_factory=dict)
    """What was booked, over time, by device."""
    most_bytes: dict[str, int] = field(default_factory=dict)
    """The most that was booked at once, by device."""
    span_s: float = 0.0
    """From the first use to the end."""
    course: Course = field(default_factory=lambda: Course(0.0, 1.0))

    @property
    def refused(self) -> int:
        return sum(self.refusals.values())

    @property
    def cold_part(self) -> float:
        """Of all uses."""
        return self.cold / self.uses if self.uses else 0.0

    @property
    def held_gib_h(self) -> float:
        """On all devices."""
        return sum(self.held_byte_s.values()) / (1 << 30) / 3600

    def wait_s(self, percent: float) -> float:
        """So many percent of those served waited no longer (nearest rank)."""
        return percentile(self.waits_s, percent)

    def refuse(self, name: str) -> None:
        self.refusals[name] = self.refusals.get(name, 0) + 1


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that so many percent do not exceed; 0 if there are none."""
    if not values:
        return 0.0
    return sorted(values)[max(0, -int(-len(values) * percent // 100) - 1)]
