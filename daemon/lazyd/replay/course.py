"""How a replay went over time: what was held, and cold starts, in steps that people count in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

MOST_STEPS = 240
STEPS_S = (1, 10, 60, 300, 900, 3600, 3 * 3600, 6 * 3600, 86_400, 7 * 86_400, 28 * 86_400)
"""Each is a multiple of the one before it."""


@dataclass(slots=True)
class Course:
    """`start` is in seconds since 1970; each step is `step_s` long."""

    start: float
    step_s: float
    held_byte_s: list[float] = field(default_factory=list)
    cold: list[int] = field(default_factory=list)

    @classmethod
    def between(cls, first: float, last: float) -> Course:
        """An empty one."""
        step_s = step_for(last - first, MOST_STEPS)
        start = first // step_s * step_s
        count = max(1, -int(-(last - start) // step_s))
        return cls(start, step_s, [0.0] * count, [0] * count)

    def hold(self, begin: float, end: float, count: float) -> None:
        """So many bytes were held from `begin` to `end`. What lies outside is left out."""
        at = max(begin, self.start)
        while at < end:
            step = self._step(at)
            if step >= len(self.held_byte_s):
                return
            until = min(end, self.start + (step + 1) * self.step_s)
            if until <= at:  # the next number that a float has is further on
                return
            self.held_byte_s[step] += count * (until - at)
            at = until

    def start_cold(self, when: float) -> None:
        step = self._step(when)
        if 0 <= step < len(self.cold):
            self.cold[step] += 1

    def _step(self, when: float) -> int:
        return int((when - self.start) // self.step_s)

    @property
    def held_bytes(self) -> list[float]:
        """On average, in each step."""
        return [held / self.step_s for held in self.held_byte_s]

    def in_steps(self, most: int) -> Course:
        """The same in at most so many steps."""
        step_s = step_for(self.step_s * len(self.cold), most)
        by = max(1, round(step_s / self.step_s))
        return Course(self.start, by * self.step_s, _added(self.held_byte_s, by), _added(self.cold, by))


def _added(values: Sequence[float], by: int) -> list:  # type: ignore[type-arg]  # of int if they are
    return [sum(values[at : at + by]) for at in range(0, len(values), by)]


def step_for(span_s: float, most: int) -> float:
    """The shortest step of which at most so many make up a span; it begins anywhere in a step."""
    fitting = (step for step in STEPS_S if span_s / step <= most - 1)
    return float(next(fitting, STEPS_S[-1] * max(1, -int(-span_s // (STEPS_S[-1] * max(1, most - 1))))))
