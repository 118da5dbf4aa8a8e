"""Whether the kernel killed for want of memory.

A cgroup counts that for itself. Without one all there is to see is a SIGKILL that nobody here
sent, while the count of the whole machine grew.
"""

from __future__ import annotations

from .cgroups import Cgroup


def kills(cgroup: Cgroup | None) -> int:
    """How often it has, in the cgroup or else on the machine."""
    counted = cgroup.memory_kills() if cgroup is not None else None
    return _machine() if counted is None else counted


def _machine() -> int:
    try:
        with open("/proc/vmstat") as file:
            return next((int(line.split()[1]) for line in file if line.startswith("oom_kill ")), 0)
    except OSError:
        return 0
