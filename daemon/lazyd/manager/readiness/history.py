"""Which models were used when, for the loop (see `state.clerk`)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING

from lazyd.core.effects import Used

from ..epoch import epoch
from ..state.clerk import Clerk
from ..tasks import Background

if TYPE_CHECKING:
    from .uses import Use, Uses

PAGE = 5000
"""So many are read at once."""


class History(Clerk["Uses", "Use"]):
    """`most` says how many uses are kept; none with 0."""

    def __init__(self, path: str, most: Callable[[], int], background: Background, note: Callable[[str], None]) -> None:
        super().__init__("history", lambda: _uses(path, most), background, note)

    def used(self, effect: Used) -> None:
        """Keeps it. The core's clock does not say what time of day it is."""
        from .uses import Use

        self.keep(Use(epoch() + effect.began, effect.model, effect.busy_s))

    async def pages(self) -> AsyncIterator[list[Use]]:
        """All that is kept, the oldest first.

        Raises:
            TimeoutError: the disk does not answer, or does so no more.
        """
        after = 0
        while True:
            page, unwritten = await self.ask(lambda uses, after=after: uses.page(after, PAGE))  # type: ignore[misc]
            if page is None:
                raise TimeoutError("the disk with the history does not answer")
            if not page:
                yield unwritten
                return
            yield [use for _, use in page]
            after = page[-1][0]


def _uses(path: str, most: Callable[[], int]) -> Uses:
    from .uses import Uses  # with the module of SQLite, which a start need not import

    return Uses(path, most)
