"""The file ``learned.db`` in the state directory: what loads have needed outlives restarts.

SQLite keeps the file whole whenever the process may be killed. There is one writer, and what is
written is small, so its plain journal does: a damaged file is set aside by renaming it. What cannot be
kept is known as long as the manager lives. All of this blocks; `learning` calls it in a thread.
"""

from __future__ import annotations

import contextlib
import glob
import os
import re
import sqlite3
from collections.abc import Iterator, Sequence

from . import peaks
from .lessons import Known, Lesson, Subject

SCHEMA = 1
"""In the file's ``user_version``. A file of a newer version is read as far as it is understood."""
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


class Store:
    """The file, or a copy of it in memory where it cannot be written.

    `problem` says what is wrong with it; `messages` are for the journal, and whoever tells them takes
    them out.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.problem: str | None = None
        self.messages: list[str] = []
        self._opened: sqlite3.Connection | None = None

    def known(self, subject: Subject) -> Known:
        """Looks, and makes no file if there is none."""
        if self._opened is None and not os.path.exists(self.path):
            return Known()
        try:
            return peaks.known(self._database(), subject)
        except sqlite3.Error as error:
            self._failed(error)
            return Known()

    def write(self, learned: Sequence[Lesson]) -> bool:
        """Keeps all of it, or nothing and answers False: another process has the file just now."""
        for _ in range(_TRIES):
            try:
                database = self._database()
                with _patience(database, WRITE_BUSY_S):
                    peaks.write(database, learned)
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
        self._opened = self._opened or peaks.in_memory(None)
        return self._opened

    def _open(self) -> sqlite3.Connection:
        os.makedirs(os.path.dirname(self.path), mode=0o700, exist_ok=True)
        with contextlib.suppress(FileExistsError):  # its owner's alone; what is there already keeps its mode
            os.close(os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        database = sqlite3.connect(self.path, timeout=BUSY_S, isolation_level=None)
        try:
            (version,) = database.execute("PRAGMA user_version").fetchone()
            if version > SCHEMA:
                self._say(f"{self.path} is of version {version}, newer than {SCHEMA}: it is read, and never written")
                return peaks.in_memory(database)
            if database.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
                raise sqlite3.DatabaseError("a check has found it damaged")
            if version < SCHEMA:
                database.executescript(f"BEGIN IMMEDIATE; {peaks.TABLES} PRAGMA user_version = {SCHEMA}; COMMIT;")
            database.execute("SELECT 1 FROM peaks, dry_runs, factors LIMIT 1")
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
                self._say(
                    f"{self.path} was damaged ({error}): it is {aside} now, and what loads need is learned afresh"
                )
                return
        self._say(f"what loads need cannot be kept in {self.path} ({error}): it is known until lazyd ends")
        self._opened = peaks.in_memory(before)

    def _say(self, problem: str) -> None:
        self.problem = problem
        self.messages.append(problem)


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
