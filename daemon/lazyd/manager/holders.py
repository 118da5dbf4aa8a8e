"""Who holds what a device shows: the processes of lazyd's workers, those of reservations, and others."""

from __future__ import annotations

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


# Of programs that lazyd does not run. Both block, and are called in a device's thread.


def tree(pid: int) -> list[int]:
    """A process and all its descendants that still have it as an ancestor; empty if it is gone or hidden."""
    import psutil  # 20 ms, and only those who reserve need it

    try:
        process = psutil.Process(pid)
        return [pid, *(child.pid for child in process.children(recursive=True))]
    except psutil.Error:
        return []


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
