"""What host and workers say, as structs told apart by ``is``, and the events they become.

A report keeps the shape of `lazyd.core.events.WorkerReport`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from lazyd.core import events
from lazyd.core.events import Event, WorkerReport
from lazyd.core.meanings import Compared


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")


class Said(msgspec.Struct, frozen=True, tag_field="is", tag=_snake):
    """Base of all messages."""


# From the host.


class Hello(Said, frozen=True):
    pid: int
    version: str
    started: float
    cgroup: str | None = None
    """What it reads in its own ``/proc/self/cgroup``, which the manager may not be shown."""
    kept: Any = None
    """What an earlier manager had it keep (see `lazyd.manager.processes.keeping`)."""
    pages: Any = None
    """The files that an earlier manager had it read or lock (see `lazyd.manager.pages.orders`)."""


class Worker(Said, frozen=True):
    report: WorkerReport


class All(Said, frozen=True):
    """The workers have all been told."""


class Started(Said, frozen=True):
    worker: str
    pid: int


class Exited(Said, frozen=True):
    worker: str
    status: int | None = None
    signal: int | None = None
    log: str = ""
    reason: str | None = None
    """Why it could not be started at all."""
    out_of_memory: bool = False

    def event(self) -> Event:
        return events.WorkerExited(
            worker=self.worker,
            status=self.status,
            signal=self.signal,
            log="\n".join(part for part in (self.log, self.reason) if part),
            out_of_memory=self.out_of_memory,
        )


class Measured(Said, frozen=True):
    worker: str
    bytes: dict[str, int]
    """Of RAM: anonymous and shared memory."""
    files: int = 0
    """Bytes: its share of the pages of files that it maps."""
    pids: list[int] = []
    """All its processes."""

    def event(self) -> Event:
        return events.WorkerMeasured(worker=self.worker, bytes_by_device=self.bytes, file_bytes=self.files)


class DryRun(Said, frozen=True):
    """Answers the order of the same `id`: what the runtime has found out, or why it has not."""

    id: int
    result: dict[str, Any] | None = None
    reason: str | None = None


class Pages(Said, frozen=True):
    """How far the order of this `id`, to read a model's files, has come (see `lazyd.host.warmer`)."""

    model: str
    id: int
    stage: str
    done: int = 0
    total: int = 0
    """Bytes."""
    reason: str | None = None


class Proxy(Said, frozen=True):
    """What is wrong with the addresses of services, by model (see `lazyd.proxy`)."""

    problems: dict[str, str]


FromHost = Hello | Worker | All | Started | Exited | Measured | DryRun | Pages | Proxy


# From a worker, over its manager channel.


class Report(Said, frozen=True):
    report: WorkerReport


class Progress(Said, frozen=True):
    model: str
    phase: str
    fraction: float | None = None

    def event(self, worker: str) -> Event:
        return events.LoadProgress(worker=worker, model=self.model, phase=self.phase, fraction=self.fraction)


class Warming(Said, frozen=True):
    model: str
    call: int
    calls: int
    spent_s: float = 0.0
    runs: bool = True

    def event(self, worker: str) -> Event:
        return events.ObjectWarming(
            worker=worker,
            model=self.model,
            call=self.call,
            calls=self.calls,
            spent_s=self.spent_s,
            runs=self.runs,
        )


class Ready(Said, frozen=True):
    model: str
    parks: bool = False
    url: str | None = None
    warmup: str = ""
    warmup_s: float = 0.0
    runtime: str = ""

    def event(self, worker: str) -> Event:
        return events.ObjectReady(
            worker=worker,
            model=self.model,
            parks=self.parks,
            url=self.url,
            warmup=self.warmup,
            warmup_s=self.warmup_s,
            runtime=self.runtime,
        )


class WarmedUp(Said, frozen=True):
    """A warm-up beside the calls of others has ended."""

    model: str
    warmup_s: float = 0.0
    runtime: str = ""
    problem: str | None = None
    traceback: str = ""
    out_of_memory: bool = False

    def event(self, worker: str) -> Event:
        return events.WarmupEnded(
            worker=worker,
            model=self.model,
            warmup_s=self.warmup_s,
            runtime=self.runtime,
            problem=self.problem,
            out_of_memory=self.out_of_memory,
        )


class Failed(Said, frozen=True):
    model: str
    reason: str
    traceback: str = ""
    out_of_memory: bool = False

    def event(self, worker: str) -> Event:
        return events.ObjectFailed(
            worker=worker, model=self.model, reason=self.reason, out_of_memory=self.out_of_memory
        )


class Unloaded(Said, frozen=True):
    model: str

    def event(self, worker: str) -> Event:
        return events.ObjectUnloaded(worker=worker, model=self.model)


class Parked(Said, frozen=True):
    model: str

    def event(self, worker: str) -> Event:
        return events.ObjectParked(worker=worker, model=self.model)


class ParkFailed(Said, frozen=True):
    model: str
    reason: str

    def event(self, worker: str) -> Event:
        return events.ParkFailed(worker=worker, model=self.model, reason=self.reason)


class Used(Said, frozen=True):
    calls: int

    def event(self, worker: str) -> Event:
        return events.WorkerUsed(worker=worker, calls=self.calls)


class RanOut(Said, frozen=True):
    model: str

    def event(self, worker: str) -> Event:
        return events.RanOut(worker=worker, model=self.model)


class Presented(Said, frozen=True):
    lease: str

    def event(self, worker: str) -> Event:
        return events.LeasePresented(worker=worker, lease=self.lease)


class Closed(Said, frozen=True):
    lease: str

    def event(self, worker: str) -> Event:
        return events.LeaseClosed(worker=worker, lease=self.lease)


class Busy(Said, frozen=True):
    lease: str

    def event(self, worker: str) -> Event:
        return events.LeaseBusy(worker=worker, lease=self.lease)


class Idle(Said, frozen=True):
    lease: str
    ok: bool = True
    """Of the only call."""
    calls: int = 1
    failed: int = 0
    """Told only where there were several calls."""

    def event(self, worker: str) -> Event:
        failed = self.failed if self.calls > 1 else int(not self.ok)
        return events.LeaseIdle(worker=worker, lease=self.lease, calls=self.calls, failed=failed)


class Shadowed(Said, frozen=True):
    name: str
    shadow: str
    compared: Compared

    def event(self, worker: str) -> Event:  # noqa: ARG002  whichever worker has repeated them
        return events.Shadowed(name=self.name, shadow=self.shadow, compared=self.compared)


class Drained(Said, frozen=True):
    model: str
    drain: int

    def event(self, worker: str) -> Event:
        return events.Drained(worker=worker, model=self.model, drain=self.drain)


class StillBusy(Said, frozen=True):
    model: str
    drain: int

    def event(self, worker: str) -> Event:
        return events.StillBusy(worker=worker, model=self.model, drain=self.drain)


FromWorker = (
    Report
    | Progress
    | Warming
    | Ready
    | WarmedUp
    | Failed
    | Unloaded
    | Parked
    | ParkFailed
    | Used
    | RanOut
    | Presented
    | Closed
    | Busy
    | Idle
    | Shadowed
    | Drained
    | StillBusy
)

from_host = msgspec.json.Decoder(FromHost).decode
from_worker = msgspec.json.Decoder(FromWorker).decode
