"""Drives the core: the only one who tells it events, and who has its effects carried out.

Events that come up while effects are carried out wait for their turn, so the core is never
entered twice. A bug in the core ends the manager: its state is in doubt, while the workers hold
the truth, and the next manager takes it from them.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any, Protocol

from lazyd.core.effects import Effect
from lazyd.core.events import Event, Tick

log = logging.getLogger("lazyd.driver")

CarryOut = Callable[[Any], None]


class Core(Protocol):
    """What the driver needs of `lazyd.core.core.Core`."""

    def handle(self, event: Event, now: float) -> list[Effect]: ...

    def next_deadline(self) -> float | None: ...


class Driver:
    """`table` says how each kind of effect is carried out; `on_bug` is told when the core has raised."""

    def __init__(self, core: Core, on_bug: Callable[[], None]) -> None:
        self._core = core
        self._on_bug = on_bug
        self._table: Mapping[type[Effect], CarryOut] = {}
        self._loop = asyncio.get_running_loop()
        self._inbox: deque[Event] = deque()
        self._busy = False
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0
        self._until: list[tuple[Callable[[], bool], asyncio.Future[None]]] = []

    def connect(self, table: Mapping[type[Effect], CarryOut]) -> None:
        """Says how effects are carried out. Comes before the first event."""
        self._table = table

    def tell(self, event: Event) -> None:
        """Has the core decide, and all that follows from it begun, before it returns."""
        self._inbox.append(event)
        if self._busy:
            return
        self._busy = True
        try:
            while self._inbox:
                effects = self._core.handle(self._inbox.popleft(), monotonic())
                for effect in effects:
                    self._carry_out(effect)
            self._set_timer()
            self._look()
        except Exception:
            log.critical("the core has failed: a bug in lazyd", exc_info=True)
            self._inbox.clear()
            self._on_bug()
        finally:
            self._busy = False

    def until(self, condition: Callable[[], bool]) -> asyncio.Future[None]:
        """Done when something is so, which is looked at after every event."""
        done: asyncio.Future[None] = self._loop.create_future()
        self._until.append((condition, done))
        self._look()
        return done

    def close(self) -> None:
        """No timer fires any more."""
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        """Ends the waiting for what is so now, and forgets those who wait no more."""
        for condition, done in self._until:
            if not done.done() and condition():
                done.set_result(None)
        if self._until:
            self._until = [waiting for waiting in self._until if not waiting[1].done()]

    def _carry_out(self, effect: Effect) -> None:
        try:
            self._table[type(effect)](effect)
        except Exception:
            log.exception("a bug in lazyd: %r was not carried out", effect)

    def _set_timer(self) -> None:
        """An alarm that moves to a later time is left alone, and looked at again when it rings."""
        due = self._core.next_deadline()
        if due is None or (self._timer is not None and self._due <= due):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._due = due
        self._timer = self._loop.call_later(max(0.0, due - monotonic()), self._ring)

    def _ring(self) -> None:
        self._timer = None
        due = self._core.next_deadline()
        if due is not None and due <= monotonic():
            self.tell(Tick())
        else:
            self._set_timer()
