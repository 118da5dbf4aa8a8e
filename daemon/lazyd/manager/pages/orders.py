"""What a manager has a host read and lock: the order for one model, and how the host tells of it later."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from time import monotonic

import msgspec

from lazyd.core.answers import Refusal
from lazyd.core.events import LockReport

from ..control.requests import Refused
from ..processes.hostlink import HostLink
from ..processes.messages import Pages
from .files import File

log = logging.getLogger("lazyd.pages")

OVER = frozenset({"warm", "locked", "failed", "gone"})
"""Stages that a host tells of last."""


class Told(msgspec.Struct):
    """One order, as the host tells of it to a manager that has found it."""

    id: int
    files: list[File]
    lock: bool = False
    told: Pages | None = None


class Order:
    """The files of one model on their way into memory."""

    def __init__(self, key: str, number: int) -> None:
        self.key = key
        self.number = number
        self.files: list[File] = []
        self.lock = False
        self.began = monotonic()
        self.heard = monotonic()
        self.sent = False
        self.stage = ""
        self.begun = asyncio.Event()
        """It is being read, or all is over."""
        self.over: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        """Why it could not be locked, where it was to be. Raises `Refused`."""
        self.over.add_done_callback(lambda over: over.cancelled() or over.exception())
        self.on_step: set[Callable[[], None]] = set()

    @property
    def bytes(self) -> int:
        return sum(file.bytes for file in self.files)

    @property
    def ids(self) -> dict[str, int]:
        return {file.id: file.bytes for file in self.files}

    def fail(self, error: Exception) -> None:
        if not self.over.done():
            self.over.set_exception(error)
        self.begun.set()

    def end(self, refusal: Refusal | None = None, unlocked: str | None = None) -> None:
        if not self.over.done():
            if refusal is not None:
                self.over.set_exception(Refused(refusal))
            else:
                self.over.set_result(unlocked)
        self.begun.set()


def orders_of(link: HostLink) -> dict[str, Told]:
    """What a host was told by an earlier manager; nothing, if that was of another version."""
    try:
        return msgspec.convert(link.hello.pages or {}, dict[str, Told])
    except msgspec.ValidationError as error:
        log.warning("what the host reads for an earlier manager is not understood: %s", error)
        return {}


def locks(link: HostLink) -> tuple[LockReport, ...]:
    """What it has locked, or is to lock."""
    return tuple(
        LockReport(
            model=key,
            files={file.id: file.bytes for file in told.files},
            locked=told.told is not None and told.told.stage == "locked",
        )
        for key, told in orders_of(link).items()
        if told.lock
    )


def is_over(told: Told) -> bool:
    """Nothing more comes of it."""
    return told.told is not None and told.told.stage in OVER
