"""Watches the directories in which models may be found, and puts in force what comes and goes there.

The kernel tells that something has changed, and what is there now is then looked up anew: so no event that was missed
or came late can do harm. Where nothing is to be found nothing is imported for it, no file is open, and no timer runs.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING

from lazyd.core.spec import Config, ModelSpec
from lazyd.errors import InvalidConfig

from .configuration import Change, Configuration
from .eyes import Eyes
from .tasks import Background

if TYPE_CHECKING:
    from lazyd.config.walking import Scan

Templates = tuple[ModelSpec, ...]

SETTLE_S = 0.3
"""After an event, more are waited for."""
LONGEST_SETTLE_S = 3.0
BLIND_S = 60.0
"""Where not everything can be watched it is looked at so often."""


class Watching:
    """Watches as long as the configuration in force has templates."""

    def __init__(self, configuration: Configuration, background: Background) -> None:
        self._configuration = configuration
        self._background = background
        self._stirred = asyncio.Event()
        self._eyes: Eyes | None = None

    def look(self) -> None:
        """Looks soon, and from then on; does nothing where there is nothing to look for."""
        self._stirred.set()
        if self._eyes is None and self._configuration.config.templates:
            self._eyes = Eyes(self._stirred.set)
            self._background.keep("watching directories", self._watch)

    async def _watch(self) -> None:
        eyes = self._eyes
        assert eyes is not None
        while templates := self._configuration.config.templates:
            self._stirred.clear()
            seen = await asyncio.to_thread(_look, eyes, self._configuration.config)
            if eyes.watch(seen.watches):
                continue  # something may have come to new directories before they were watched
            await self._take(seen, templates)
            await self._until_stirred(BLIND_S if eyes.blind else None, seen.again_in_s)
        self._eyes = None
        eyes.close()

    async def _take(self, seen: Scan, templates: Templates) -> None:
        """Puts in force what was seen. What does not go with the rest is refused whole, and told."""
        try:
            await self._configuration.change("found", partial(_found, seen, templates, self._configuration.promoted()))
        except InvalidConfig as error:
            self._configuration.refuse(error.problems)

    async def _until_stirred(self, *within_s: float | None) -> None:
        """Until something has happened, and then no more for a moment."""
        limit_s = min((limit for limit in within_s if limit is not None), default=None)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                await self._stirred.wait()
        latest = monotonic() + LONGEST_SETTLE_S
        while self._stirred.is_set() and monotonic() < latest:
            self._stirred.clear()
            await asyncio.sleep(SETTLE_S)


def _look(eyes: Eyes, config: Config) -> Scan:
    from lazyd.config.found import look

    eyes.open()
    return look(config.templates, config, eyes.closed())


def _found(seen: Scan, templates: Templates, promoted: Collection[str], config: Config) -> Change:
    """The configuration with what was seen. Raises `InvalidConfig`."""
    from lazyd.config import composing, found

    if config.templates != templates:
        return Change(config)  # it was looked for by others, and is looked for again
    named = composing.named(config).union(promoted)
    specs, told = found.specs(config.templates, seen, composing.not_found(config), named)
    after = composing.with_found(config, specs)
    if after.models == config.models:
        return Change(config, found=tuple(told))
    problems = composing.problems(after)
    if problems:
        raise InvalidConfig(problems=[str(problem) for problem in problems])
    return Change(after, found=tuple(told))
