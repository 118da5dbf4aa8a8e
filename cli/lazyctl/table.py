"""Tables that fit: columns as wide as their content, one that gives way when the line is too long.

Drawn here and not with rich, because importing rich's table alone takes longer than a whole
``lazyctl status`` may (`import click, rich.table` is 1.6 x `import click, rich`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .terminal import Look, cells, one_line, shorten

GAP = 2


class Cell(NamedTuple):
    """A text and how it is painted."""

    text: str
    style: str = ""
    drawn: str = ""
    """The same text painted in several styles, if one is not enough; as many columns as `text`."""


class Column(NamedTuple):
    """`least`: the columns it keeps when it gives way; ``None``: it never gives way."""

    title: str
    right: bool = False
    least: int | None = None


def lines(columns: Sequence[Column], rows: Sequence[Sequence[Cell]], look: Look) -> list[str]:
    """The table, heading first; no line is wider than `look.width` as long as one column gives way."""
    shown = [[cell if cell.drawn else cell._replace(text=one_line(cell.text)) for cell in row] for row in rows]
    widths = [
        max([cells(column.title), *(cells(row[index].text) for row in shown)]) for index, column in enumerate(columns)
    ]
    _give_way(columns, widths, look.width)
    heading = [Cell(column.title, "bold") for column in columns]
    return [_line(columns, row, widths, look) for row in (heading, *shown)]


def _give_way(columns: Sequence[Column], widths: list[int], width: int) -> None:
    """Narrow the widest column that may give way, until the line fits or none may any more."""
    excess = sum(widths) + GAP * (len(widths) - 1) - width
    while excess > 0:
        willing = [i for i, column in enumerate(columns) if column.least is not None and widths[i] > column.least]
        if not willing:
            return
        widths[max(willing, key=widths.__getitem__)] -= 1
        excess -= 1


def _line(columns: Sequence[Column], row: Sequence[Cell], widths: Sequence[int], look: Look) -> str:
    parts = []
    for column, cell, width in zip(columns, row, widths, strict=True):
        text = shorten(cell.text, width, look)
        padding = " " * (width - cells(text))
        painted = cell.drawn or look.paint(text, cell.style)
        parts.append(padding + painted if column.right else painted + padding)
    return (" " * GAP).join(parts).rstrip()
