"""How much memory a worker with all its descendants holds.

cgroup v2 charges a page to whoever touched it first, so a model file that was in the page cache
already is charged to nobody here. Hence: anonymous and shared memory as the cgroup counts them,
and file pages by each process's proportional share (``Pss_File``). Without a memory controller:
the proportional share of everything.
"""

from __future__ import annotations

from collections.abc import Iterable

from .cgroups import Cgroup


def memory_bytes(pids: Iterable[int], cgroup: Cgroup | None) -> int:
    """Bytes of RAM of these processes, which are all that the cgroup has."""
    shares = [share for pid in pids if (share := proportional(pid)) is not None]
    charged = cgroup.memory_bytes() if cgroup is not None else None
    if charged is None:
        return sum(share["Pss"] for share in shares)
    return charged + sum(share.get("Pss_File", 0) for share in shares)


def proportional(pid: int) -> dict[str, int] | None:
    """``smaps_rollup`` of a process in bytes; None if it is gone or hidden."""
    try:
        with open(f"/proc/{pid}/smaps_rollup") as file:
            lines = [line.split() for line in file]
    except OSError:
        return None
    return {words[0][:-1]: int(words[1]) * 1024 for words in lines if len(words) == 3 and words[2] == "kB"} or None
