"""Whether a worker ended for want of memory.

The kernel's kills a cgroup counts for itself. Without one all there is to see is a SIGKILL that nobody
here sent, while the count of the whole machine grew. A library that finds no memory often aborts
the process; then the last lines that it wrote say why.
"""

from __future__ import annotations

import signal

from ..runtimes import runtime_named
from .cgroups import Cgroup

VMSTAT = "/proc/vmstat"
_FROM_OUTSIDE = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
"""Whoever sent one of these did so for reasons of his own."""


def kills(cgroup: Cgroup | None) -> int:
    """How often the kernel has killed for want of memory, in the cgroup or else on the machine."""
    counted = cgroup.memory_kills() if cgroup is not None else None
    return _machine() if counted is None else counted


def is_told(runtime: str, status: int | None, ended_by: int | None, lines: str) -> bool:
    """Whether a process that ended so has written that it found no memory."""
    failed = ended_by not in _FROM_OUTSIDE if ended_by is not None else status not in (None, 0)
    return failed and runtime_named(runtime).OUT_OF_MEMORY.search(lines) is not None


def _machine() -> int:
    try:
        with open(VMSTAT) as file:
            return next((int(line.split()[1]) for line in file if line.startswith("oom_kill ")), 0)
    except OSError:
        return 0
