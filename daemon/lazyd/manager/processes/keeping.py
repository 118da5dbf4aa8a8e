"""What the host keeps for the next manager, because nothing else remembers it: the reservations.

Workers are found again by asking them; a program that lazyd does not run holds its memory without
lazyd's knowing. So the host is told of all reservations whenever they change, and tells them in its hello.
"""

from __future__ import annotations

import logging
import os
from typing import Any

import msgspec

from lazyd.core.effects import KeepReservations
from lazyd.core.events import ReservationReport

from .hostlink import HostLink

log = logging.getLogger("lazyd.keeping")


class _Kept(msgspec.Struct):
    reservations: tuple[ReservationReport, ...] = ()


class Keeping:
    """Tells the host that is connected; one that comes later is told the same."""

    def __init__(self) -> None:
        self._link: HostLink | None = None
        self._kept: _Kept | None = None

    def connected(self, link: HostLink) -> None:
        self._link = link
        self._tell()

    def keep(self, effect: KeepReservations) -> None:
        self._kept = _Kept(effect.reservations)
        self._tell()

    def _tell(self) -> None:
        if self._link is not None and self._kept is not None:
            self._link.send({"do": "keep", "what": self._kept})


def reservations(kept: Any) -> tuple[ReservationReport, ...]:
    """Those that an earlier manager had the host keep, and whose process may claim them again. None of them, if its
    version wrote them otherwise."""
    if kept is None:
        return ()
    try:
        known = msgspec.convert(kept, _Kept).reservations
    except msgspec.ValidationError as error:
        log.warning("the reservations of an earlier manager are not understood: %s", error)
        return ()
    return tuple(report for report in known if may_live(report.pid))


def may_live(pid: int) -> bool:
    """Whether a client may still be there. One of another container has no pid here (0)."""
    if pid <= 0:
        return True
    try:
        os.kill(pid, 0)
    except OSError as error:
        return not isinstance(error, ProcessLookupError)
    return True
