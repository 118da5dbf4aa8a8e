"""The proxy (see `lazyd.proxy`) as the host sees it: there as long as some service is to be found at an address.

It is told what to serve by the manager, and tells it what is wrong. One that ends by itself is started again. It goes
on while managers come and go, and when the host executes itself anew.
"""

from __future__ import annotations

import base64
import os
import socket
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from ..wire import packets
from ..worker.link import Link
from ..worker.loop import Loop
from .logs import LogFile, LogPipe
from .processes import MARKER
from .reaper import Reaper
from .spawn import execute

AGAIN_S = 1.0


class Proxying:
    """`env` is what the process is started with, `marker` what it inherits; `tell` speaks to the manager, `note` to
    the log. `on_ended` is called when the process has gone."""

    def __init__(
        self,
        loop: Loop,
        reaper: Reaper,
        log: LogFile,
        env: Mapping[str, str],
        marker: str,
        tell: Callable[[dict[str, Any]], None],
        note: Callable[[str], None],
        on_ended: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._reaper = reaper
        self._log_file = log
        self._env = {**env, MARKER: marker}
        self._tell = tell
        self._note = note
        self._on_ended = on_ended
        self.services: dict[str, str] = {}
        """Addresses by model, as ``127.0.0.1:8188``."""
        self.pid: int | None = None
        self.link: Link | None = None
        self.log: LogPipe | None = None

    @property
    def is_alive(self) -> bool:
        return self.pid is not None

    def serve(self, services: dict[str, str]) -> None:
        """These from now on. What is wrong with them is told, also if nothing is."""
        self.services = services
        if not services:
            self.end()
            self._tell({"is": "proxy", "problems": {}})
        elif self.pid is None:
            self._start()
        elif self.link is not None:
            self.link.send({"do": "serve", "services": services})

    def end(self) -> None:
        """Ends the process, and all conversations of its clients."""
        self.services = {}
        if self.pid is not None:
            self._reaper.kill(self.pid)

    def state(self, keep: Callable[[int], int], link_state: Callable[[Link | None], Any]) -> dict[str, Any] | None:
        """For the host's next self; `keep` is told of the descriptors that must stay open."""
        if self.pid is None or self.log is None:
            return None
        pidfd = keep(self._reaper.pidfd(self.pid))
        described = {"pid": self.pid, "pidfd": pidfd, "log": keep(self.log.fd), "services": self.services}
        return {**described, "link": link_state(self.link)}

    def adopt(self, state: dict[str, Any]) -> None:
        """Goes on with the process of an earlier self."""
        self.services, self.pid = state["services"], state["pid"]
        if state["link"] is not None:
            self.link = Link(self._loop, socket.socket(fileno=state["link"]["fd"]), self._says, self._lost)
            self.link.resume([(base64.b64decode(data), fds) for data, fds in state["link"]["unsent"]])
        self.log = LogPipe(self._loop, state["log"], self._log_file)
        self._reaper.watch(state["pid"], partial(self._exited, state["pid"]), state["pidfd"])

    def _start(self) -> None:
        ours, theirs = packets.pair()
        reads, writes = os.pipe()
        flag = "-I" if sys.flags.isolated else "-P"
        command = [sys.executable, flag, "-m", "lazyd.proxy.main", str(theirs.fileno()), str(os.getpid())]
        try:
            pid = self.pid = execute(command, self._env, keep=[theirs.fileno()], output=writes)
        except OSError as error:
            ours.close()
            os.close(reads)
            self._failed(f"the proxy cannot be started: {error}")
            return
        finally:
            theirs.close()
            os.close(writes)
        self._reaper.watch(pid, partial(self._exited, pid))
        self.log = LogPipe(self._loop, reads, self._log_file)
        self.link = Link(self._loop, ours, self._says, self._lost)
        self.link.send({"do": "serve", "services": self.services})

    def _says(self, message: dict[str, Any], fds: list[int]) -> None:
        packets.close(fds)
        for problem in message["problems"].values():
            self._note(problem)
        self._tell(message)

    def _lost(self) -> None:
        """It cannot be led any more."""
        if self.pid is not None:
            self._reaper.kill(self.pid)

    def _exited(self, pid: int, status: int | None, signal: int | None) -> None:
        if pid != self.pid:
            return
        if self.link is not None:
            self.link.close()
        said = ""
        if self.log is not None:
            self.log.finish()
            said = self.log.last_lines.strip().rpartition("\n")[2]
        self.pid = self.link = self.log = None
        if self.services:
            how = f"signal {signal}" if signal is not None else f"status {status}"
            self._failed(f"the proxy has ended with {how}{said and ': '}{said}")
        self._on_ended()

    def _failed(self, why: str) -> None:
        self._note(f"{why}; it is started again")
        self._tell({"is": "proxy", "problems": dict.fromkeys(self.services, why)})
        self._loop.after(AGAIN_S, self._start_again)

    def _start_again(self) -> None:
        if self.services and self.pid is None:
            self._start()
