"""The file ``learned.db`` in the state directory: what loads have needed outlives restarts."""

from __future__ import annotations

from collections.abc import Sequence

from ..state.database import Database
from . import peaks
from .lessons import Known, Lesson, Subject


class Store(Database):
    """Blocks; `learning` calls it in a thread."""

    def __init__(self, path: str) -> None:
        super().__init__(path, peaks.SHAPE)

    def known(self, subject: Subject) -> Known:
        """Looks, and makes no file if there is none."""
        return self.read(lambda database: peaks.known(database, subject), Known())

    def learn(self, lessons: Sequence[Lesson]) -> bool:
        """Keeps all of it, or nothing and answers False: another process has the file just now."""
        return self.write(lambda database: peaks.write(database, lessons))
