"""Models' files that are locked in RAM: what the host does about them, and what its manager has it do.

As `lazyd.host.warming` and `lazyd.manager.pages.warming` do, without the reading. Who asks is in `lockers`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lazyd.core import effects, events

from .memory import RAM

if TYPE_CHECKING:
    from .host import SimHost
    from .manager import SimManager
    from .world import World

LOCKED_FILES = "locked files"
"""Who holds them, in RAM."""
READING_S = 2.0
LETTING_GO_S = 0.3
REFUSED = 0.05
"""Chance that the kernel does not lock them, or that they cannot be read."""


@dataclass(slots=True, eq=False)
class Order:
    """The files of one model are to be locked."""

    model: str
    number: int
    files: dict[str, int]
    is_locked: bool = False
    leaves: bool = False


class Pages:
    """Those of one host."""

    def __init__(self, host: SimHost) -> None:
        self.host = host
        self.world: World = host.world
        self.orders: dict[str, Order] = {}

    @property
    def reports(self) -> tuple[events.LockReport, ...]:
        return tuple(
            events.LockReport(model=order.model, files=order.files, locked=order.is_locked)
            for order in self.orders.values()
        )

    def told(self) -> dict[str, Order]:
        """What a manager is told that comes now."""
        return {model: replace(order) for model, order in self.orders.items()}

    def order(self, order: Order) -> None:
        """They are read, which takes a while. A newer order takes the place of an older one."""
        mine = self.orders[order.model] = Order(order.model, order.number, order.files)
        self.world.clock.after(self.world.rng.uniform(0.0, READING_S), self._is_read, mine)

    def let_go(self, model: str) -> None:
        """Answered in any case."""
        order = self.orders.get(model)
        if order is None:
            self.host.say(Said(events.FilesUnlocked(model=model), 0))
        elif not order.leaves:
            order.leaves = True
            self.world.clock.after(self.world.rng.uniform(0.0, LETTING_GO_S), self._ends, order, "")

    def _is_read(self, order: Order) -> None:
        if self.orders.get(order.model) is not order or order.leaves:
            return
        order.is_locked = True
        if self.world.rng.random() < REFUSED or not self._hold():
            self._ends(order, "the kernel does not lock them (RLIMIT_MEMLOCK)")
        else:
            self.host.say(Said(events.FilesLocked(model=order.model), order.number))

    def _ends(self, order: Order, reason: str) -> None:
        if self.orders.get(order.model) is order:
            del self.orders[order.model]
            self._hold()
            self.host.say(Said(events.FilesUnlocked(model=order.model, reason=reason), order.number))

    def _hold(self) -> bool:
        """All that is locked, each file once. False: the machine has not so much."""
        files = {file: n for order in self.orders.values() if order.is_locked for file, n in order.files.items()}
        return self.world.memory[RAM].take(LOCKED_FILES, sum(files.values()))

    def die(self) -> None:
        """The process is gone, and its locks with it."""
        self.orders.clear()
        self._hold()


@dataclass(frozen=True, slots=True)
class Said:
    """What a host says of an order, by its number; 0: it knows none."""

    event: events.Event
    number: int


class Locking:
    """The manager's part: what it has ordered and not heard the end of."""

    def __init__(self, manager: SimManager) -> None:
        self.manager = manager
        self.world: World = manager.world
        self.orders: dict[str, Order] = {}
        self._number = 0

    def booked(self, model: str, files: dict[str, int]) -> None:
        """The core has booked them. What is locked already, or on its way, is not ordered twice."""
        lock = self.manager.told.books.locks.get(model)
        if model in self.orders or lock is None or lock.since is not None:
            return
        self._number += 1
        order = self.orders[model] = Order(model, self._number, files)
        self._send(order)

    def unlock(self, effect: effects.UnlockFiles) -> None:
        self.orders.pop(effect.model, None)
        if self.manager.reaches_host:
            self.world.host.inbox.send((effect, None))

    def found(self, known: dict[str, Order]) -> None:
        """A host is there: it goes on with what it was told, and is told what it was not."""
        for order in self.orders.values():
            if order.model not in known:
                self._send(order)
        for model, order in known.items():
            if not order.is_locked:
                self.orders.setdefault(model, order)
            self._number = max(self._number, order.number)

    def hear(self, said: Said) -> None:
        model = getattr(said.event, "model", "")
        order = self.orders.get(model)
        if order is not None and said.number not in (0, order.number):
            return  # of one that this one has taken the place of
        self.orders.pop(model, None)
        self.manager.tell(said.event)

    def _send(self, order: Order) -> None:
        if self.manager.reaches_host:
            self.world.host.inbox.send((order, None))
