"""Devices as bars: what lazyd has booked, what others use, what stays free, what can be had."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from .table import GAP, Cell, Column, lines
from .terminal import Look, cells
from .units import size

WIDE = 100
"""From this many columns on there is room for more than the essential."""
_FIGURE = 8
"""Columns that the widest size takes: ``99.9 GiB``."""
_LEAST_BAR, _MOST_BAR = 8, 44


class _Part(NamedTuple):
    title: str
    key: str
    glyph: str
    ascii: str
    style: str


_PARTS = (
    _Part("BOOKED", "bookedBytes", "█", "#", "cyan"),
    _Part("FOREIGN", "foreignBytes", "▒", "=", "yellow"),
    _Part("MARGIN", "marginBytes", "░", "-", "blue"),
    _Part("FREE", "freeBytes", "·", ".", "dim"),
)


def device_lines(devices: Sequence[dict[str, Any]], look: Look) -> list[str]:
    """The table of devices. Its headings are the bars' legend; a full bar is the whole device."""
    figures = [Column(f"{part.glyph if look.unicode else part.ascii} {part.title}", right=True) for part in _PARTS]
    figures.append(Column("BUDGET", right=True))
    if look.width >= WIDE:
        figures.append(Column("TOTAL", right=True))
    name_width = max(len("DEVICE"), *(cells(device["name"]) for device in devices))
    taken = name_width + sum(max(len(column.title), _FIGURE) for column in figures) + GAP * (len(figures) + 1)
    bar_width = min(max(look.width - taken, _LEAST_BAR), _MOST_BAR)
    rows = [_row(device, bar_width, look) for device in devices]
    return [*lines([Column("DEVICE"), Column(""), *figures], rows, look), *_quarantined(devices, look)]


def _row(device: dict[str, Any], bar_width: int, look: Look) -> list[Cell]:
    row = [Cell(device["name"], "bold"), _bar(device, bar_width, look)]
    row += [Cell(size(device[part.key]), part.style if device[part.key] else "dim") for part in _PARTS]
    row.append(Cell(size(device["budgetBytes"])))
    if look.width >= WIDE:
        row.append(Cell(size(device["totalBytes"])))
    return row


def _bar(device: dict[str, Any], width: int, look: Look) -> Cell:
    """Blank at the end is what the budget leaves out."""
    amounts = [max(device[part.key], 0) for part in _PARTS]
    rest = max(device["totalBytes"] - sum(amounts), 0)
    counts = apportion([*amounts, rest], width)
    pieces = [
        ((part.glyph if look.unicode else part.ascii) * count, part.style)
        for part, count in zip(_PARTS, counts, strict=False)
    ]
    text = "".join(piece for piece, _ in pieces).ljust(width)
    drawn = "".join(look.paint(piece, style) for piece, style in pieces) + " " * counts[-1]
    return Cell(text, drawn=drawn)


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


def _quarantined(devices: Sequence[dict[str, Any]], look: Look) -> list[str]:
    return [
        look.paint(
            f"{device['name']}: {size(device['quarantinedBytes'])} of FOREIGN was lazyd's and never came back", "yellow"
        )
        for device in devices
        if device["quarantinedBytes"]
    ]
