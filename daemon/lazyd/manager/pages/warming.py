"""Has the host read models' files into the page cache, and lock them where their spec says so.

A model is read by one at a time, whoever asks. That belongs to the manager: it goes on when the client has
gone, as a load does, and ends by `Unload`. Nothing is read unless all of it finds room in memory that is available,
beside `SPARED` of the machine's; reading stops as soon as that is no longer so. So it takes nothing from
anybody but from what else is cached.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from time import monotonic, monotonic_ns
from typing import Any, Protocol

from lazyd.core.answers import Cancelled, LoadFailed, NoRoom, Refusal
from lazyd.core.effects import UnlockFiles
from lazyd.core.events import Event, FilesLocked, FilesUnlocked, LockFiles, MemoryPressure
from lazyd.core.locked import Lock
from lazyd.core.spec import ModelSpec
from lazyd.core.wording import size
from lazyd.devices.source import Sample

from ..apart import Apart
from ..control.requests import Refused, Requests
from ..prediction.predictor import reason_of
from ..processes.hostlink import HostLink
from ..processes.messages import Pages
from ..tasks import Background
from .files import found
from .known import Known
from .orders import OVER, Order, Told, is_over, orders_of

log = logging.getLogger("lazyd.pages")

SPARED = 0.05
"""The part of the machine's memory that stays available to others."""
SILENCE_S = 30.0
"""A disk from which nothing comes for so long is given up."""

Note = Callable[..., None]


class NothingToRead(Exception):
    """The model has no files that are known before it is loaded."""


class Memory(Protocol):
    """The RAM of the machine, or what the host's cgroup leaves of it."""

    def sample(self) -> Sample: ...


