"""Ends a worker with everything that ever descended from it, and says when all of it is gone.

With a cgroup that is one word to the kernel. Without, the process table is searched for the
worker's family (see `processes.family`) and for strays: children of the host that it never
started can only be what a dead worker left behind. What was forked between looking and killing is
found by looking again, until nothing is there.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable

from ..worker.loop import Loop
from . import processes
from .cgroups import Cgroup
from .reaper import Reaper

_AGAIN_S = 0.005


def end_family(
    loop: Loop, reaper: Reaper, cgroup: Cgroup | None, leader: int | None, marker: str, on_empty: Callable[[], None]
) -> None:
    """Kills all of a worker; calls back when nothing is left. Its marker tells its family if it has no cgroup."""
    if cgroup is not None:
        CgroupEnding(loop, cgroup, on_empty).begin()
    else:
        TableEnding(loop, reaper, leader, marker, on_empty).begin()


class CgroupEnding:
    """Kills a cgroup; calls back when it is empty."""

    def __init__(self, loop: Loop, cgroup: Cgroup, on_empty: Callable[[], None]) -> None:
        self._loop = loop
        self._cgroup = cgroup
        self._on_empty = on_empty
        self._done = False

    def begin(self) -> None:
        with contextlib.suppress(OSError):  # it is gone, so it is empty
            self._cgroup.when_changed(self._loop, self._look)
        self._cgroup.kill()
        self._look()

    def _look(self) -> None:
        if not self._done and self._cgroup.is_empty():
            self._done = True
            self._cgroup.stop_watching(self._loop)
            self._on_empty()


class TableEnding:
    """Kills by the process table; calls back when nothing is left."""

    def __init__(
        self, loop: Loop, reaper: Reaper, leader: int | None, marker: str, on_empty: Callable[[], None]
    ) -> None:
        self._loop = loop
        self._reaper = reaper
        self._leader = leader
        self._marker = marker
        self._on_empty = on_empty
        self._dying: dict[int, int] = {}

    def begin(self) -> None:
        self._round()

    def _round(self) -> None:
        everything = processes.table()
        found = processes.family(self._leader or -1, self._marker, everything)
        is_reaped = self._leader is None or not self._reaper.knows(self._leader)
        if is_reaped and not self._reaper.births:
            found |= self._strays(everything)
        for pid in found - {os.getpid()}:
            self._kill(pid)
        if self._dying:
            return
        if not is_reaped or self._reaper.births:  # a worker that is being born looks like a stray
            self._loop.after(_AGAIN_S, self._round)
        else:
            self._reaper.sweep()
            self._on_empty()

    def _strays(self, everything: dict[int, processes.Process]) -> set[int]:
        mine = {
            process.pid
            for process in everything.values()
            if process.parent == os.getpid() and not process.is_dead and not self._reaper.knows(process.pid)
        }
        return {pid for pid in processes.with_descendants(mine, everything) if not everything[pid].is_dead}

    def _kill(self, pid: int) -> None:
        with contextlib.suppress(OSError):
            pidfd = os.pidfd_open(pid)
            self._dying[pid] = pidfd
            self._loop.watch(pidfd, read=lambda: self._died(pid))
            signal.pidfd_send_signal(pidfd, signal.SIGKILL)

    def _died(self, pid: int) -> None:
        pidfd = self._dying.pop(pid)
        self._loop.watch(pidfd)
        os.close(pidfd)
        if not self._dying:
            self._round()
