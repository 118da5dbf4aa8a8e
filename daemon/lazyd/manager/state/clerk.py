"""A file of the state directory, for the loop: asked and told without waiting for a disk.

One thread has all such files; it is started with the first question, and the module of SQLite is imported
there. What is to be kept is written as it comes, as much at once as has gathered meanwhile. Who asks does
not wait until it is written: what the file does not have yet is handed over beside what it says.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Generic, Protocol, TypeVar

from ..tasks import Background

log = logging.getLogger("lazyd.state")

_DISK = ThreadPoolExecutor(max_workers=1, thread_name_prefix="state")
"""One thread for all files, which lie on one disk: each more costs the manager half a megabyte."""

READ_S = 2.0
"""Nobody waits longer for what the file says."""
AGAIN_S = 0.5
"""Until another try, if another process has the file."""
MOST_UNWRITTEN = 10_000
"""So much waits for that, the last."""

Item = TypeVar("Item")
Said = TypeVar("Said")
File = TypeVar("File", bound="Keeps")


class Keeps(Protocol):
    """What a clerk needs of a `Database`."""

    problem: str | None
    messages: list[str]

    def learn(self, items: Sequence[Any], /) -> bool:
        """Keeps all of them, or none and answers False: another process has the file just now."""


class Clerk(Generic[File, Item]):
    """`open_file` is called in the thread. `note` is told once of each thing that goes wrong; `problems` are what is
    wrong at present."""

    def __init__(
        self, name: str, open_file: Callable[[], File], background: Background, note: Callable[[str], None]
    ) -> None:
        self._name = name
        self._open_file = open_file
        self._background = background
        self._note = note
        self._thread = _DISK
        self._file: File | None = None
        self._unwritten: list[Item] = []
        self._first = 0
        """The number of the first of these, of all that was ever to be kept."""
        self._written = 0
        """So many are in the file, or given up; the thread's."""
        self.all_written = asyncio.Event()
        self.all_written.set()
        self._stuck: Future[Any] | None = None

    @property
    def problems(self) -> list[str]:
        """A line each."""
        return [self._file.problem] if self._file is not None and self._file.problem else []

    async def ask(self, question: Callable[[File], Said]) -> tuple[Said | None, list[Item]]:
        """What the file says, and what is to be kept beside that; None, if the disk does not answer."""
        first, unwritten = self._first, list(self._unwritten)
        if self._stuck is not None and not self._stuck.done():
            return None, unwritten
        asked = self._thread.submit(self._answer, question)
        try:
            async with asyncio.timeout(READ_S):
                said, written = await asyncio.shield(asyncio.wrap_future(asked))
        except TimeoutError:
            self._stuck = asked
            log.warning("%s does not answer: lazyd goes on without it until it does", self._name)
            return None, unwritten
        finally:
            self._tell()
        return said, unwritten[max(0, written - first) :]

    def keep(self, item: Item) -> None:
        """Keeps it, in a moment."""
        self._unwritten.append(item)
        self._forget(len(self._unwritten) - MOST_UNWRITTEN)
        if self.all_written.is_set():
            self.all_written.clear()
            self._background.once(self._name, self._write())

    async def settled(self) -> None:
        """Waits until all is kept."""
        await self.all_written.wait()

    async def _write(self) -> None:
        try:
            while self._unwritten:
                items, until = list(self._unwritten), self._first + len(self._unwritten)
                if await asyncio.wrap_future(self._thread.submit(self._keep, items, until)):
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

    def _answer(self, question: Callable[[File], Said]) -> tuple[Said, int]:
        return question(self._opened()), self._written

    def _keep(self, items: list[Item], until: int) -> bool:
        is_kept = self._opened().learn(items)
        if is_kept:
            self._written = until
        return is_kept

    def _opened(self) -> File:
        if self._file is None:
            self._file = self._open_file()
        return self._file

    def _tell(self) -> None:
        if self._file is not None:
            while self._file.messages:
                self._note(self._file.messages.pop(0))
