"""Waits for children: those that are known by their pidfd, strays by SIGCHLD.

As a subreaper the host also inherits what dead workers left behind. Strays are only waited for
here; `ending` finds and kills them.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass

from ..worker.loop import Loop

OnExit = Callable[[int | None, int | None], None]
"""Gets the exit status or else the signal that ended the process."""


def in_words(status: int | None, number: int | None) -> str:
    """What an `OnExit` gets: ``status 1``, ``signal 9``."""
    return f"signal {number:d}" if number is not None else f"status {status}"


@dataclass(slots=True)
class _Child:
    pidfd: int
    on_exit: OnExit


class Reaper:
    """All children of this process."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._children: dict[int, _Child] = {}
        self.births = 0
        """Forks under way whose child's pid is not known yet: until it is, it looks like a stray."""

    def watch(self, pid: int, on_exit: OnExit, pidfd: int | None = None) -> None:
        """Calls back once when the child has ended and been waited for. The newest callback counts."""
        if pid in self._children:
            self._children[pid].on_exit = on_exit
            return
        child = _Child(os.pidfd_open(pid) if pidfd is None else pidfd, on_exit)
        self._children[pid] = child
        self._loop.watch(child.pidfd, read=lambda: self._reap(pid))

    def knows(self, pid: int) -> bool:
        return pid in self._children

    def kill(self, pid: int) -> None:
        """SIGKILL for a child that is being watched."""
        child = self._children.get(pid)
        if child is not None:
            signal.pidfd_send_signal(child.pidfd, signal.SIGKILL)

    def pidfd(self, pid: int) -> int:
        return self._children[pid].pidfd

    def sweep(self) -> None:
        """Waits for strays that have ended (on SIGCHLD, and when a birth is over)."""
        while self.births == 0:
            try:
                found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if found is None:
                return
            if found.si_pid in self._children:
                self._reap(found.si_pid)
            else:
                os.waitpid(found.si_pid, 0)

    def _reap(self, pid: int) -> None:
        child = self._children[pid]
        result = os.waitid(os.P_PIDFD, child.pidfd, os.WEXITED | os.WNOHANG)
        if result is None:
            return
        del self._children[pid]
        self._loop.watch(child.pidfd)
        os.close(child.pidfd)
        if result.si_code == os.CLD_EXITED:
            child.on_exit(result.si_status, None)
        else:
            child.on_exit(None, result.si_status)
