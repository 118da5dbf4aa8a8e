"""A history from a CSV file: a time, a model, and for how many seconds it was busy."""

from __future__ import annotations

import csv
import math
from collections import deque
from collections.abc import Iterable, Sequence
from datetime import datetime

from .facts import Use

COLUMNS = ("time", "model", "busy")
"""In this order, if no header says otherwise; the last may be missing."""
MOST_USES = 1_000_000
"""So many are played, the last of the file."""
LONGEST_NAME = 200
LAST = 253_402_300_800.0
"""The year 10000: a time beyond was meant in other units."""


class WrongHistory(ValueError):
    """`str` names file, line and column."""


def read(path: str) -> tuple[list[Use], int]:
    """Its uses as they stand there, and how many before them were left out. Blocks.

    Raises:
        OSError: it cannot be read.
        WrongHistory: a line is not what it should be.
    """
    with open(path, newline="", encoding="utf-8-sig") as file:
        try:
            return _read(path, csv.reader(file))
        except UnicodeDecodeError as error:
            raise WrongHistory(f"{path} is not text in UTF-8: {error.reason}") from None
        except csv.Error as error:
            raise WrongHistory(f"{path} is no CSV file: {error}") from None


def _read(path: str, rows: Iterable[Sequence[str]]) -> tuple[list[Use], int]:
    places: Sequence[str] | None = None
    uses: deque[Use] = deque(maxlen=MOST_USES)
    count = 0
    for number, row in enumerate(rows, 1):
        cells = [cell.strip() for cell in row]
        if not any(cells) or cells[0].startswith("#"):
            continue
        if places is None:
            places = header(path, number, cells)
            if places is not None:
                continue
            places = COLUMNS
        uses.append(_use(_Line(path, number, places, cells)))
        count += 1
    return list(uses), count - len(uses)


def header(path: str, number: int, cells: Sequence[str]) -> Sequence[str] | None:
    """The names of the columns, if the first line has them."""
    names = [cell.lower() for cell in cells]
    if not {"time", "model"} & set(names):
        return None
    for column, name in enumerate(names, 1):
        if name not in COLUMNS or names.index(name) != column - 1:
            what = "stands twice" if name in COLUMNS else f"is unknown: there are {', '.join(COLUMNS)}"
            raise WrongHistory(f"{path}, line {number}, column {column}: {name!r} {what}")
    for name in COLUMNS[:2]:
        if name not in names:
            raise WrongHistory(f"{path}, line {number}: no column is called {name}")
    return names


class _Line:
    def __init__(self, path: str, number: int, places: Sequence[str], cells: Sequence[str]) -> None:
        self._where = f"{path}, line {number}"
        if len(cells) > len(places):
            extra = f"column {len(places) + 1}: there are {len(places)} columns, {', '.join(places)}"
            raise WrongHistory(f"{self._where}, {extra}")
        self._places = places
        self._cells = dict(zip(places, cells, strict=False))

    def cell(self, name: str) -> str:
        return self._cells.get(name, "")

    def wrong(self, name: str, what: str) -> WrongHistory:
        return WrongHistory(f"{self._where}, column {self._places.index(name) + 1} ({name}): {what}")


def _use(line: _Line) -> Use:
    model = line.cell("model")
    if not model:
        raise line.wrong("model", "the name of a model is missing")
    if len(model) > LONGEST_NAME or not model.isprintable():
        raise line.wrong("model", "that is no name of a model")
    return Use(_time(line), model, _busy(line))


def _time(line: _Line) -> float:
    text = line.cell("time")
    try:
        seconds = float(text)
    except ValueError:
        try:
            seconds = datetime.fromisoformat(text).timestamp()
        except (ValueError, OverflowError):
            what = f"{text!r} is no time: write seconds since 1970 or 2026-12-02T14:30:00Z"
            raise line.wrong("time", what) from None
    if not math.isfinite(seconds) or not 0 <= seconds < LAST:
        raise line.wrong("time", f"{text!r} lies before 1970 or far in the future: write seconds, not milliseconds")
    return seconds


def _busy(line: _Line) -> float:
    text = line.cell("busy")
    try:
        seconds = float(text) if text else 0.0
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds <= 1e9:
        raise line.wrong("busy", f"{text!r} is no number of seconds")
    return seconds
