"""Background tasks: each has a name, and one that dies is logged, counted and started again."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

log = logging.getLogger("lazyd.tasks")

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 30.0

Work = Callable[[], Coroutine[Any, Any, None]]


class Background:
    """The tasks of the daemon that nobody waits for."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[object]] = set()
        self.deaths: Counter[str] = Counter()
        """How often each task has died, by name."""

    def keep(self, name: str, work: Work) -> None:
        """Runs `work` until it returns; if it raises, it is started anew after a growing pause."""
        self._add(name, self._supervise(name, work))

    def once(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        """Runs `work` to its end; if it raises, that is logged and counted."""
        self._add(name, self._watch(name, work))

    async def stop(self) -> None:
        """Cancels all tasks and waits for them."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _add(self, name: str, work: Coroutine[Any, Any, object]) -> None:
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _supervise(self, name: str, work: Work) -> None:
        pause_s = FIRST_PAUSE_S
        while not await self._watch(name, work()):
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    async def _watch(self, name: str, work: Coroutine[Any, Any, None]) -> bool:
        """Whether it ended well."""
        try:
            await work
        except Exception:
            self.deaths[name] += 1
            log.exception("the background task %r has died (%d times so far)", name, self.deaths[name])
            return False
        return True
