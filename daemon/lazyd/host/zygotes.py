"""The processes that workers are forked from: one for each recipe, a few at a time.

A recipe that is asked for gets a zygote if there is room, or if the one that was used longest ago
can leave, and the worker is forked from it as soon as its imports are done: the import is not paid
twice. A zygote that finds that it may not fork says so; its recipe is then executed plainly.
"""

from __future__ import annotations

import enum
import os
import time
from collections.abc import Callable
from typing import Any

from ..runtimes import MARKER
from ..wire import packets
from ..worker.checks import look_at
from ..worker.link import Link
from ..worker.loop import Loop, Timer
from .cgroups import Cgroups
from .logs import LogFile, LogPipe
from .newborn import Newborn
from .processes import identity
from .reaper import Reaper
from .recipe import Recipe
from .spawn import execute

IMPORT_S = 120.0
"""A zygote that has not imported its library by then is given up."""
SPARE_AFTER_S = 1.0
"""A newborn is made in reserve when its zygote has had nothing to do for so long."""
REFUSED_S = 600.0
"""A recipe that may not be forked is not tried again for so long."""

Done = Callable[[int | None, str | None], None]
"""Gets the pid of the forked worker, or why there is none."""


class State(enum.Enum):
    """A zygote's life; it leaves from any of these."""

    IMPORTING = "importing"
    READY = "ready"
    GONE = "gone"


class Birth:
    """A fork that was asked for. It owns its descriptors: the worker's end of its link, and its log."""

    def __init__(self, worker: str, fds: list[int], done: Done) -> None:
        self.worker = worker
        self.fds = fds
        self.done = done
        self.is_asked = False

    def close(self) -> None:
        for fd in self.fds:
            os.close(fd)
        self.fds = []


class Zygote:
    """One process that forks workers."""

    def __init__(self, pool: Zygotes, recipe: Recipe) -> None:
        self.recipe = recipe
        self.state = State.IMPORTING
        self.used = time.monotonic()
        self.births: dict[str, Birth] = {}
        self._pool = pool
        self._files: dict[str, list[int]] = {}
        ours, theirs = packets.pair()
        reads, writes = os.pipe()
        command = recipe.command("zygote", theirs.fileno())
        # Forked processes show the environment of their zygote; a worker's own marker is for what it executes.
        env = {**dict(recipe.env), MARKER: f"zygote@{pool.identity}"}
        self.pid = execute(command, env, keep=[theirs.fileno()], output=writes)
        theirs.close()
        os.close(writes)
        pool.reaper.watch(self.pid, self._exited)
        self._log = LogPipe(pool.loop, reads, pool.log)
        self._link = Link(pool.loop, ours, self._says, self.end)
        self._limit = pool.loop.after(IMPORT_S, self.end)
        self.spare: Newborn | None = None
        self._spare_due: Timer | None = None

    def __repr__(self) -> str:
        return f"<zygote {self.recipe.runtime} {self.state.value}, {len(self.births)} births>"

    @property
    def is_outdated(self) -> bool:
        """Whether a file that it imported has changed."""
        return self.state is State.READY and look_at(self._files) != self._files

    def fork(self, birth: Birth) -> None:
        """Forks now, or when the imports are done."""
        self.used = time.monotonic()
        self.births[birth.worker] = birth
        if self.state is State.READY:
            self._ask(birth)

    def withdraw(self, name: str) -> None:
        """A fork that has not been asked of the process, as it still imports, is not wanted any more."""
        birth = self.births.get(name)
        if birth is not None and not birth.is_asked:
            self._born(name, None, "it is not wanted any more")

    def keep_spare(self) -> None:
        """Has a newborn in reserve a while from now, unless workers are forked until then."""
        if self._spare_due is not None:
            self._spare_due.cancel()
        self._spare_due = self._pool.loop.after(SPARE_AFTER_S, self._make_spare)

    def take(self) -> Newborn | None:
        """The newborn in reserve, if there is one."""
        self.used = time.monotonic()
        spare, self.spare = self.spare, None
        self.keep_spare()
        return spare

    def end(self, reason: str = "the zygote has ended") -> None:
        """It leaves. Births that it still owed are answered with the reason."""
        if self.state is State.GONE:
            return
        self.state = State.GONE
        self._limit.cancel()
        if self._spare_due is not None:
            self._spare_due.cancel()
        self._link.close()
        self._pool.forget(self)
        if self.spare is not None and self.spare.pid is not None:
            self._pool.reaper.kill(self.spare.pid)
        self._pool.reaper.kill(self.pid)
        for name in list(self.births):
            self._born(name, None, reason)

    def _make_spare(self) -> None:
        if self.state is not State.READY or self.spare is not None or self.births:
            return
        newborn = Newborn(self._pool.cgroups)
        self.fork(Birth("a spare", [os.dup(fd) for fd in newborn.fds], lambda pid, _: self._spare_born(newborn, pid)))
        newborn.handed_over()

    def _spare_born(self, newborn: Newborn, pid: int | None) -> None:
        if pid is None:
            newborn.close()
            return
        newborn.born(pid)
        self._pool.reaper.watch(pid, lambda *_: self._spare_died(newborn))
        if self.state is State.READY:
            self.spare = newborn
        else:
            self._pool.reaper.kill(pid)

    def _spare_died(self, newborn: Newborn) -> None:
        if self.spare is newborn:
            self.spare = None
        newborn.close()

    def _ask(self, birth: Birth) -> None:
        birth.is_asked = True
        self._pool.reaper.births += 1
        self._link.send({"do": "fork", "worker": birth.worker}, birth.fds)
        birth.close()

    def _says(self, message: dict[str, Any], _fds: list[int]) -> None:
        what = message.get("is")
        if what == "ready":
            self.state = State.READY
            self._limit.cancel()
            self._files = message["files"]
            for birth in list(self.births.values()):
                self._ask(birth)
            self.keep_spare()
        elif what == "refused":
            self._pool.refuse(self.recipe, message["reason"])
            self.end(message["reason"])
        elif what == "forked":
            self._born(message["worker"], message["pid"], None)
        elif what == "failed":
            self._born(message["worker"], None, message["reason"])

    def _born(self, name: str, pid: int | None, reason: str | None) -> None:
        birth = self.births.pop(name, None)
        if birth is None:
            return
        birth.done(pid, reason)
        birth.close()
        if birth.is_asked:
            self._pool.reaper.births -= 1
            self._pool.reaper.sweep()

    def _exited(self, _status: int | None, _signal: int | None) -> None:
        self._log.finish()
        self.end()


