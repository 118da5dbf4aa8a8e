"""What the host knows of a worker, apart from what hangs on descriptors; it outlives an upgrade of the host."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any


class State(enum.StrEnum):
    """See the drawing in `worker`."""

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
    deadline: float | None = None
    """When what is left of it is killed."""
    killed: bool = False
    memory_kills: int = 0
    """How often the kernel had killed for want of memory before it."""
    cgroup: str | None = None
    report: dict[str, Any] = field(default_factory=dict)
    measured: dict[str, int] = field(default_factory=dict)
