"""How a worker's process comes about: from the reserve, by a fork, or by plain execution.

The quickest that can be had is taken. A zygote may turn out not to be able to fork (its library
does not allow it, it ends, memory is short): then the worker is executed plainly.
"""

from __future__ import annotations

from typing import Protocol

from ..runtimes import MARKER
from .newborn import Newborn
from .recipe import Recipe
from .shop import Shop
from .spawn import execute


class Parent(Protocol):
    """Is told how it goes; the worker."""

    @property
    def id(self) -> str: ...
    @property
    def marker(self) -> str: ...

    def expect(self, newborn: Newborn) -> None:
        """The process will be born into this. A newer one replaces an older one, which is lost."""

    def born(self, pid: int) -> None:
        """It exists."""

    def stillborn(self, reason: str | None) -> None:
        """It will never exist."""

    def is_wanted(self) -> bool:
        """Whether it is still to be started."""


class Starting:
    """One process, until it exists. One that `borrows` takes no reserve, and no zygote is started for it."""

    def __init__(self, shop: Shop, recipe: Recipe, parent: Parent, *, borrows: bool = False) -> None:
        self._shop = shop
        self._recipe = recipe
        self._parent = parent
        self._borrows = borrows
        self._newborn: Newborn | None = None
        self._is_over = False

    def begin(self) -> None:
        """Raises `OSError`."""
        spare = None if self._borrows else self._shop.zygotes.take(self._recipe)
        if spare is not None and spare.pid is not None:
            self._parent.expect(spare)
            self._born(spare.pid)
        else:
            self._create(plainly=False)

    def withdraw(self) -> None:
        """Its parent does not want it any more. What is on its way is born all the same."""
        if not self._is_over:
            self._shop.zygotes.withdraw(self._parent.id)

    def heard_from(self, pid: int) -> None:
        """The process has spoken, perhaps before its zygote said that it is there."""
        if not self._is_over and self._newborn is not None:
            self._newborn.born(pid)
            self._born(pid)

    def _create(self, *, plainly: bool) -> None:
        newborn = self._newborn = Newborn(self._shop.cgroups)
        self._parent.expect(newborn)
        fork = self._shop.zygotes.lend if self._borrows else self._shop.zygotes.fork
        try:
            if plainly or not fork(self._recipe, self._parent.id, newborn.fds, self._forked):
                self._execute(newborn)
        finally:
            newborn.handed_over()

    def _execute(self, newborn: Newborn) -> None:
        env = {**dict(self._recipe.env), MARKER: self._parent.marker}
        cgroup = newborn.cgroup.path if newborn.cgroup is not None else None
        theirs, log = newborn.fds
        self._born(execute(self._recipe.command("worker", theirs), env, keep=[theirs], output=log, cgroup=cgroup))

    def _forked(self, pid: int | None, _reason: str | None) -> None:
        if self._is_over:
            return
        if pid is not None:
            self.heard_from(pid)
        elif not self._parent.is_wanted():
            self._stillborn(None)
        else:
            try:
                self._create(plainly=True)
            except OSError as error:
                self._stillborn(str(error))

    def _born(self, pid: int) -> None:
        self._is_over = True
        self._parent.born(pid)

    def _stillborn(self, reason: str | None) -> None:
        self._is_over = True
        self._parent.stillborn(reason)
