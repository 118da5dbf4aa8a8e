"""The round of all workers that the manager asks for: what each of them holds, and who waits to be reaped."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from ..worker.loop import Loop
from . import measure, processes
from .facts import State
from .worker import Worker


class Rounds:
    """Looks at the `workers` that there are at the time."""

    def __init__(self, loop: Loop, workers: Mapping[str, Worker], tell: Callable[[dict[str, Any]], None]) -> None:
        self._loop = loop
        self._workers = workers
        self._tell = tell
        self._ripe: dict[int, int] = {}
        """Adopted orphans that had ended at the last round: pid and when it was started."""

    def make(self) -> None:
        """Measures one worker at a time, so that nothing waits long, and tells the manager."""
        without_cgroup = any(worker.cgroup is None for worker in self._workers.values())
        everything = processes.table() if without_cgroup else {}
        for worker in self._workers.values():
            self._loop.soon(functools.partial(self._measure, worker, everything))
        self._reap_adopted(everything)

    def _measure(self, worker: Worker, everything: dict[int, processes.Process]) -> None:
        pid = worker.facts.pid
        if pid is None or worker.facts.state is State.GONE:
            return
        pids = worker.cgroup.pids() if worker.cgroup is not None else processes.family(pid, worker.marker, everything)
        worker.facts.measured = {"ram": measure.memory_bytes(pids, worker.cgroup)}
        self._tell({"is": "measured", "worker": worker.id, "bytes": worker.facts.measured})

    def _reap_adopted(self, everything: dict[int, processes.Process]) -> None:
        """Orphans that a worker adopted and that ended need its waiting. Its own children it may still wait
        for itself, so only what left its session counts, and only when seen twice."""
        leaders = {worker.facts.pid: worker for worker in self._workers.values() if worker.cgroup is None}
        seen: dict[int, int] = {}
        for process in everything.values():
            if process.is_dead and process.parent in leaders and process.session != process.parent:
                seen[process.pid] = process.started
                if self._ripe.get(process.pid) == process.started:
                    leaders[process.parent].reap([process.pid])
        self._ripe = seen
