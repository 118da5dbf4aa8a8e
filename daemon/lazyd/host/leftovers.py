"""Ends what a host that was killed has left: workers die with it, but not the daemons that they started.

They are known by the marker that everything below a host inherits, and by their cgroups. A host
writes down what it is called, so that its successor in the same place knows what to look for; the
leftovers of other hosts are none of its business.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time

from . import cgroups, processes

LIMIT_S = 2.0
"""For so long the end of what was killed is waited for."""
_LOOK_S = 0.005


def end(identity: str) -> int:
    """Kills what is left of the host that had this identity; how many processes that were."""
    groups = cgroups.left_by(int(identity.partition("-")[0]))
    pids = processes.marked(f"@{identity}").union(*(group.pids() for group in groups)) - {os.getpid()}
    for group in groups:
        group.kill()
    for pid in pids:
        with contextlib.suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + LIMIT_S
    while any(map(_is_alive, pids)) and time.monotonic() < deadline:
        time.sleep(_LOOK_S)
    return len(pids)


def _is_alive(pid: int) -> bool:
    process = processes.look(pid)
    return process is not None and not process.is_dead
