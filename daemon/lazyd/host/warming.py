"""The warmer (see `warmer`) as the host sees it: started for the first order, ended some time after the last.

The host remembers what it was ordered, so that the next manager can be told, and lives on with it when it executes
itself anew.
"""

from __future__ import annotations

import base64
import os
import socket
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from ..wire import packets
from ..worker.link import Link
from ..worker.loop import Loop, Timer
from .cgroups import Cgroups
from .logs import LogFile, LogPipe
from .processes import MARKER
from .reaper import Reaper
from .spawn import execute

REST_S = 5.0
"""A warmer with nothing to do, and nothing locked, ends after this time."""
KILLED_S = 2.0
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
        self._reaper = reaper
        self._cgroups = cgroups
        self._log_file = log
        self._marker = marker
        self._tell = tell
        self._note = note
        self._on_ended = on_ended
        self.orders: Orders = {}
        """By model, each with the last that was told of it as ``told``."""
        self.pid: int | None = None
        self.link: Link | None = None
        self.log: LogPipe | None = None
        self._rest: Timer | None = None

    def order(self, message: dict[str, Any]) -> None:
        """A model's files are to be read, and perhaps locked. Raises `KeyError`, `OSError`."""
        model = message["model"]
        self.orders[model] = {key: message[key] for key in ("id", "files", "lock")} | {"told": None}
        try:
            if self.link is None:
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
        return self.pid is not None

    def end(self) -> None:
        """Ends the process, and with it all that it holds. A dead disk may keep it: that is not waited for long."""
        if self.pid is not None:
            self._reaper.kill(self.pid)
            self._loop.after(KILLED_S, partial(self._exited, self.pid, None, 9))

    def adopt(self, state: dict[str, Any]) -> None:
        """Goes on with the process of an earlier self."""
        self.orders = state["orders"]
        self.pid = state["pid"]
        if state["link"] is not None:
            self.link = self._new_link(socket.socket(fileno=state["link"]["fd"]))
            self.link.resume([(base64.b64decode(data), fds) for data, fds in state["link"]["unsent"]])
        self.log = LogPipe(self._loop, state["log"], self._log_file)
        assert self.pid is not None
        self._reaper.watch(self.pid, partial(self._exited, self.pid), state["pidfd"])
        self._perhaps_rest()

    def _start(self) -> None:
        ours, theirs = packets.pair()
        reads, writes = os.pipe()
        flag = "-I" if sys.flags.isolated else "-P"
        command = [sys.executable, flag, "-m", "lazyd.host.warmer", str(theirs.fileno()), str(os.getpid())]
        place = self._cgroups.warm() if self._cgroups is not None else None
        env = {**os.environ, MARKER: self._marker}
        try:
            self.pid = execute(command, env, keep=[theirs.fileno()], output=writes, cgroup=place)
        except OSError:
            ours.close()
            os.close(reads)
            raise
        finally:
            theirs.close()
            os.close(writes)
        self._reaper.watch(self.pid, partial(self._exited, self.pid))
        self.log = LogPipe(self._loop, reads, self._log_file)
        self.link = self._new_link(ours)

    def _new_link(self, sock: socket.socket) -> Link:
        return Link(self._loop, sock, self._says, self.end)

    def _send(self, message: dict[str, Any]) -> None:
        if self._rest is not None:
            self._rest.cancel()
        if self.link is not None:
            self.link.send(message)

    def _says(self, message: dict[str, Any], fds: list[int]) -> None:
        packets.close(fds)
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
        if not self.orders and self.pid is not None:
            self._rest = self._loop.after(REST_S, self._rested)

    def _rested(self) -> None:
        if not self.orders and self.pid is not None:
            self._reaper.kill(self.pid)
            self._exited(self.pid, None, 9)  # the next order finds none, and starts another

    def _exited(self, pid: int, status: int | None, signal: int | None) -> None:
        if pid != self.pid:
            return
        if self.link is not None:
            self.link.read()
            self.link.close()
        said = ""
        if self.log is not None:
            self.log.finish()
            said = self.log.last_lines.strip().rpartition("\n")[2]
        self.pid = self.link = self.log = None
        how = f"signal {signal}" if signal is not None else f"status {status}"
        if self.orders:
            self._note(f"the process that reads files into memory has ended with {how}{said and ': '}{said}")
        reason = f"the process that read its files has ended with {how}"
        for model, order in list(self.orders.items()):
            self._over({"is": "pages", "model": model, "id": order["id"], "stage": "failed", "reason": reason})
        self._on_ended()
