"""Dry runs: short processes that find out what a load would take (see `lazyd.worker.dry_run`).

Each is born like a worker: forked from a zygote of its runtime if there is one, which takes
milliseconds, else executed. It has `LIMIT_S` from the order to its answer, and is killed after.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from typing import Any

from ..worker.link import Link
from ..worker.loop import Timer
from .cgroups import Cgroup
from .ending import end_family
from .logs import LogFile, LogPipe
from .newborn import Newborn
from .reaper import in_words
from .recipe import Recipe
from .shop import Shop
from .starting import Starting

LIMIT_S = 2.0
_COUNTER = itertools.count(1)
"""Managers number theirs from 1 again; here what belongs to one is told from what belongs to another."""


class DryRuns:
    """All that are under way. `on_empty` is called when the last one has gone."""

    def __init__(self, on_empty: Callable[[], None]) -> None:
        self._on_empty = on_empty
        self._running: set[DryRun] = set()

    def __bool__(self) -> bool:
        return bool(self._running)

    def begin(self, shop: Shop, number: int, spec: dict[str, Any]) -> None:
        """Answers the manager ``{"is": "dry_run", "id": number, "result": …, "reason": …}``, in time."""
        run = DryRun(shop, number, spec, self._gone)
        self._running.add(run)
        run.begin()

    def end(self, reason: str | None) -> None:
        """Ends them all; without a reason nobody waits for their answers any more."""
        for run in list(self._running):
            run.end(reason)

    def _gone(self, run: DryRun) -> None:
        self._running.discard(run)
        if not self._running:
            self._on_empty()


class DryRun:
    """One process, from the order until nothing is left of it."""

    def __init__(self, shop: Shop, number: int, spec: dict[str, Any], on_gone: Callable[[DryRun], None]) -> None:
        self.id = f"dry run {next(_COUNTER)}"
        self.marker = f"{self.id}@{shop.identity}"
        self._shop = shop
        self._number = number
        self._spec = spec
        self._on_gone = on_gone
        self._gpus: dict[str, str] = {}
        self._starting: Starting | None = None
        self._newborn: Newborn | None = None
        self._cgroup: Cgroup | None = None
        self._link: Link | None = None
        self._log: LogPipe | None = None
        self._pid: int | None = None
        self._limit: Timer | None = None
        self._is_answered = False
        self._is_reaped = False
        self._is_ending = False
        self._is_empty = False

    def __repr__(self) -> str:
        return f"<{self.id} of {self._spec.get('name')} pid {self._pid}>"

    def begin(self) -> None:
        self._limit = self._shop.loop.after(LIMIT_S, lambda: self.end(f"it took more than {LIMIT_S:g} s"))
        try:
            recipe = Recipe.of(self._spec, self._shop.base_env)
            self._gpus = recipe.gpus
            self._starting = Starting(self._shop, recipe, self, borrows=True)
            self._starting.begin()
        except (OSError, ValueError) as error:
            self.stillborn(str(error))

    def end(self, reason: str | None) -> None:
        """Answers, unless it has, and ends the process; without a reason nobody waits for an answer any more."""
        self._answer(None, reason)
        if not self._is_ending and self._pid is None and self._starting is not None:
            self._starting.withdraw()
        if self._is_ending or self._pid is None:
            return  # it is being born, or never will be: `born` or `stillborn` goes on
        self._is_ending = True
        if not self._is_reaped:
            self._shop.reaper.kill(self._pid)
        end_family(self._shop.loop, self._shop.reaper, self._cgroup, self._pid, self.marker, self._emptied)

    # How it is born; see `starting.Parent`.

    def expect(self, newborn: Newborn) -> None:
        self._close()
        self._newborn = newborn
        self._link = Link(self._shop.loop, newborn.link, self._says, lambda: None)
        self._log = LogPipe(self._shop.loop, newborn.log, LogFile(os.devnull))

    def born(self, pid: int) -> None:
        self._pid = pid
        self._cgroup = self._newborn.cgroup if self._newborn is not None else None
        self._shop.reaper.watch(pid, self._exited)
        if self._is_answered:
            self.end(None)

    def stillborn(self, reason: str | None) -> None:
        self._answer(None, reason or "it could not be started")
        self._is_reaped = self._is_ending = True
        self._shop.loop.soon(self._emptied)

    def is_wanted(self) -> bool:
        return not self._is_answered

    # What becomes of it.

    def _says(self, message: dict[str, Any], fds: list[int]) -> None:
        for fd in fds:
            os.close(fd)
        if message.get("is") == "hello" and self._link is not None:
            if self._starting is not None:
                self._starting.heard_from(message["pid"])
            self._link.send({"do": "dry_run", "spec": self._spec, "gpus": self._gpus})
        elif message.get("is") == "dry_run":
            self._answer(message.get("result"), message.get("reason"))
            self.end(None)

    def _exited(self, status: int | None, signal: int | None) -> None:
        self._is_reaped = True
        if self._link is not None:
            self._link.read()  # its answer may still lie there
        if self._log is not None:
            self._log.catch_up()
            said = self._log.last_line
            self.end(f"it ended with {in_words(status, signal)}{f': {said}' if said else ''}")
        self._perhaps_gone()

    def _answer(self, result: dict[str, Any] | None, reason: str | None) -> None:
        if self._is_answered:
            return
        self._is_answered = True
        if self._limit is not None:
            self._limit.cancel()
        if result is not None or reason is not None:
            self._shop.tell({"is": "dry_run", "id": self._number, "result": result, "reason": reason})

    def _emptied(self) -> None:
        self._is_empty = True
        self._perhaps_gone()

    def _perhaps_gone(self) -> None:
        if not (self._is_reaped and self._is_empty):
            return
        self._close()
        if self._cgroup is not None:
            self._cgroup.remove()
        self._on_gone(self)

    def _close(self) -> None:
        """Lets go of what it was to be born into, or was."""
        if self._link is not None:
            self._link.close()
        if self._log is not None:
            self._log.finish()
        if self._newborn is not None and self._newborn.cgroup is not None and self._pid is None:
            self._newborn.cgroup.remove()