class Zygotes:
    """All zygotes of the host."""

    def __init__(
        self, loop: Loop, reaper: Reaper, cgroups: Cgroups | None, log: LogFile, note: Callable[[str], None]
    ) -> None:
        self.loop = loop
        self.reaper = reaper
        self.cgroups = cgroups
        self.identity = identity()
        self.log = log
        self.most = 4
        self._note = note
        self._zygotes: dict[Recipe, Zygote] = {}
        self._refused: dict[Recipe, float] = {}

    def take(self, recipe: Recipe) -> Newborn | None:
        """A process that waits for its first order, if one is in reserve."""
        zygote = self._zygotes.get(recipe)
        if zygote is None or zygote.spare is None or zygote.is_outdated:
            return None
        return zygote.take()

    def fork(self, recipe: Recipe, worker: str, fds: list[int], done: Done) -> bool:
        """Forks a worker, now or when the imports are done; False if it is to be executed plainly.

        `fds` are the worker's end of its link and its log; they are duplicated.
        """
        zygote = self._for(recipe)
        if zygote is None:
            return False
        zygote.fork(Birth(worker, [os.dup(fd) for fd in fds], done))
        zygote.keep_spare()
        return True

    def lend(self, recipe: Recipe, name: str, fds: list[int], done: Done) -> bool:
        """As `fork`, but only from a zygote that is there already, whatever GPUs it is shown."""
        zygote = next((each for each in self._zygotes.values() if each.recipe.in_ram == recipe.in_ram), None)
        if zygote is None or zygote.is_outdated:
            return False
        zygote.fork(Birth(name, [os.dup(fd) for fd in fds], done))
        zygote.keep_spare()
        return True

    def withdraw(self, name: str) -> None:
        """What is to be forked under this name is not wanted; if it can still be left, `done` is told that."""
        for zygote in list(self._zygotes.values()):
            zygote.withdraw(name)

    def prepare(self, recipes: list[Recipe]) -> None:
        """These are likely to be needed; nobody leaves for them."""
        for recipe in recipes:
            if recipe not in self._zygotes and len(self._zygotes) < self.most and not self._is_refused(recipe):
                self._zygotes[recipe] = Zygote(self, recipe)

    def limit(self, most: int) -> None:
        """At most so many from now on."""
        self.most = most
        self._make_room(most)

    def retire(self) -> None:
        """All leave."""
        for zygote in list(self._zygotes.values()):
            zygote.end("the host is being upgraded")

    def refuse(self, recipe: Recipe, reason: str) -> None:
        self._refused[recipe] = time.monotonic() + REFUSED_S
        self._note(f"workers of {recipe.runtime} are executed plainly, not forked: {reason}")

    def forget(self, zygote: Zygote) -> None:
        if self._zygotes.get(zygote.recipe) is zygote:
            del self._zygotes[zygote.recipe]

    def _for(self, recipe: Recipe) -> Zygote | None:
        zygote = self._zygotes.get(recipe)
        if zygote is not None and zygote.is_outdated:
            self._note(f"the packages of {recipe.runtime} have changed: its zygote is replaced")
            zygote.end("its packages have changed")
            zygote = None
        if zygote is None and not self._is_refused(recipe) and self._make_room(self.most - 1):
            zygote = self._zygotes[recipe] = Zygote(self, recipe)
        return zygote

    def _is_refused(self, recipe: Recipe) -> bool:
        if self._refused.get(recipe, 0.0) > time.monotonic():
            return True
        self._refused.pop(recipe, None)
        return False

    def _make_room(self, keep: int) -> bool:
        """Lets those that were used longest ago leave until `keep` remain; False if they cannot."""
        idle = sorted((zygote for zygote in self._zygotes.values() if not zygote.births), key=lambda each: each.used)
        while len(self._zygotes) > keep and idle:
            idle.pop(0).end("another one was needed")
        return len(self._zygotes) <= keep and keep >= 0
