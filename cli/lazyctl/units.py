"""Sizes and times in the units people use, both ways.

Sizes are binary (``GiB``), as everywhere in lazyd; times are seconds.
"""

from __future__ import annotations

import math
import re
import time

_SIZES = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_BYTES: dict[str, int] = {
    **{unit: 1024**power for power, unit in enumerate(_SIZES)},
    **{unit: 1000**power for power, unit in enumerate(("kB", "MB", "GB", "TB"), 1)},
}
_LEAST_PLAIN = 1024**2
"""A plain number below this lacks its unit."""
_MOST = 2**53
"""What every reader of JSON can still count; no machine has as much."""
_SECONDS = {"ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_PART = re.compile(r"(\d+(?:\.\d+)?|\.\d+)\s*([A-Za-zµ]*)", re.ASCII)


def size(count: float) -> str:
    """``1.2 GiB``: at most four digits, a fraction only where it tells something."""
    value = float(count)
    for unit in _SIZES:
        if abs(value) < 999.5 or unit == _SIZES[-1]:
            break
        value /= 1024
    if value == 0 or unit == "B" or abs(value) >= 99.95:
        return f"{value:.0f} {unit}"
    return f"{value:.1f} {unit}"


def duration(seconds: float) -> str:
    """``3 h 12 min``: the two largest units, or ``0.61 s`` where that is short."""
    if seconds < 0:
        return f"-{duration(-seconds)}"
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms" if seconds < 0.0995 else f"{seconds:.2f} s"
    if seconds < 59.5:
        return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"
    whole = round(seconds)
    for large, small, ratio, unit in (("min", "s", 60, 1), ("h", "min", 60, 60), ("d", "h", 24, 3600)):
        count, rest = divmod(round(whole / unit), ratio)
        if large == "d" or count < (60 if large == "min" else 24):
            return f"{count} {large} {rest} {small}" if rest else f"{count} {large}"
    raise AssertionError(seconds)


def clock(when: float, now: float | None = None) -> str:
    """A time of day, here: ``09:35:00``; with its day if that is another one: ``Dec 3, 09:35:00``."""
    there, here = time.localtime(when), time.localtime(now)
    today = there[:3] == here[:3]
    return time.strftime("%H:%M:%S" if today else "%b %d, %H:%M:%S", there)


def about(seconds: float) -> str:
    """``3 h``: one unit, for a column."""
    if seconds < 59.5:
        return f"{seconds:.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    if seconds < 36 * 3600:
        return f"{seconds / 3600:.0f} h"
    return f"{seconds / 86400:.0f} d"


def seconds_of(text: str) -> float:
    """Seconds of ``30s``, ``2min``, ``1h 30min``, ``250ms`` or a plain number.

    The units are the configuration's (``lazyd.config.quantities``); only there a bare number is refused.

    Raises:
        ValueError: with a line that says what would have been right.
    """
    parts = _PART.findall(text)
    seconds = [float(number) * _SECONDS.get(unit or "s", math.nan) for number, unit in parts]
    plain = len(parts) > 1 and not all(unit for _, unit in parts)
    if not seconds or plain or math.isnan(sum(seconds)) or _PART.sub("", text).strip():
        raise ValueError(
            f"{text!r} is not a time: write 30s, 2min, 1h30min or plain seconds (units: {', '.join(_SECONDS)})"
        )
    return sum(seconds)


def bytes_of(text: str) -> int:
    """Bytes of ``8GiB``, ``700MiB``, ``20GB`` or a plain number of them.

    Raises:
        ValueError: with a line that says what would have been right.
    """
    found = _PART.fullmatch(text.strip())
    if not found or (found[2] and found[2] not in _BYTES):
        raise ValueError(f"{text!r} is not a size: write 8GiB, 700MiB or plain bytes (units: {', '.join(_BYTES)})")
    count: float = float(found[1]) * _BYTES[found[2] or "B"]
    if not found[2] and count < _LEAST_PLAIN:
        raise ValueError(f"{text!r} would be {count:.0f} bytes: write it with its unit, as {found[1]}GiB")
    if count < 1:
        raise ValueError(f"{text!r} is nothing at all: write a size above 0, as 8GiB")
    if count > _MOST:
        raise ValueError(f"{text!r} is larger than any device: write a size such as 8GiB")
    return round(count)
