"""What the host knows of a worker, and tells of it, apart from descriptors; it outlives an upgrade of the host."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any


class State(enum.StrEnum):
    """See the drawing in `lazyd.host.worker`."""

    STARTING = "starting"
    RUNNING = "running"
    LEAVING = "leaving"
    ENDING = "ending"
    GONE = "gone"


@dataclass(slots=True)
class Facts:
    """One worker."""

    id: str
    model: str
    spec: dict[str, Any]
    devices: list[str]
    memo: dict[str, Any]
    started: float
    state: State = State.STARTING
    pid: int | None = None
    status: int | None = None
    signal: int | None = None
    reason: str | None = None
    out_of_memory: bool = False
    """It ended for want of memory."""
    deadline: float | None = None
    """When what is left of it is killed."""
    killed: bool = False
    memory_kills: int = 0
    """How often the kernel had killed for want of memory before it."""
    cgroup: str | None = None
    report: dict[str, Any] = field(default_factory=dict)
    measured: dict[str, int] = field(default_factory=dict)

    def as_report(self, endpoint: str) -> dict[str, Any]:
        """Its own last report, as far as it counts any more, with what only the host knows."""
        lives = self.state in (State.STARTING, State.RUNNING)
        return {
            "objects": self.report.get("objects", []) if lives else [],
            "leases": self.report.get("leases", []) if lives else [],
            "worker": self.id,
            "pid": self.pid or 0,
            "started": self.started,
            "endpoint": endpoint,
            "memo": self.memo,
            "measuredBytes": self.measured,
        }

    def as_exited(self, log: str) -> dict[str, Any]:
        """What the manager is told when nothing of it is left; `log` is the last that it wrote."""
        return {
            "is": "exited",
            "worker": self.id,
            "status": self.status,
            "signal": self.signal,
            "log": log,
            "reason": self.reason,
            "out_of_memory": self.out_of_memory,
        }
