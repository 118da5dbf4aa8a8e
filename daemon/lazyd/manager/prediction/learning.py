"""What loads have needed, for the loop: asked and told without waiting for a disk.

One thread has the file (`learned`); it is started with the first question, and the module of SQLite is
imported there. Lessons are written as they come, as many at once as have gathered meanwhile. Who asks does not
wait until they are written: what the file does not have yet is added to what it says.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING

from ..tasks import Background
from .lessons import Known, Lesson, Subject, after

if TYPE_CHECKING:
    from .learned import Store

log = logging.getLogger("lazyd.learning")

READ_S = 2.0
"""A load does not wait longer for what is known of it."""
AGAIN_S = 0.5
"""Until another try, if another process has the file."""
MOST_UNWRITTEN = 10_000
"""So many lessons wait for that, the last ones."""


class Learning:
    """`note` is told once of each thing that goes wrong; `problems` are what is wrong at present."""

    def __init__(self, path: str, background: Background, note: Callable[[str], None]) -> None:
        self._path = path
        self._background = background
        self._note = note
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="learned")
        self._store: Store | None = None
        self._unwritten: list[Lesson] = []
        self._first = 0
        """The number of the first of these, of all that was ever learned."""
        self._written = 0
        """So many are in the file, or given up; the thread's."""
        self.all_written = asyncio.Event()
        self.all_written.set()
        self._stuck: Future[tuple[Known, int]] | None = None

    @property
    def problems(self) -> list[str]:
        """A line each."""
        return [self._store.problem] if self._store is not None and self._store.problem else []

    async def known(self, subject: Subject) -> Known:
        """What is known, with all that was learned before; that alone, if the disk does not answer."""
        first, unwritten = self._first, list(self._unwritten)
        if self._stuck is not None and not self._stuck.done():
            return after(Known(), subject, unwritten)
        asked = self._thread.submit(self._known, subject)
        try:
            async with asyncio.timeout(READ_S):
                known, written = await asyncio.shield(asyncio.wrap_future(asked))
        except TimeoutError:
            self._stuck = asked
            log.warning("%s does not answer: loads are predicted without it until it does", self._path)
            return after(Known(), subject, unwritten)
        finally:
            self._tell()
        return after(known, subject, unwritten[max(0, written - first) :])

    def learn(self, lesson: Lesson) -> None:
        """Keeps it, in a moment."""
        self._unwritten.append(lesson)
        self._forget(len(self._unwritten) - MOST_UNWRITTEN)
        if self.all_written.is_set():
            self.all_written.clear()
            self._background.once("learned peaks", self._write())

    async def settled(self) -> None:
        """Waits until all that was learned is kept."""
        await self.all_written.wait()

    async def _write(self) -> None:
        try:
            while self._unwritten:
                lessons, until = list(self._unwritten), self._first + len(self._unwritten)
                if await asyncio.wrap_future(self._thread.submit(self._keep, lessons, until)):
                    self._forget(until - self._first)
                else:
                    await asyncio.sleep(AGAIN_S)
        finally:
            self.all_written.set()
            self._tell()

    def _forget(self, count: int) -> None:
        """The first so many wait no more."""
        if count > 0:
            del self._unwritten[:count]
            self._first += count

    # In the thread.

    def _known(self, subject: Subject) -> tuple[Known, int]:
        return self._its_store().known(subject), self._written

    def _keep(self, lessons: list[Lesson], until: int) -> bool:
        is_kept = self._its_store().write(lessons)
        if is_kept:
            self._written = until
        return is_kept

    def _its_store(self) -> Store:
        if self._store is None:
            from .learned import Store

            self._store = Store(self._path)
        return self._store

    def _tell(self) -> None:
        if self._store is not None:
            while self._store.messages:
                self._note(self._store.messages.pop(0))
