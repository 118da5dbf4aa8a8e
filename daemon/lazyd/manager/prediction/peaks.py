"""What loads have needed, as rows of a database.

A peak belongs to a model as it is described and to the files that it was loaded from; if either
changes, nothing is known of it.
Dry runs are kept in the same way, so that each is made once; and for each runtime how much more
loads have taken than was estimated from their files.
"""

from __future__ import annotations

import math
import sqlite3
import time
from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from lazyd.core.needs import MOST_BYTES, Need, gpus_of

from ..state.database import Shape
from .lessons import Known, Lesson, Life, Peak, Subject, after_life

MOST = 10_000
"""So many peaks, and dry runs, are kept; what changed longest ago is forgotten first."""
MOST_LIVES = 8
"""A runtime's factor is a mean in which the last lives weigh most."""

SHAPE = Shape(
    version=1,
    tables="""
CREATE TABLE peaks (identity TEXT, files TEXT, way TEXT, peak TEXT NOT NULL, service TEXT, changed REAL NOT NULL,
    PRIMARY KEY (identity, files, way)) WITHOUT ROWID;
CREATE INDEX peaks_by_age ON peaks (changed);
CREATE TABLE dry_runs (identity TEXT, files TEXT, needs TEXT NOT NULL, changed REAL NOT NULL,
    PRIMARY KEY (identity, files)) WITHOUT ROWID;
CREATE INDEX dry_runs_by_age ON dry_runs (changed);
CREATE TABLE factors (runtime TEXT, device TEXT, factor REAL NOT NULL, lives INTEGER NOT NULL,
    PRIMARY KEY (runtime, device)) WITHOUT ROWID;
""",
    columns={
        "peaks": "identity, files, way, peak, service, changed",
        "dry_runs": "identity, files, needs, changed",
        "factors": "runtime, device, factor, lives",
    },
    holds="what loads need",
    afresh="what loads need is learned afresh",
)
_FACTOR = """
INSERT INTO factors VALUES (?, ?, ?, 1) ON CONFLICT (runtime, device) DO UPDATE SET
    lives = min(lives + 1, :most), factor = factor + (excluded.factor - factor) / min(lives + 1, :most)
"""

T = TypeVar("T")


def known(database: sqlite3.Connection, subject: Subject) -> Known:
    """Raises `sqlite3.Error`. A row that makes no sense is none."""
    rows = database.execute("SELECT way, peak, service FROM peaks WHERE identity = ? AND files = ?", _key(subject))
    told = database.execute("SELECT needs FROM dry_runs WHERE identity = ? AND files = ?", _key(subject)).fetchone()
    factors = database.execute("SELECT device, factor FROM factors WHERE runtime = ?", [subject.runtime])
    peaks = {way: (_need(peak, way), _need(service, way)) for way, peak, service in rows}
    return Known(
        ways={way: Peak(peak, service) for way, (peak, service) in peaks.items() if peak is not None},
        dry_run=None if told is None else _read(told[0], dict[str, Any]),
        factors={device: factor for device, factor in factors if isinstance(factor, float) and math.isfinite(factor)},
    )


def write(database: sqlite3.Connection, lessons: Sequence[Lesson]) -> None:
    """Inside a transaction. Raises `sqlite3.Error`."""
    for lesson in lessons:
        if isinstance(lesson, Life):
            _write_life(database, lesson)
        else:
            row = (*_key(lesson.subject), _text(lesson.needs), time.time())
            database.execute("INSERT OR REPLACE INTO dry_runs VALUES (?, ?, ?, ?)", row)
    _forget(database, "peaks", "identity, files, way")
    _forget(database, "dry_runs", "identity, files")


def _write_life(database: sqlite3.Connection, life: Life) -> None:
    now = after_life(known(database, life.subject).ways.get(life.way), life)
    service = None if now.service is None else _text(now.service)
    row = (*_key(life.subject), life.way, _text(now.peak), service, time.time())
    database.execute("INSERT OR REPLACE INTO peaks VALUES (?, ?, ?, ?, ?, ?)", row)
    for device, factor in life.factors.items():
        database.execute(_FACTOR.replace(":most", str(MOST_LIVES)), (life.subject.runtime, device, factor))


def _forget(database: sqlite3.Connection, table: str, key: str) -> None:
    (count,) = database.execute(f"SELECT count(*) FROM {table}").fetchone()
    if count > MOST:
        oldest = f"SELECT {key} FROM {table} ORDER BY changed LIMIT {count - MOST}"
        database.execute(f"DELETE FROM {table} WHERE ({key}) IN ({oldest})")


def _key(subject: Subject) -> tuple[str, str]:
    return subject.identity, subject.files


def _text(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _need(text: str | None, way: str) -> Need | None:
    """What may have been needed in this way: bytes of as many GPUs as it takes, and of no more than there can be."""
    need = _read(text, Need)
    if need is None or gpus_of(str(way)) != len(need.gpu_bytes):
        return None
    return need if all(0 <= n <= MOST_BYTES for n in (need.ram_bytes, *need.gpu_bytes)) else None


def _read(text: str | None, kind: type[T]) -> T | None:
    try:
        return None if text is None else msgspec.json.decode(text, type=kind)
    except (msgspec.MsgspecError, TypeError):
        return None
