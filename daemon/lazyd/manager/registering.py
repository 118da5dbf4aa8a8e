"""What clients register and deregister: written down, then put in force, then answered.

Those that come while a change is under way are made together in the next one, so that many at once are as quick as one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from lazyd.config.changes import Changes
from lazyd.core.spec import Config
from lazyd.errors import LazydError, NotKept

from .configuration import Change, Configuration
from .tasks import Background

Until = Callable[[Callable[[], bool]], "asyncio.Future[None]"]
"""Waits until something is so."""


@dataclass(eq=False)
class Wish:
    """A model that a client registers; without a table, one that it deregisters."""

    key: str
    table: Mapping[str, Any] | None = field(repr=False)
    changes: asyncio.Future[Changes] = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    refused: LazydError | None = None


class Registering:
    """`is_gone` says whether nothing is left of a model that is not configured any more."""

    def __init__(
        self, configuration: Configuration, background: Background, until: Until, is_gone: Callable[[str], bool]
    ) -> None:
        self._configuration = configuration
        self._background = background
        self._until = until
        self._is_gone = is_gone
        self._wishes: list[Wish] = []
        self._at_work = False

    async def register(self, key: str, table: Mapping[str, Any]) -> Changes:
        """Adds a model, or changes one that a client has registered. Returns when that would outlive a power cut.

        Raises:
            InvalidSpec: something is wrong with it.
            Conflict: a file describes it.
            NotKept: it could not be written down; nothing has changed.
        """
        return await self._wish(Wish(key, table))

    async def deregister(self, key: str) -> None:
        """Removes a model that a client has registered. Returns when its last call has ended and it is gone.

        Raises:
            ModelNotFound: there is none.
            Conflict: it is not registered, or something names it.
            NotKept: that could not be written down; nothing has changed.
        """
        await self._wish(Wish(key, None))
        await self._until(lambda: self._is_gone(key))

    async def _wish(self, wish: Wish) -> Changes:
        """The change is made whatever becomes of who asked for it."""
        wish.changes.add_done_callback(lambda done: done.cancelled() or done.exception())  # who asked may have gone
        self._wishes.append(wish)
        if not self._at_work:
            self._at_work = True
            self._background.once("registering", self._work())
        return await asyncio.shield(wish.changes)

    async def _work(self) -> None:
        try:
            while self._wishes:
                wishes, self._wishes = self._wishes, []
                await self._change(wishes)
        finally:
            self._at_work = False

    async def _change(self, wishes: list[Wish]) -> None:
        try:
            alter = partial(altered, self._configuration.state, wishes)
            kind = "registered" if any(wish.table is not None for wish in wishes) else "deregistered"
            changes = await self._configuration.change(kind, alter)
        except BaseException as error:
            for wish in wishes:
                if not wish.changes.done():
                    wish.changes.set_exception(wish.refused or error)
            if not isinstance(error, LazydError):
                raise
            return
        for wish in wishes:
            if wish.changes.done():
                continue
            if wish.refused is not None:
                wish.changes.set_exception(wish.refused)
            else:
                wish.changes.set_result(changes)


def altered(state: str, wishes: list[Wish], config: Config) -> Change:
    """The configuration after these wishes, each of which may be refused by itself. Writes them down; blocks."""
    from lazyd.config import registered

    from .adding import added, removed  # with the table of all keys: few starts need it

    held = registered.known(state, config)
    tables = dict(held.tables)
    granted = []
    now = config
    for wish in wishes:
        try:
            after = removed(now, wish.key) if wish.table is None else added(now, wish.key, wish.table)
        except LazydError as error:
            wish.refused = error
            continue
        if wish.table is None:
            tables.pop(wish.key, None)
        elif after is not now or wish.key not in tables:
            tables[wish.key] = dict(wish.table)
        if after is not now:
            granted.append(wish)
            now = after
    if tables == held.tables:
        return Change(now)
    try:
        return Change(now, registered=registered.write(state, tables))
    except OSError as error:
        reason = f"{error.strerror} in {state}"
        for wish in granted:
            wish.refused = NotKept(model=wish.key, reason=reason)
        return Change(config)
