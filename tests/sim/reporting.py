"""What a simulated worker tells of itself: to a manager that attaches, and to the host all along."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lazyd.core import events

if TYPE_CHECKING:
    from .worker import SimWorker

REPORTED_EVERY_S = 0.5
"""The host hears of leases at most so often."""


class Reporter:
    """Keeps what the host last heard of a worker, in case a manager comes while the worker is silent."""

    def __init__(self, worker: SimWorker) -> None:
        self.worker = worker
        self.last: events.WorkerReport | None = None
        self._sent = self._next = 0.0

    def note(self, *, at_once: bool) -> None:
        """Something has changed. The host is told at once of an object, and of leases twice a second."""
        world = self.worker.world
        if not world.may_be_silent or self.worker.gone:
            return
        now = world.clock.now
        if at_once or now >= self._sent + REPORTED_EVERY_S:
            self._sent = now
            self.last = self.report()
        elif self._sent + REPORTED_EVERY_S != self._next:
            self._next = self._sent + REPORTED_EVERY_S
            world.clock.at(self._next, self._note_later, self._sent)

    def _note_later(self, sent: float) -> None:
        if sent == self._sent:
            self.note(at_once=True)

    def report(self) -> events.WorkerReport:
        """What it holds now."""
        worker = self.worker
        report = worker.admission.report()
        return events.WorkerReport(
            worker=worker.id,
            pid=worker.pid,
            started=worker.started,
            endpoint=f"/run/lazyd/host/w/{worker.id}.sock",
            memo=worker.memo,
            objects=tuple(_object_report(known) for known in report["objects"]),
            leases=tuple(_lease_report(known) for known in report["leases"]),
            measured_bytes=worker.measured,
            calls=report["calls"],
        )


def _object_report(known: dict[str, Any]) -> events.ObjectReport:
    return events.ObjectReport(
        model=known["model"],
        state=known["state"],
        since=known["since"],
        load_s=known["loadS"],
        last_used=known["lastUsed"],
        parks=known["parks"],
        warmup=known["warmup"],
        warmup_s=known["warmupS"],
        runtime=known["runtime"],
        problem=known["problem"],
    )


def _lease_report(known: dict[str, Any]) -> events.LeaseReport:
    return events.LeaseReport(
        lease=known["lease"],
        token=known["token"],
        model=known["model"],
        holder=known["holder"],
        granted=known["granted"],
        presented=known["presented"],
        called=known["called"],
        in_flight=known["inFlight"],
        hold_until=known["holdUntil"],
        parent=known["parent"],
    )
