"""The memory of the machine, or what the cgroup of lazyd's workers leaves of it.

The limit is the smallest of the machine's memory and the limits of the cgroup and all that
are above it, version 2 or 1, so it is right in a container and under ``MemoryMax=``. File
pages that the kernel may drop count as free.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from time import monotonic

from .source import HOST, Sample

NAME = "ram"

_UNLIMITED = 1 << 60
"""Version 1 writes "no limit" as a number near 2**63."""


class Ram:
    """Looks at memory as a process of one cgroup may use it.

    That is the cgroup of the process `pid` (None: this one), or, where ``/proc`` hides that, the
    one that `membership` names: what the process itself reads in its ``/proc/self/cgroup``.
    """

    def __init__(self, pid: int | None = None, *, proc: str = "/proc", cgroups: str = "/sys/fs/cgroup") -> None:
        self.pid = pid
        self.membership: str | None = None
        self._proc = proc
        self._cgroups = cgroups

    def names(self) -> list[str]:
        return [NAME]

    def sample(self, name: str = NAME) -> Sample:
        """Raises `OSError`: ``/proc`` cannot be read."""
        begun = monotonic()
        machine = _table(os.path.join(self._proc, "meminfo"))
        total = machine["MemTotal"] * 1024
        free = machine.get("MemAvailable", machine.get("MemFree", 0)) * 1024
        for _, limit, used in self._limits():
            total = min(total, limit)
            free = min(free, limit - used)
        free = min(max(free, 0), total)
        return Sample(name=name, kind=HOST, total_bytes=total, used_bytes=total - free, begun=begun)

    def pressure_file(self) -> str:
        """Where the kernel says how long programs stall for want of this memory.

        If a cgroup leaves less than the machine has, it is the cgroup's own file: in a container the
        machine's would tell of other containers' stalls.
        """
        total = _table(os.path.join(self._proc, "meminfo"))["MemTotal"] * 1024
        limited = min(self._limits(), key=lambda found: found[1], default=None)
        if limited is not None and limited[1] < total:
            path = os.path.join(limited[0], "memory.pressure")
            if os.path.exists(path):
                return path
        return os.path.join(self._proc, "pressure", "memory")

    def _limits(self) -> Iterator[tuple[str, int, int]]:
        """Directory, limit and use of every cgroup that has a limit, from the innermost outwards."""
        for directory, names in self._directories():
            limit = _number(os.path.join(directory, names[0]))
            used = _number(os.path.join(directory, names[1]))
            if limit is None or used is None or limit >= _UNLIMITED:
                continue
            try:
                pages = _table(os.path.join(directory, "memory.stat"))
            except OSError:
                pages = {}  # the cgroup has gone since
            droppable = pages.get(f"{names[2]}active_file", 0) + pages.get(f"{names[2]}inactive_file", 0)
            yield directory, limit, max(used - droppable, 0)

    def _directories(self) -> Iterator[tuple[str, tuple[str, str, str]]]:
        """The directories of the cgroup and its parents, with the names of their files."""
        for line in self._membership().splitlines():
            _, controllers, path = line.split(":", 2)
            if not controllers:
                names = ("memory.max", "memory.current", "")
                top = self._cgroups
            elif "memory" in controllers.split(","):
                names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_")
                top = os.path.join(self._cgroups, "memory")
            else:
                continue
            parts = [part for part in path.split("/") if part not in ("", "..")]
            for depth in range(len(parts), -1, -1):
                yield os.path.join(top, *parts[:depth]), names

    def _membership(self) -> str:
        if self.membership is not None:
            return self.membership
        try:
            with open(os.path.join(self._proc, str(self.pid or "self"), "cgroup"), encoding="utf-8") as file:
                return file.read()
        except OSError:
            return ""  # the process has gone: the next sample will know its successor


def _number(path: str) -> int | None:
    """A file that holds one number; None: there is none, or it says ``max``."""
    try:
        with open(path, encoding="ascii") as file:
            return int(file.read())
    except (OSError, ValueError):
        return None


def _table(path: str) -> dict[str, int]:
    """A file of lines ``name: number unit`` or ``name number``. Raises `OSError`."""
    table: dict[str, int] = {}
    with open(path, encoding="ascii") as file:
        for line in file:
            name, number = line.split()[:2]
            table[name.rstrip(":")] = int(number)
    return table
