"""How much memory a worker with all its descendants holds.

cgroup v2 charges a page to whoever touched it first, so a model file that was in the page cache
already is charged to nobody here. Hence: anonymous and shared memory as the cgroup counts them,
and file pages by each process's proportional share (``Pss_File``). Without a memory controller
anonymous and shared memory are proportional shares too: what workers have in common with the
zygote that they were forked from is divided among them.

For shares the kernel walks over all pages, 20 ms for each GiB, in which the host does nothing else.
So they are looked at for a small part of the time only. What has come since counts by the
counters that the kernel keeps of each process, which cost nothing: memory that is new is nearly
always a process's own.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import NamedTuple

from .cgroups import Cgroup

PART = 0.01
"""Shares of one process are looked at for this part of the time."""


class Memory(NamedTuple):
    """Bytes of RAM."""

    private_bytes: int
    """Anonymous and shared: nobody else can use them."""
    file_bytes: int
    """A share of the pages of files, which the kernel may drop and others may map too."""


class _Look(NamedTuple):
    """At one process."""

    shares: Memory
    counted: Memory
    """By the kernel's counters at that time."""
    good_until: float


class Gauge:
    """Of one worker, which may be asked as often as one likes."""

    def __init__(self) -> None:
        self._looks: dict[int, _Look] = {}

    def memory(self, pids: Iterable[int], cgroup: Cgroup | None) -> Memory:
        """What these processes hold, which are all that the cgroup has. Those that have gone hold nothing."""
        held = {pid: memory for pid in pids if (memory := self._of(pid)) is not None}
        self._looks = {pid: look for pid, look in self._looks.items() if pid in held}
        charged = cgroup.memory_bytes() if cgroup is not None else None
        private = sum(memory.private_bytes for memory in held.values()) if charged is None else charged
        return Memory(private, sum(memory.file_bytes for memory in held.values()))

    def _of(self, pid: int) -> Memory | None:
        look = self._looks.get(pid)
        now = counted(pid)
        if now is None:
            return None
        if look is None or time.monotonic() >= look.good_until:
            began = time.monotonic()
            shares = proportional(pid) or now
            ended = time.monotonic()
            look = self._looks[pid] = _Look(shares, now, ended + (ended - began) / PART)
        return Memory(
            max(0, look.shares.private_bytes + now.private_bytes - look.counted.private_bytes),
            max(0, look.shares.file_bytes + now.file_bytes - look.counted.file_bytes),
        )


def proportional(pid: int) -> Memory | None:
    """The shares of a process by ``smaps_rollup``; None if it is gone, or this kernel does not show them."""
    rows = _kilobytes(f"/proc/{pid}/smaps_rollup")
    return Memory(rows["Pss_Anon"] + rows["Pss_Shmem"], rows["Pss_File"]) if "Pss_Anon" in rows else None


def counted(pid: int) -> Memory | None:
    """What a process has mapped, whoever else has; None if it is gone."""
    rows = _kilobytes(f"/proc/{pid}/status")
    if "RssAnon" not in rows:
        return None
    return Memory(rows["RssAnon"] + rows.get("RssShmem", 0), rows.get("RssFile", 0))


def _kilobytes(path: str) -> dict[str, int]:
    """Rows such as ``Pss:  408 kB`` in bytes; none if the process is gone or hidden."""
    try:
        with open(path) as file:
            lines = [line.split() for line in file]
    except OSError:
        return {}
    return {words[0][:-1]: int(words[1]) * 1024 for words in lines if len(words) == 3 and words[2] == "kB"}