class Warming:
    """`locks` are those that the core knows; `note` tells of what happens: kind, model, reason."""

    def __init__(
        self,
        requests: Requests,
        tell: Callable[[Event], None],
        locks: Callable[[], Mapping[str, Lock]],
        link: Callable[[], HostLink | None],
        memory: Memory,
        known: Known,
        background: Background,
        note: Note,
    ) -> None:
        self._requests = requests
        self._tell = tell
        self._locks = locks
        self._link = link
        self._memory = memory
        self._known = known
        self._background = background
        self._note = note
        self._apart = Apart()
        self._orders: dict[str, Order] = {}

    # What clients want.

    def begin(self, key: str, spec: ModelSpec) -> Order:
        """Has the files of a model read, unless that is under way."""
        order = self._orders.get(key)
        if order is None or order.over.done():
            order = self._orders[key] = Order(key, monotonic_ns())
            self._background.once(f"warming of {key}", self._see_through(order, partial(self._read, order, spec)))
        return order

    def cancel(self, key: str) -> None:
        """Nobody wants a model's files read any more. What is locked, the core ends."""
        order = self._orders.get(key)
        if order is not None:
            self._stop(order, Cancelled(model=key))

    def hear_event(self, event: Event) -> None:
        """Where programs stall for want of memory, nothing is read."""
        if isinstance(event, MemoryPressure):
            for order in list(self._orders.values()):
                if order.sent:
                    self._stop(order, self._no_room(order, "programs stall for want of memory"))

    # One order.

    async def _see_through(self, order: Order, work: Callable[[], Awaitable[None]]) -> None:
        """Whatever comes of the work, the order is over then."""
        try:
            await work()
        except NothingToRead as error:
            order.fail(error)
        except Refused as refused:
            order.end(refused.refusal)
        except (OSError, ValueError) as error:
            self._stop(order, LoadFailed(model=order.key, reason=reason_of(error), retry_after_sec=0.0))
        finally:
            order.end(Cancelled(model=order.key))
            if self._orders.get(order.key) is order:
                del self._orders[order.key]

    async def _read(self, order: Order, spec: ModelSpec) -> None:
        """Raises `NothingToRead`, `Refused`, `OSError` or `ValueError`."""
        order.files = await self._apart.ask(spec.identity, partial(found, spec))
        if not order.bytes:
            raise NothingToRead
        self._check_room(order)
        if spec.ram_lock and self._is_locked(order):
            order.end()
            return
        if spec.ram_lock:
            await self._requests.ask(lambda n: LockFiles(request=n, model=order.key, files=order.ids))
            order.lock = True
        if not order.over.done():
            self._send(order)
            await self._until_over(order)

    def _is_locked(self, order: Order) -> bool:
        """All of it, as its files are now."""
        held = self._locks().get(order.key)
        return held is not None and held.since is not None and held.files == order.ids and held.stands

    async def _until_over(self, order: Order) -> None:
        """Waits for the end; a disk that says nothing has no end."""
        while not order.over.done():
            await asyncio.wait([order.over], timeout=SILENCE_S / 4)
            is_silent = order.sent and order.stage != "queued" and monotonic() - order.heard > SILENCE_S
            if is_silent and not order.over.done():
                raise OSError(f"its files do not answer: nothing came for {SILENCE_S:g} s")
        await self._known.look_now(order.key)

    def _room(self) -> tuple[int, int]:
        """Bytes that are available, and how many of them are left to others."""
        sample = self._memory.sample()
        return sample.total_bytes - sample.used_bytes, int(SPARED * sample.total_bytes)

    def _check_room(self, order: Order) -> None:
        """Raises `Refused`: all of it would not find room beside what must stay available."""
        available, spared = self._room()
        if available - spared < order.bytes:
            reason = f"its files are {size(order.bytes)}, and {size(available)} of memory are available, of which "
            raise Refused(self._no_room(order, f"{reason}{size(spared)} are left to others"))

    def _no_room(self, order: Order, reason: str) -> NoRoom:
        available, spared = self._room()
        free = max(0, available - spared)
        return NoRoom(model=order.key, device="ram", needed_bytes=order.bytes, free_bytes=free, reason=reason)

    def _send(self, order: Order) -> None:
        """To the host that is there, or as soon as one is."""
        link = self._link()
        if link is not None and not link.ended.is_set():
            order.sent, order.heard = True, monotonic()
            message = {"model": order.key, "id": order.number, "files": order.files, "lock": order.lock}
            link.send({"do": "warm", **message})
        order.begun.set()

    def _stop(self, order: Order, refusal: Refusal) -> None:
        """It is not read any further."""
        if order.over.done():
            return
        order.end(refusal)
        if not isinstance(refusal, Cancelled):
            self._note("not warmed", model=order.key, reason=getattr(refusal, "reason", ""))
        if order.sent:
            self._let_go(order.key)
        elif order.lock:
            self._tell(FilesUnlocked(model=order.key, reason="it was not read"))

    def _let_go(self, key: str) -> None:
        link = self._link()
        if link is not None and not link.ended.is_set():
            link.send({"do": "let_go", "model": key})

    # What the core wants.

    def unlock(self, effect: UnlockFiles) -> None:
        """Locked, or on their way to be."""
        order = self._orders.get(effect.model)
        if order is not None and order.lock:
            order.end(Cancelled(model=effect.model))
        self._let_go(effect.model)

    # What the host says.

    def connected(self, link: HostLink) -> None:
        """A host is there: what it reads for an earlier manager goes on, and what it was not told is ordered again."""
        told = orders_of(link)
        for key, one in told.items():
            if key not in self._orders and not is_over(one):
                self._adopt(key, one)
        for order in self._orders.values():
            if order.key not in told and order.begun.is_set() and not order.over.done():
                self._send(order)
        link.listen_for_pages(self.hear)

    def _adopt(self, key: str, told: Told) -> None:
        order = self._orders[key] = Order(key, told.id)
        order.files, order.lock, order.sent = list(told.files), told.lock, True
        order.begun.set()
        if told.told is not None:
            self._step(order, told.told)
        self._background.once(f"warming of {key}", self._see_through(order, partial(self._until_over, order)))

    def hear(self, told: Pages) -> None:
        order = self._orders.get(told.model)
        if order is not None and order.sent and told.id not in (0, order.number):
            return  # an order that this one has taken the place of
        if order is not None and order.sent and not order.over.done():
            self._step(order, told)
        if told.stage == "locked":
            self._tell(FilesLocked(model=told.model))
        elif told.stage in OVER and told.model in self._locks():
            self._tell(FilesUnlocked(model=told.model, reason=told.reason or ""))

    def _step(self, order: Order, told: Pages) -> None:
        order.stage, order.heard = told.stage, monotonic()
        if told.stage in OVER:
            self._over(order, told)
            return
        if told.total:
            self._known.set(order.key, told.done / told.total)
        try:
            self._check_room(order)
        except Refused as refused:
            self._stop(order, refused.refusal)
        for follow in list(order.on_step):
            follow()

    def _over(self, order: Order, told: Pages) -> None:
        if told.stage == "failed":
            reason = told.reason or "its files cannot be read"
            self._note("not warmed", model=order.key, reason=reason)
            order.end(LoadFailed(model=order.key, reason=reason, retry_after_sec=0.0))
        elif told.stage == "gone":
            order.end(Cancelled(model=order.key))
        else:
            self._known.set(order.key, 1.0)
            took = monotonic() - order.began
            data: dict[str, Any] = {"bytes": order.bytes, "tookSec": took}
            self._note("warm", model=order.key, reason=f"{size(order.bytes)} were read in {took:.1f} s", data=data)
            if told.reason:
                log.warning("the files of %s are not locked: %s", order.key, told.reason)
            order.end(unlocked=told.reason)
