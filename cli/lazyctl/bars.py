"""A bar of parts, and the names beneath it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .terminal import Look, cells, one_line, shorten
from .units import size

_GAP = 2
"""Columns between two names."""
_SHORTEST = 6
"""Columns that are left of a name that does not fit; with less than this it is left out."""


class Part(NamedTuple):
    """One part of a bar. One with a name ends in a gap, so that it can be told from its neighbour."""

    amount: int
    glyph: str
    style: str
    name: str = ""
    minor: bool = False
    """Others' names come first."""


class _Label(NamedTuple):
    start: int
    text: str
    part: Part

    @property
    def end(self) -> int:
        return self.start + cells(self.text)


def bar_lines(parts: Sequence[Part], rest: int, width: int, look: Look) -> list[str]:
    """The bar in `width` columns, blank for `rest`, and the line of names if there are any."""
    counts = apportion([*(part.amount for part in parts), rest], width)
    bar = "".join(look.paint(_filled(part, n, look), part.style) for part, n in zip(parts, counts, strict=False))
    names = _names(parts, counts, width, look)
    return [bar.rstrip(), names] if names else [bar.rstrip()]


def apportion(amounts: Sequence[int], width: int) -> list[int]:
    """Whole cells of a bar for each amount, `width` in all; what is not nothing gets one cell at least."""
    total = sum(amounts)
    if total == 0:
        return [0] * (len(amounts) - 1) + [width]
    exact = [amount * width / total for amount in amounts]
    counts = [max(int(share), 1) if share > 0 else 0 for share in exact]
    while (missing := width - sum(counts)) != 0:
        step = 1 if missing > 0 else -1
        able = [i for i, count in enumerate(counts) if exact[i] > 0 and count + step >= 1]
        if not able:
            break
        counts[max(able, key=lambda i: (exact[i] - counts[i]) * step)] += step
    return counts


def _filled(part: Part, count: int, look: Look) -> str:
    if not part.name or count < 2:
        return part.glyph * count
    gap = "|" if not look.unicode else "▌" if part.glyph == "█" else " "
    return part.glyph * (count - 1) + gap


def _names(parts: Sequence[Part], counts: Sequence[int], width: int, look: Look) -> str:
    """Names beneath the beginnings of their parts. The largest part comes first where not all find room."""
    starts = [sum(counts[:index]) for index in range(len(parts))]
    named = sorted(
        ((start, count, part) for start, count, part in zip(starts, counts, parts, strict=False) if part.name),
        key=lambda each: (each[2].minor, -each[2].amount),
    )
    labels: list[_Label] = []
    for start, count, part in named:
        if any(label.start < start < label.end + _GAP for label in labels):
            continue
        text = _fitting(one_line(part.name), _room(start, labels, width), count, look)
        if text:
            labels.append(_Label(start, text, part))
    for index, label in enumerate(labels):
        whole = f"{one_line(label.part.name)} {size(label.part.amount)}"
        if cells(whole) <= _room(label.start, labels, width):
            labels[index] = label._replace(text=whole)
    drawn, at = "", 0
    for label in sorted(labels):
        drawn += " " * (label.start - at) + look.paint(label.text, label.part.style)
        at = label.end
    return drawn


def _room(start: int, labels: Sequence[_Label], width: int) -> int:
    """Columns from `start` up to the next name."""
    return min((label.start - _GAP for label in labels if label.start > start), default=width) - start


def _fitting(name: str, room: int, count: int, look: Look) -> str:
    """A name may reach beyond its part of `count` columns, but is not shortened to less than that."""
    if cells(name) <= room:
        return name
    return shorten(name, room, look) if room >= max(_SHORTEST, min(count, room)) else ""
