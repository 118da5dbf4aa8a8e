"""Durations, sizes, fractions and factors as people write them: ``"10min"``, ``"700MiB"``, ``"80%"``, ``"3x"``.

A quantity without a unit is refused: a bare 10 has been read as seconds, minutes and
milliseconds by different programs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from .problems import Fault, Wrong, choose, quoted

DURATION_UNITS = {"ms": 0.001, "s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
SIZE_UNITS = {
    "B": 1,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "TiB": 2**40,
    "kB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
}
MAX_DURATION_S = 3650 * 86400.0
MAX_SIZE = 2**50
MAX_FACTOR = 1000.0

_PART = re.compile(r"\s*(\d{1,18}(?:\.\d{1,9})?)\s*([A-Za-zµ%]*)", re.ASCII)


def parse_duration(text: str) -> float:
    """Seconds of ``"90s"``, ``"1h 30min"``, ``"250ms"``. Raises `Wrong`."""
    total = 0.0
    for number, unit in _parts(text, "a duration", "10min"):
        if unit not in DURATION_UNITS:
            raise _unit_wrong(text, number, unit, DURATION_UNITS, "a duration", "s")
        total += float(number) * DURATION_UNITS[unit]
    if total > MAX_DURATION_S:
        raise Wrong(Fault(f"{quoted(text)} is longer than ten years", "write a shorter one"))
    return total


def parse_size(text: str) -> int:
    """Bytes of ``"700MiB"``, ``"1.5GiB"``, ``"2GB"``. Raises `Wrong`."""
    parts = _parts(text, "a size", "700MiB")
    number, unit = parts[0]
    if len(parts) > 1:
        raise Wrong(Fault(f"{quoted(text)} is not a size", 'write one number with a unit, as "700MiB"'))
    if unit not in SIZE_UNITS:
        raise _unit_wrong(text, number, unit, SIZE_UNITS, "a size", "MiB")
    size = round(float(number) * SIZE_UNITS[unit])
    if size > MAX_SIZE:
        raise Wrong(Fault(f"{quoted(text)} is more than a pebibyte", "write a smaller size"))
    return size


def parse_fraction(text: str) -> float:
    """0.8 of ``"80%"``; more than nothing and at most all. Raises `Wrong`."""
    parts = _parts(text, "a percentage", "80%")
    number, unit = parts[0]
    if len(parts) > 1 or unit != "%":
        raise Wrong(Fault(f"{quoted(text)} is not a percentage", 'write it as "80%"'))
    fraction = float(number) / 100
    if not 0 < fraction <= 1:
        raise Wrong(Fault(f"{quoted(text)} is out of range", 'write more than "0%" and at most "100%"'))
    return fraction


def parse_factor(text: str) -> float:
    """3.0 of ``"3x"``; more than 1. Raises `Wrong`."""
    parts = _parts(text, "a factor", "3x")
    number, unit = parts[0]
    if len(parts) > 1 or unit not in ("", "x"):
        raise Wrong(Fault(f"{quoted(text)} is not a factor", 'write it as "3x"'))
    if not unit:
        raise Wrong(Fault(f"{quoted(text)} has no x", f'write how many times, as "{number}x"'))
    factor = float(number)
    if not 1 < factor <= MAX_FACTOR:
        raise Wrong(Fault(f"{quoted(text)} is out of range", f'write more than "1x" and at most "{MAX_FACTOR:.0f}x"'))
    return factor


def show_duration(seconds: float) -> str:
    """The shortest way to write it exactly: ``"10min"``."""
    for unit in ("d", "h", "min", "s", "ms"):
        count = seconds / DURATION_UNITS[unit]
        if seconds and count >= 1 and abs(count - round(count)) < 1e-9:
            return f"{round(count)}{unit}"
    return f"{seconds:.9f}".rstrip("0").rstrip(".") + "s"


def show_size(size: int) -> str:
    """The shortest way to write it exactly: ``"700MiB"``."""
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        if size and size % SIZE_UNITS[unit] == 0:
            return f"{size // SIZE_UNITS[unit]}{unit}"
    return f"{size}B"


def show_fraction(fraction: float) -> str:
    """As a percentage: ``"80%"``."""
    return f"{fraction * 100:.9f}".rstrip("0").rstrip(".") + "%"


def show_factor(factor: float) -> str:
    """How many times: ``"3x"``."""
    return f"{factor:.9f}".rstrip("0").rstrip(".") + "x"


def _parts(text: str, kind: str, example: str) -> list[tuple[str, str]]:
    parts: list[tuple[str, str]] = []
    at = 0
    stripped = text.strip()
    while at < len(stripped):
        found = _PART.match(stripped, at)
        if not found or (found[0].isdigit() and found.end() < len(stripped)):
            break
        parts.append((found[1], found[2]))
        at = found.end()
    if not parts or at < len(stripped):
        raise Wrong(Fault(f"{quoted(text)} is not {kind}", f'write a number with a unit, as "{example}"'))
    return parts


def _unit_wrong(text: str, number: str, unit: str, units: Mapping[str, float], kind: str, usual: str) -> Wrong:
    if not unit:
        return Wrong(Fault(f"{quoted(text)} has no unit", f'write {kind} with its unit, as "{number}{usual}"'))
    # A letter alone is what other programs write: "10m", "700M".
    meant = [valid for valid in units if valid.lower() in (unit.lower(), f"{unit.lower()}ib", f"{unit.lower()}in")]
    remedy = f'did you mean "{number}{meant[0]}"?' if meant else choose(unit, units)
    return Wrong(Fault(f"{quoted(text)} has an unknown unit {quoted(unit)}", remedy))
