"""Sees to it that host and workers can be found, although their directory may be deleted while they run.

The directory is looked at before each start of a worker, whose socket goes there, whenever the
manager has the workers measured, and every few seconds while none is connected: the next one
looks there. What is missing is made anew. If another host has taken the place no manager will ever
come here again.
"""

from __future__ import annotations

import socket
from collections.abc import Callable

from .. import places
from ..worker.loop import Loop, Timer
from . import processes
from .door import Door
from .place import InUse, Place

LOOK_EVERY_S = 3.0


class Presence:
    """`on_restored()` is called when the directory has been made anew, `on_replaced(why)` when another
    host lives here and no manager is connected."""

    def __init__(
        self,
        loop: Loop,
        place: Place,
        lock: int,
        door: Door,
        note: Callable[[str], None],
        on_restored: Callable[[], None],
        on_replaced: Callable[[str], None],
    ) -> None:
        self._loop = loop
        self._place = place
        self._lock = lock
        self._door = door
        self._note = note
        self._on_restored = on_restored
        self._on_replaced = on_replaced
        self._next: Timer | None = None

    def watch(self) -> None:
        """There is no manager: looks now, and until `rest`."""
        self.rest()
        self._next = self._loop.after(LOOK_EVERY_S, self.watch)
        try:
            self._restore()
        except InUse as error:
            self.rest()
            self._on_replaced(str(error))

    def rest(self) -> None:
        """There is one."""
        if self._next is not None:
            self._next.cancel()
            self._next = None

    def look(self) -> None:
        """Makes anew what is missing, for a manager that is connected."""
        try:
            self._restore()
        except InUse as error:
            self._note(f"the next manager will not find this host: {error}")

    def _restore(self) -> None:
        """Raises `InUse`."""
        if self._place.is_whole(self._lock):
            return
        try:
            self._place.prepare()
            if not self._place.is_ours(self._lock):
                self._place.lock_anew(self._lock)
                self._place.exchange_identity(processes.identity())
            self._door.reopen(self._place.listen(places.host_socket(self._place.runtime_dir), socket.SOCK_SEQPACKET))
        except OSError as error:
            self._note(f"{self._place.host_dir} was deleted, and cannot be made anew: {error}")
        else:
            self._note(f"{self._place.host_dir} was deleted, wholly or in part, and has been made anew")
            self._on_restored()
