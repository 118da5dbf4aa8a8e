"""A process of the host's own that is led by a link and writes to a log: the warmer, the proxy.

It dies with the host, and lives on with it when the host executes itself anew.
"""

from __future__ import annotations

import base64
import os
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ..wire import packets
from ..worker.link import Link
from ..worker.loop import Loop
from .logs import LogFile, LogPipe
from .reaper import Reaper, in_words
from .spawn import execute

KILLED_S = 2.0
"""A dead disk may keep one that was killed: it is not waited for longer."""

Keep = Callable[[int], int]
"""Takes note of a descriptor that must stay open."""
LinkState = Callable[["Link | None"], Any]


class Assistant:
    """There is one such process at a time, or none. `on_message` gets what it says. `on_ended` is called when it has
    gone, or is not waited for any more: with its status or signal in words, and the last line that it wrote."""

    def __init__(
        self,
        module: str,
        loop: Loop,
        reaper: Reaper,
        log: LogFile,
        on_message: Callable[[dict[str, Any]], None],
        on_ended: Callable[[str, str], None],
    ) -> None:
        self._module = module
        self._loop = loop
        self._reaper = reaper
        self._log_file = log
        self._on_message = on_message
        self._on_ended = on_ended
        self._pid: int | None = None
        self._link: Link | None = None
        self._log: LogPipe | None = None

    @property
    def is_alive(self) -> bool:
        return self._pid is not None

    def start(self, env: Mapping[str, str], cgroup: Path | None = None) -> None:
        """Raises `OSError`."""
        ours, theirs = packets.pair()
        reads, writes = os.pipe()
        flag = "-I" if sys.flags.isolated else "-P"
        command = [sys.executable, flag, "-m", self._module, str(theirs.fileno()), str(os.getpid())]
        try:
            pid = self._pid = execute(command, env, keep=[theirs.fileno()], output=writes, cgroup=cgroup)
        except OSError:
            ours.close()
            os.close(reads)
            raise
        finally:
            theirs.close()
            os.close(writes)
        self._reaper.watch(pid, partial(self._exited, pid))
        self._log = LogPipe(self._loop, reads, self._log_file)
        self._link = self._new_link(ours)

    def send(self, message: dict[str, Any]) -> None:
        """Lost if there is no process."""
        if self._link is not None:
            self._link.send(message)

    def end(self) -> None:
        """Ends the process, and with it all that it holds."""
        if self._pid is not None:
            self._reaper.kill(self._pid)
            self._loop.after(KILLED_S, partial(self._exited, self._pid, None, signal.SIGKILL))

    def abandon(self) -> None:
        """The same, but it is not waited for at all."""
        if self._pid is not None:
            self._reaper.kill(self._pid)
            self._exited(self._pid, None, signal.SIGKILL)

    # The host's next self.

    def state(self, keep: Keep, link_state: LinkState) -> dict[str, Any] | None:
        """What `adopt` is given by the host's next self; None if there is no process."""
        if self._pid is None or self._log is None:
            return None
        pidfd, log = keep(self._reaper.pidfd(self._pid)), keep(self._log.fd)
        return {"pid": self._pid, "pidfd": pidfd, "log": log, "link": link_state(self._link)}

    def adopt(self, state: Mapping[str, Any]) -> None:
        """Goes on with the process of an earlier self."""
        pid = self._pid = state["pid"]
        if state["link"] is not None:
            self._link = self._new_link(socket.socket(fileno=state["link"]["fd"]))
            self._link.resume(unsent(state["link"]))
        self._log = LogPipe(self._loop, state["log"], self._log_file)
        self._reaper.watch(pid, partial(self._exited, pid), state["pidfd"])

    def _new_link(self, sock: socket.socket) -> Link:
        return Link(self._loop, sock, self._says, self.end)  # one that cannot be led any more is ended

    def _says(self, message: dict[str, Any], fds: list[int]) -> None:
        packets.close(fds)
        self._on_message(message)

    def _exited(self, pid: int, status: int | None, number: int | None) -> None:
        if pid != self._pid:
            return
        self._pid, said = None, ""
        if self._link is not None:
            self._link.read()  # what it said last may still lie there
            self._link.close()
        if self._log is not None:
            self._log.finish()
            said = self._log.last_line
        self._link = self._log = None
        self._on_ended(in_words(status, number), said)


def unsent(link: Mapping[str, Any]) -> list[tuple[bytes, list[int]]]:
    """The packets that a link had yet to send when the host executed itself anew."""
    return [(base64.b64decode(data), fds) for data, fds in link["unsent"]]
