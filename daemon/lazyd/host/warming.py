"""The warmer (see `warmer`) as the host sees it: started for the first order, ended some time after the last.

The host remembers what it was ordered, so that the next manager can be told, and lives on with it when it executes
itself anew.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from ..runtimes import MARKER
from ..worker.loop import Loop, Timer
from .assistant import Assistant, Keep, LinkState
from .cgroups import Cgroups
from .logs import LogFile
from .reaper import Reaper

REST_S = 5.0
"""A warmer with nothing to do, and nothing locked, ends after this time."""
ENDED = frozenset({"warm", "failed", "gone"})
"""Stages after which nothing of an order is left."""

Orders = dict[str, dict[str, Any]]


class Warming:
    """`tell` speaks to the manager, `note` to the log; `marker` is what its process inherits. `on_ended` is called
    when the process has gone, or is not waited for any more."""

    def __init__(
        self,
        loop: Loop,
        reaper: Reaper,
        cgroups: Cgroups | None,
        log: LogFile,
        marker: str,
        tell: Callable[[dict[str, Any]], None],
        note: Callable[[str], None],
        on_ended: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._cgroups = cgroups
        self._marker = marker
        self._tell = tell
        self._note = note
        self._on_ended = on_ended
        self.orders: Orders = {}
        """By model, each with the last that was told of it as ``told``."""
        self._process = Assistant("lazyd.host.warmer", loop, reaper, log, self._says, self._ended)
        self._rest: Timer | None = None

    def order(self, message: dict[str, Any]) -> None:
        """A model's files are to be read, and perhaps locked. Raises `KeyError`, `OSError`."""
        model = message["model"]
        self.orders[model] = {key: message[key] for key in ("id", "files", "lock")} | {"told": None}
        try:
            if not self.is_alive:
                self._start()
        except OSError as error:
            self._over({"is": "pages", "model": model, "id": message["id"], "stage": "failed", "reason": str(error)})
            return
        self._send(message)

    def let_go(self, message: dict[str, Any]) -> None:
        """What is read is read no more, what is locked is unlocked. Answered in any case."""
        if message["model"] in self.orders:
            self._send(message)
        else:
            self._tell({"is": "pages", "model": message["model"], "id": 0, "stage": "gone"})

    @property
    def is_alive(self) -> bool:
        return self._process.is_alive

    def end(self) -> None:
        """Ends the process, and with it all that it holds."""
        self._process.end()

    def state(self, keep: Keep, link_state: LinkState) -> dict[str, Any] | None:
        """For the host's next self."""
        state = self._process.state(keep, link_state)
        return None if state is None else {**state, "orders": self.orders}

    def adopt(self, state: dict[str, Any]) -> None:
        """Goes on with the process of an earlier self."""
        self.orders = state["orders"]
        self._process.adopt(state)
        self._perhaps_rest()

    def _start(self) -> None:
        cgroup = self._cgroups.warm() if self._cgroups is not None else None
        self._process.start({**os.environ, MARKER: self._marker}, cgroup)

    def _send(self, message: dict[str, Any]) -> None:
        if self._rest is not None:
            self._rest.cancel()
        self._process.send(message)

    def _says(self, message: dict[str, Any]) -> None:
        order = self.orders.get(message["model"])
        if message["stage"] in ENDED:
            self._over(message)
            return
        if order is not None and order["id"] == message["id"]:
            order["told"] = message
        self._tell(message)

    def _over(self, message: dict[str, Any]) -> None:
        order = self.orders.get(message["model"])
        if order is not None and order["id"] == message["id"]:
            del self.orders[message["model"]]
        self._tell(message)
        self._perhaps_rest()

    def _perhaps_rest(self) -> None:
        """A thread of it may still wait for a dead disk; that ends with it, too."""
        if not self.orders and self.is_alive:
            self._rest = self._loop.after(REST_S, self._rested)

    def _rested(self) -> None:
        if not self.orders:
            self._process.abandon()  # the next order finds none, and starts another

    def _ended(self, how: str, said: str) -> None:
        if self.orders:
            self._note(f"the process that reads files into memory has ended with {how}{said and ': '}{said}")
        reason = f"the process that read its files has ended with {how}"
        for model, order in list(self.orders.items()):
            self._over({"is": "pages", "model": model, "id": order["id"], "stage": "failed", "reason": reason})
        self._on_ended()
