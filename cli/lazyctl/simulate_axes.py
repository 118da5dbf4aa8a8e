"""Axes of plots: round numbers, and times that people count in."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

_ROUND = (1, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10)
_SECONDS = (1, 2, 5, 10, 15, 30)
_MINUTES = (1, 2, 5, 10, 15, 30)
_HOURS = (1, 2, 3, 6, 12)
_DAYS = (1, 2, 7, 14, 28, 91, 364, 3640)
_STEPS_S = (
    *_SECONDS,
    *(60 * minutes for minutes in _MINUTES),
    *(3600 * hours for hours in _HOURS),
    *(86_400 * days for days in _DAYS),
)
_DAY_S = 86_400


def round_above(value: float) -> float:
    """The next round number."""
    if value <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(value))
    return next((power * digit for digit in _ROUND if power * digit >= value * 0.9999), 10 * power)


def whole_above(value: float) -> float:
    """The same for what is counted."""
    return float(max(1, math.ceil(round_above(value))))


def bytes_axis(counts: Iterable[float]) -> tuple[float, str]:
    """By what to divide bytes, and what the quotients are: ``GiB`` or ``MiB``."""
    most = max(counts, default=0.0)
    return (float(1 << 30), "GiB") if most >= (1 << 30) or not most else (float(1 << 20), "MiB")


def ticks(start: float, end: float, most: int) -> Sequence[tuple[float, str]]:
    """Moments of local time between both, in seconds since 1970, with labels; at most so many."""
    step_s = next((step for step in _STEPS_S if (end - start) / step <= most), _STEPS_S[-1])
    found: list[tuple[float, str]] = []
    at = datetime.fromtimestamp(start).replace(hour=0, minute=0, second=0, microsecond=0)
    if step_s < _DAY_S:
        at += timedelta(seconds=step_s * max(0, math.floor((start - at.timestamp()) / step_s) - 1))
    while (moment := at.timestamp()) <= end:
        if moment >= start:
            found.append((moment, _label(at, step_s)))
        at += timedelta(seconds=step_s)
    return found[:most]


def _label(at: datetime, step_s: float) -> str:
    if step_s >= _DAY_S or (at.hour, at.minute, at.second) == (0, 0, 0):
        return f"{at:%b} {at.day}" if step_s < 364 * _DAY_S else f"{at:%Y}"
    return f"{at:%H:%M}" if step_s >= 60 else f"{at:%H:%M:%S}"


def step_name(step_s: float) -> str:
    """``hour``, ``15 min``: how long a step is, as in *cold starts per hour*."""
    for unit_s, name in ((7 * _DAY_S, "week"), (_DAY_S, "day"), (3600, "hour"), (60, "minute"), (1, "second")):
        count = round(step_s / unit_s)
        if step_s >= unit_s and abs(count * unit_s - step_s) < 1e-6:
            return name if count == 1 else f"{count} {name}s"
    return f"{step_s:g} seconds"
