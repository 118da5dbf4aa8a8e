"""What loads have needed, for the loop: asked and told without waiting for a disk (see `state.clerk`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..state.clerk import Clerk
from ..tasks import Background
from .lessons import Known, Lesson, Subject, after

if TYPE_CHECKING:
    from .learned import Store


class Learning(Clerk["Store", Lesson]):
    """`note` is told once of each thing that goes wrong; `problems` are what is wrong at present."""

    def __init__(self, path: str, background: Background, note: Callable[[str], None]) -> None:
        super().__init__("learned peaks", lambda: _store(path), background, note)

    async def known(self, subject: Subject) -> Known:
        """What is known, with all that was learned before; that alone, if the disk does not answer."""
        said, unwritten = await self.ask(lambda store: store.known(subject))
        return after(said or Known(), subject, unwritten)

    def learn(self, lesson: Lesson) -> None:
        """Keeps it, in a moment."""
        self.keep(lesson)


def _store(path: str) -> Store:
    from .learned import Store  # with the module of SQLite, which a start need not import

    return Store(path)
