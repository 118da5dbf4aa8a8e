"""What happened: the last events, and those who follow them.

A reader that is slower than the events gets what it can: its queue is bounded, the oldest
leave, and every event says how many this reader has missed.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec

from lazyd.core.effects import Note
from lazyd.varlink.call import Call

log = logging.getLogger("lazyd.events")

QUEUE_EVENTS = 1000
"""So many wait for one slow reader."""


class Happened(msgspec.Struct, frozen=True, omit_defaults=True):
    """An event as `Subscribe` sends it."""

    seq: int
    time: float
    """Seconds since 1970."""
    kind: str
    data: dict[str, Any]
    model: str | None = None
    device: str | None = None
    reason: str | None = None


class Journal:
    """Numbers the events and hands them to the readers. `on_note` is called after each."""

    def __init__(self, on_note: Callable[[], None]) -> None:
        self._on_note = on_note
        self._seq = 0
        self._readers: set[Reader] = set()

    def note(self, effect: Note) -> None:
        """An event of the core's."""
        self.add(effect.kind, effect.model, effect.device, effect.reason, effect.data)

    def add(
        self,
        kind: str,
        model: str | None = None,
        device: str | None = None,
        reason: str | None = None,
        data: dict[str, Any] | None = None,
    ) -> None:
        self._seq += 1
        about = " ".join(part for part in (model or device, kind) if part)
        log.info("%s", f"{about}: {reason}" if reason else about)
        if self._readers:
            happened = Happened(self._seq, time.time(), kind, data or {}, model, device, reason)
            for reader in list(self._readers):
                reader.push(happened)
        self._on_note()

    def follow(self, call: Call) -> None:
        """Streams events to a client until it leaves."""
        reader = Reader(call)
        self._readers.add(reader)
        call.on_gone = lambda: self._readers.discard(reader)


class Reader:
    """One client that follows."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._queue: deque[Happened] = deque()
        self._dropped = 0
        call.on_writable = self._flush

    def push(self, happened: Happened) -> None:
        if len(self._queue) >= QUEUE_EVENTS:
            self._queue.popleft()
            self._dropped += 1
        self._queue.append(happened)
        self._flush()

    def _flush(self) -> None:
        while self._queue and self._call.writable and not self._call.ended:
            happened = self._queue.popleft()
            self._call.reply({**msgspec.structs.asdict(happened), "dropped": self._dropped}, continues=True)
