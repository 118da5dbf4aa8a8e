"""The rounds that the manager asks for: what each worker holds, and who waits to be reaped.

A round of all workers is for now and then. While a worker loads the manager asks for it alone, and
often, as its peak may be gone a moment later.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping
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
        self._gauges: dict[str, measure.Gauge] = {}
        self._ripe: dict[int, int] = {}
        """Adopted orphans that had ended at the last round: pid and when it was started."""

    def make(self, only: Collection[str] | None = None) -> None:
        """Measures all workers, or these, one at a time so that nothing waits long, and tells the manager of each."""
        self._gauges = {name: gauge for name, gauge in self._gauges.items() if name in self._workers}
        workers = [worker for worker in self._workers.values() if only is None or worker.id in only]
        everything = processes.table() if any(worker.cgroup is None for worker in workers) else {}
        for worker in workers:
            self._loop.soon(functools.partial(self._measure, worker, everything))
        if only is None:
            self._reap_adopted(everything)

    def _measure(self, worker: Worker, everything: dict[int, processes.Process]) -> None:
        """One that has no process yet holds nothing; one that has gone was told to have."""
        if worker.facts.state is State.GONE:
            return
        pids = sorted(_processes(worker, everything))
        held = self._gauges.setdefault(worker.id, measure.Gauge()).memory(pids, worker.cgroup)
        worker.facts.measured = {"ram": held.private_bytes}
        told = {"bytes": worker.facts.measured, "files": held.file_bytes, "pids": pids}
        self._tell({"is": "measured", "worker": worker.id, **told})

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


def _processes(worker: Worker, everything: dict[int, processes.Process]) -> Collection[int]:
    """All pids of a worker. Without a cgroup it adopts its orphans, so whatever it has started is below it."""
    if worker.cgroup is not None:
        return worker.cgroup.pids()
    leader = worker.facts.pid
    return () if leader is None else processes.with_descendants([leader], everything)
