"""Sizes, times and lists as people read them."""

from __future__ import annotations

from collections.abc import Sequence

UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
ROUNDED = 0.976
"""From this part of a unit on it is used: 1000 MiB are 1.0 GiB."""


def size(n: int) -> str:
    """Bytes, as ``lazyctl status`` shows them: a fraction only where it tells something."""
    for unit, name in UNITS:
        if abs(n) >= unit * ROUNDED:
            return f"{n / unit:.1f} {name}" if abs(n) < 99.95 * unit else f"{n / unit:.0f} {name}"
    return counted(n, "byte")


def amounts(by_device: dict[str, int]) -> str:
    """``3.0 GiB of gpu0 and 0.3 GiB of ram``."""
    return listed([f"{size(n)} of {name}" for name, n in by_device.items() if n])


def duration(seconds: float) -> str:
    """Seconds, as precise as it matters."""
    seconds = max(0.0, seconds)
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h"


def listed(parts: Sequence[str]) -> str:
    """``a, b and c``."""
    return " and ".join(filter(None, (", ".join(parts[:-1]), *parts[-1:])))


def quoted(program: str) -> str:
    """A program's name or command, told apart from the words around it: it may be called `true`."""
    return f'"{program}"'


def counted(n: int, thing: str) -> str:
    """``1 call``, ``3 calls``."""
    return f"{n} {thing}" if n == 1 else f"{n} {thing}s"


def sentence(clause: str) -> str:
    """``it is cold`` as ``It is cold.``; what ends with a question stays one."""
    text = clause[:1].upper() + clause[1:].rstrip(".")
    return text if text.endswith("?") else f"{text}."
