"""The file ``history.db`` in the state directory: when each model was used, the last so many times."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence

import msgspec

from ..state.database import Database, Shape

SHAPE = Shape(
    version=1,
    tables="CREATE TABLE uses (id INTEGER PRIMARY KEY, began REAL NOT NULL, model TEXT NOT NULL, busy REAL NOT NULL);",
    columns={"uses": "id, began, model, busy"},
    holds="which models were used when",
    afresh="the history begins afresh",
)


class Use(msgspec.Struct, frozen=True, array_like=True):
    """One use of a model."""

    began: float
    """When it was asked for, in seconds since 1970."""
    model: str
    busy_s: float
    """How long it was busy once it was there."""


class Uses(Database):
    """Blocks; `history` calls it in a thread. `most` says how many are kept."""

    def __init__(self, path: str, most: Callable[[], int]) -> None:
        super().__init__(path, SHAPE)
        self._most = most

    def learn(self, uses: Sequence[Use]) -> bool:
        """Keeps all of them, or none and answers False: another process has the file just now."""
        rows = [(use.began, use.model, use.busy_s) for use in uses]

        def deed(database: sqlite3.Connection) -> None:
            database.executemany("INSERT INTO uses (began, model, busy) VALUES (?, ?, ?)", rows)
            database.execute("DELETE FROM uses WHERE id <= (SELECT max(id) FROM uses) - ?", [self._most()])

        return self.write(deed)

    def page(self, after: int, count: int) -> list[tuple[int, Use]]:
        """The next so many, with their numbers, in the order in which they ended. What makes no sense is left out."""

        def question(database: sqlite3.Connection) -> list[tuple[int, Use]]:
            found = "SELECT id, began, model, busy FROM uses WHERE id > ? ORDER BY id LIMIT ?"
            return list(_sound(database.execute(found, (after, count))))

        return self.read(question, [])


def _sound(rows: Iterator[tuple[object, ...]]) -> Iterator[tuple[int, Use]]:
    for number, began, model, busy in rows:
        if isinstance(number, int) and isinstance(began, float) and isinstance(model, str) and isinstance(busy, float):
            yield number, Use(began, model, busy)
