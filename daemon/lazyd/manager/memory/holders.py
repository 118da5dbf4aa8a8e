"""Who holds what a device shows: the processes of lazyd's workers, those of reservations, and others."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping

import msgspec


class Holdings(msgspec.Struct, frozen=True):
    """What one sample shows, by holder."""

    held_bytes: dict[str, int] = {}
    """By worker or reservation. What the device does not show is left out."""
    listed_bytes: int = 0
    """Of all other processes."""
    strangers: frozenset[int] = frozenset()
    """The ids of those."""


def by_holder(processes: Mapping[int, int], holders: Mapping[str, Collection[int]]) -> Holdings:
    """Bytes by process, told by the processes that each holder has."""
    owner = {pid: holder for holder, pids in holders.items() for pid in pids}
    held: dict[str, int] = {}
    listed = 0
    for pid, used in processes.items():
        if pid in owner:
            held[owner[pid]] = held.get(owner[pid], 0) + used
        else:
            listed += used
    return Holdings(held, listed, frozenset(processes.keys() - owner.keys()))


# Of programs that lazyd does not run. These block, and are called in a device's thread.


def below(pids: Iterable[int], roots: Mapping[str, int]) -> dict[str, list[int]]:
    """Which of these processes are a holder's root or have it as an ancestor, the nearest where there are several.

    A GPU may be looked at a hundred times a second, and few processes use it: so one asks upwards from those, and
    does not read all of ``/proc``.
    """
    holders = {pid: holder for holder, pid in roots.items()}
    found: dict[str, list[int]] = {holder: [] for holder in roots}
    parents: dict[int, int] = {}
    for pid in pids if roots else ():
        at = pid
        while at not in holders and at > 1:
            if at not in parents:
                parents[at] = _parent(at)
            at = parents[at]
        if at in holders:
            found[holders[at]].append(pid)
    return found


def _parent(pid: int) -> int:
    """0 if the process is gone or hidden."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return int(file.read().rpartition(b")")[2].split()[1])
    except (OSError, IndexError):
        return 0


def tree(pid: int) -> list[int]:
    """A process and all its descendants that still have it as an ancestor; empty if it is gone or hidden."""
    found = [pid] if os.path.exists(f"/proc/{pid}") else []
    for one in found:  # which grows
        children = _children(one)
        if children is None:
            return _tree(pid)
        found += children
    return found


def _children(pid: int) -> list[int] | None:
    """None: this kernel does not tell it."""
    threads = f"/proc/{pid}/task"
    try:
        names = os.listdir(threads)
    except OSError:
        return []
    found: list[int] = []
    for name in names:
        try:
            with open(f"{threads}/{name}/children", encoding="ascii") as file:
                found += map(int, file.read().split())
        except FileNotFoundError:
            if os.path.exists(f"{threads}/{name}"):
                return None
        except OSError:
            continue  # the thread has just ended
    return found


def _tree(pid: int) -> list[int]:
    """The same by all of ``/proc``."""
    import psutil

    try:
        return [pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))]
    except psutil.Error:
        return []


def name_of(pid: int) -> str | None:
    """What the kernel calls a process; it never waits, as the command line might."""
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
            return file.read().strip() or None
    except OSError:
        return None


def private_bytes(pids: Iterable[int]) -> int:
    """Anonymous and shared memory of processes. Where the kernel does not let their proportional share be read,
    what forked processes have in common counts in each of them."""
    return sum(_private(pid) for pid in pids)


def _private(pid: int) -> int:
    for name, fields in (("smaps_rollup", ("Pss_Anon", "Pss_Shmem")), ("status", ("RssAnon", "RssShmem"))):
        try:
            with open(f"/proc/{pid}/{name}", encoding="utf-8", errors="replace") as file:
                lines = [line.split() for line in file]
        except OSError:
            continue
        found = [int(words[1]) * 1024 for words in lines if len(words) == 3 and words[0].rstrip(":") in fields]
        if found:
            return sum(found)
    return 0
