"""A file of SQLite in the state directory: what is in it outlives restarts, and it is never worth a failure.

SQLite keeps the file whole whenever the process may be killed. There is one writer, and what is
written is small, so its plain journal does: a damaged file is set aside by renaming it. What cannot be
kept is known as long as the manager lives. All of this blocks; it is called in a thread (`clerk`).
"""

from __future__ import annotations

import contextlib
import glob
import os
import re
import sqlite3
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

MOST_ASIDE = 3
"""So many damaged files are kept, the last ones."""
BUSY_S = 1.0
"""Another process may have the file for so long when it is read."""
WRITE_BUSY_S = 0.05
"""When it is written that is tried again later, so that nobody who reads waits for it."""
_TRIES = 3
"""With the file, with a new one, in memory."""
_ASIDE = re.compile(r"\.corrupt-(\d+)$")
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)

T = TypeVar("T")


@dataclass(frozen=True)
class Shape:
    """What stands in a file."""

    version: int
    """In the file's ``user_version``. A file of a newer version is read as far as it is understood."""
    tables: str
    """The SQL that makes them."""
    columns: Mapping[str, str]
    """By table: those that are taken over from a newer or damaged file."""
    holds: str
    """What it is about, as people are told: ``what loads need``."""
    afresh: str
    """What follows if it is lost: ``what loads need is learned afresh``."""

    def in_memory(self, source: sqlite3.Connection | None) -> sqlite3.Connection:
        """A database that nobody else sees, with all of `source` that is understood; that is closed."""
        memory = sqlite3.connect(":memory:", isolation_level=None)
        memory.executescript(self.tables)
        if source is not None:
            for table, columns in self.columns.items():
                with contextlib.suppress(sqlite3.Error):  # a newer version may have changed it, or it is damaged
                    rows = source.execute(f"SELECT {columns} FROM {table}").fetchall()
                    marks = ", ".join("?" for _ in columns.split(","))
                    memory.executemany(f"INSERT INTO {table} ({columns}) VALUES ({marks})", rows)
            source.close()
        return memory


class Database:
    """The file, or a copy of it in memory where it cannot be written.

    `problem` says what is wrong with it; `messages` are for the journal, and whoever tells them takes
    them out.
    """

    def __init__(self, path: str, shape: Shape) -> None:
        self.path = path
        self.shape = shape
        self.problem: str | None = None
        self.messages: list[str] = []
        self._opened: sqlite3.Connection | None = None

    def read(self, question: Callable[[sqlite3.Connection], T], otherwise: T) -> T:
        """What `question` finds; `otherwise` if there is no file, which is not made, or it cannot be read."""
        if self._opened is None and not os.path.exists(self.path):
            return otherwise
        try:
            return question(self._database())
        except sqlite3.Error as error:
            self._failed(error)
            return otherwise

    def write(self, deed: Callable[[sqlite3.Connection], None]) -> bool:
        """Does all of it, as one transaction, or nothing and answers False: another process has the file just now."""
        for _ in range(_TRIES):
            try:
                database = self._database()
                with _patience(database, WRITE_BUSY_S), _transaction(database):
                    deed(database)
                return True
            except sqlite3.Error as error:
                if _code(error) in _BUSY:
                    return False
                self._failed(error)
        return True  # it has said why

    def close(self) -> None:
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def _database(self) -> sqlite3.Connection:
        """Raises `sqlite3.Error` if another process has it."""
        for _ in range(_TRIES):
            if self._opened is not None:
                break
            try:
                self._opened = self._open()
            except (sqlite3.Error, OSError) as error:
                if _code(error) in _BUSY:
                    raise
                self._failed(error)
        self._opened = self._opened or self.shape.in_memory(None)
        return self._opened

    def _open(self) -> sqlite3.Connection:
        os.makedirs(os.path.dirname(self.path), mode=0o700, exist_ok=True)
        with contextlib.suppress(FileExistsError):  # its owner's alone; what is there already keeps its mode
            os.close(os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        database = sqlite3.connect(self.path, timeout=BUSY_S, isolation_level=None)
        ours = self.shape.version
        try:
            (version,) = database.execute("PRAGMA user_version").fetchone()
            if version > ours:
                self._say(f"{self.path} is of version {version}, newer than {ours}: it is read, and never written")
                return self.shape.in_memory(database)
            if database.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
                raise sqlite3.DatabaseError("a check has found it damaged")
            if version < ours:
                database.executescript(f"BEGIN IMMEDIATE; {self.shape.tables} PRAGMA user_version = {ours}; COMMIT;")
            database.execute(f"SELECT 1 FROM {', '.join(self.shape.columns)} LIMIT 1")
        except BaseException:
            database.close()
            raise
        return database

    def _failed(self, error: Exception) -> None:
        """Sets a damaged file aside; goes on in memory with one that cannot be used."""
        if _code(error) in _BUSY:
            return
        before, self._opened = self._opened, None
        if _code(error) in _DAMAGED:
            if before is not None:
                before.close()
                before = None
            try:
                aside = _set_aside(self.path)
            except OSError as failed:
                error = failed
            else:
                self._say(f"{self.path} was damaged ({error}): it is {aside} now, and {self.shape.afresh}")
                return
        self._say(f"{self.shape.holds} cannot be kept in {self.path} ({error}): it is known until lazyd ends")
        self._opened = self.shape.in_memory(before)

    def _say(self, problem: str) -> None:
        self.problem = problem
        self.messages.append(problem)


@contextlib.contextmanager
def _transaction(database: sqlite3.Connection) -> Iterator[None]:
    """All of it or nothing."""
    database.execute("BEGIN IMMEDIATE")
    try:
        yield
        database.execute("COMMIT")
    except BaseException:
        with contextlib.suppress(sqlite3.Error):
            database.execute("ROLLBACK")
        raise


@contextlib.contextmanager
def _patience(database: sqlite3.Connection, busy_s: float) -> Iterator[None]:
    """Waits for so long, and no longer, while another process has the file."""
    database.execute(f"PRAGMA busy_timeout = {int(busy_s * 1000)}")
    try:
        yield
    finally:
        database.execute(f"PRAGMA busy_timeout = {int(BUSY_S * 1000)}")


def _code(error: Exception) -> int:
    """SQLite's number for what is wrong; an error that has none, of a file that it can open, is of damage."""
    if not isinstance(error, sqlite3.DatabaseError) or isinstance(error, sqlite3.ProgrammingError):
        return 0
    return int(getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)) & 0xFF


def _set_aside(path: str) -> str:
    """Its new name. Raises `OSError`."""
    numbers = sorted(
        int(found[1]) for other in glob.glob(f"{glob.escape(path)}.corrupt-*") if (found := _ASIDE.search(other))
    )
    aside = f"{path}.corrupt-{numbers[-1] + 1 if numbers else 1}"
    os.rename(path, aside)
    with contextlib.suppress(FileNotFoundError):  # else SQLite would finish the old file's writing in the new one
        os.rename(f"{path}-journal", f"{aside}-journal")
    for number in numbers[: max(0, len(numbers) + 1 - MOST_ASIDE)]:
        for old in (f"{path}.corrupt-{number}", f"{path}.corrupt-{number}-journal"):
            with contextlib.suppress(OSError):
                os.unlink(old)
    return aside
