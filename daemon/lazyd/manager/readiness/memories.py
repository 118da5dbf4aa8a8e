"""The file ``readiness.db`` in the state directory: habits of models, how their loads went, and warm-ups.

Times of habits are seconds since 1970 there: the clock of the core begins anew with the machine. A warm-up
counts until the machine is started anew.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence
from typing import TypeVar

import msgspec

from lazyd.core.events import Memory, Remembered
from lazyd.core.monitoring import Past

from ..state.database import Database, Shape

MOST = 10_000
"""So many models are remembered, and warm-ups; what changed longest ago is forgotten first."""

SHAPE = Shape(
    version=1,
    tables="""
CREATE TABLE habits (model TEXT PRIMARY KEY, memory TEXT NOT NULL, changed REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE pasts (model TEXT PRIMARY KEY, identity TEXT NOT NULL, past TEXT NOT NULL, changed REAL NOT NULL)
    WITHOUT ROWID;
CREATE TABLE warmed (subject TEXT, runtime TEXT, boot TEXT NOT NULL, changed REAL NOT NULL,
    PRIMARY KEY (subject, runtime)) WITHOUT ROWID;
""",
    columns={
        "habits": "model, memory, changed",
        "pasts": "model, identity, past, changed",
        "warmed": "subject, runtime, boot, changed",
    },
    holds="when models are needed and how their loads went",
    afresh="that is learned afresh",
)


class OfHabit(msgspec.Struct, frozen=True):
    """A row to be kept: when a model is asked for."""

    model: str
    memory: Memory


class OfPast(msgspec.Struct, frozen=True):
    """A row to be kept: how its loads went."""

    model: str
    identity: str
    past: Past


class OfWarmup(msgspec.Struct, frozen=True):
    """A row to be kept: a warm-up that has been made."""

    subject: str
    runtime: str


Row = OfHabit | OfPast | OfWarmup
T = TypeVar("T")


class Memories(Database):
    """Blocks; `remembering` calls it in a thread. `boot` names the machine's present run."""

    def __init__(self, path: str, boot: str) -> None:
        super().__init__(path, SHAPE)
        self._boot = boot

    def learn(self, rows: Sequence[Row]) -> bool:
        """Keeps all of them, or none and answers False: another process has the file just now."""

        def deed(database: sqlite3.Connection) -> None:
            for row in rows:
                self._keep(database, row)
            for table, key in (("habits", "model"), ("pasts", "model"), ("warmed", "subject, runtime")):
                oldest = f"SELECT {key} FROM {table} ORDER BY changed DESC LIMIT -1 OFFSET {MOST}"
                database.execute(f"DELETE FROM {table} WHERE ({key}) IN ({oldest})")

        return self.write(deed)

    def remembered(self) -> Remembered:
        """All of it. A row that makes no sense is none."""
        return self.read(self._all, Remembered())

    def _keep(self, database: sqlite3.Connection, row: Row) -> None:
        now = time.time()
        if isinstance(row, OfHabit):
            database.execute("INSERT OR REPLACE INTO habits VALUES (?, ?, ?)", (row.model, _text(row.memory), now))
        elif isinstance(row, OfPast):
            values = (row.model, row.identity, _text(row.past), now)
            database.execute("INSERT OR REPLACE INTO pasts VALUES (?, ?, ?, ?)", values)
        else:
            values = (row.subject, row.runtime, self._boot, now)
            database.execute("INSERT OR REPLACE INTO warmed VALUES (?, ?, ?, ?)", values)

    def _all(self, database: sqlite3.Connection) -> Remembered:
        habits = database.execute("SELECT model, memory FROM habits ORDER BY changed DESC").fetchall()
        pasts = database.execute("SELECT model, identity, past FROM pasts").fetchall()
        rows = database.execute("SELECT subject, runtime FROM warmed WHERE boot = ? ORDER BY changed", [self._boot])
        warmed: dict[str, tuple[str, ...]] = {}
        for subject, runtime in rows:
            warmed[subject] = (*warmed.get(subject, ()), runtime)
        return Remembered(
            memories={model: known for model, text in habits if (known := _read(text, Memory)) is not None},
            pasts={
                model: (identity, past) for model, identity, text in pasts if (past := _read(text, Past)) is not None
            },
            warmed=warmed,
        )


def _text(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _read(text: object, kind: type[T]) -> T | None:
    try:
        return msgspec.json.decode(text, type=kind) if isinstance(text, str) else None
    except msgspec.MsgspecError:
        return None
