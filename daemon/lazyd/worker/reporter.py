"""Tells the host what this worker holds, so that the host can tell a manager while the worker is silent."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .admission import Admission
    from .link import Link
    from .loop import Loop

PAUSE_S = 0.5
"""Changes of leases alone are reported at most so often."""


class Reporter:
    """Sends reports when something has changed, and not more often than it must."""

    def __init__(self, loop: Loop, host: Link, admission: Admission) -> None:
        self._loop = loop
        self._host = host
        self._admission = admission
        self._head: dict[str, Any] = {}
        self._waiting = False
        self._sent = 0.0

    def begin(self, head: dict[str, Any]) -> None:
        """`head` is what stays the same: worker, endpoint, memo, started."""
        self._head = {**head, "pid": os.getpid()}

    def report(self) -> dict[str, Any]:
        """A `lazyd.core.events.WorkerReport`, as it is now."""
        return {**self._head, **self._admission.report()}

    def note(self, *, at_once: bool) -> None:
        """Something may have changed. `at_once`: the state of an object has."""
        if not self._head:
            return
        if at_once:
            self._send()
        elif not self._waiting:
            self._waiting = True
            self._loop.at(self._sent + PAUSE_S, self._send_waiting)

    def _send_waiting(self) -> None:
        if self._waiting:
            self._send()

    def _send(self) -> None:
        self._waiting = False
        self._sent = time.monotonic()
        self._host.send({"is": "report", "report": self.report()})
