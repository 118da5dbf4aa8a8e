"""What keys mean, as people read it: table by table, each key with its value, then what it is for and what it takes."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import TYPE_CHECKING

from .terminal import Look, cells, one_line, shorten, wrapped

if TYPE_CHECKING:
    from lazyd.config.explaining import Explained

_WIDEST = 100
"""Lines that are longer are hard to read."""
_INDENT = 6
_VALUE_LINES = 4


def explained_lines(rows: Iterable[Explained], look: Look) -> list[str]:
    """Rows of one table stand together already."""
    look = look._replace(width=min(look.width, _WIDEST))
    found: list[str] = []
    for (table, runtimes), inside in groupby(rows, _heading):
        where = f"  ({', '.join(runtimes)})" if runtimes else ""
        found += ["", look.paint(f"[{one_line(table)}]", "bold", "cyan") + look.paint(where, "dim")]
        for row in inside:
            found += _row(row, look)
    return found[1:]


def _heading(row: Explained) -> tuple[str, tuple[str, ...]]:
    """Options are one table for each runtime."""
    return row.table, row.runtimes if row.table.endswith(".options") else ()


def _row(row: Explained, look: Look) -> list[str]:
    room, takes = look.width - _INDENT, one_line(_takes(row))
    meaning = [" " * _INDENT + line for line in wrapped(one_line(row.meaning), room, look)]
    words = [look.paint(" " * _INDENT + line, "dim") for line in wrapped(takes, room, look)] if takes else []
    return [*_first(row, look), *meaning, *words]


def _first(row: Explained, look: Look) -> list[str]:
    """The key, with its value, and at the end of the line where that comes from."""
    if row.value is None:
        return [look.paint(f"  {one_line(row.key)}", "bold")]
    place = _place(row, look)
    text = f"{one_line(row.key)} = {one_line(row.value)}"
    first, *more = wrapped(text, look.width - 4 - cells(place), look, most=_VALUE_LINES)
    gap = " " * (look.width - 2 - cells(first) - cells(place))
    return [
        f"  {look.paint(first, 'bold')}{gap}{look.paint(place, 'dim')}",
        *(look.paint(f"      {line}", "bold") for line in more),
    ]


def _place(row: Explained, look: Look) -> str:
    """The end of a file's name tells more than its beginning."""
    file = one_line(row.file or "")
    name = file.rpartition("/")[2] if file.startswith("/") else file
    return shorten(name, look.width // 3, look) + (f":{row.line}" if row.line else "")


def _takes(row: Explained) -> str:
    default = f"default {row.default}" if row.default is not None else ""
    example = f"as {row.example}" if row.value is None and row.example is not None else ""
    only = f"only {', '.join(row.runtimes)}" if row.runtimes and not row.table.endswith(".options") else ""
    return "; ".join(part for part in (row.kind, default, example, only) if part)
