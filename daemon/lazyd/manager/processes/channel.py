"""The manager channel of one worker: what it says becomes events, what the core wants becomes messages.

A worker that an earlier manager started is asked first what it holds. Until the core has been
told, everything else that it says is kept back, so that the core hears it in order.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from typing import Any

import msgspec

from lazyd.core.effects import (
    Drain,
    Grant,
    LoadObject,
    ParkObject,
    Resume,
    Revoke,
    UnloadObject,
    UnparkObject,
    Withdraw,
)
from lazyd.core.events import Event, WorkerReport

from .catching_up import missed
from .messages import Report, from_worker
from .packets import PacketSocket

log = logging.getLogger("lazyd.channel")


class Channel:
    """One worker's. `tell` gets its events, unless they are held back."""

    def __init__(self, worker: str, sock: socket.socket, tell: Callable[[Event], None], *, held: bool = False) -> None:
        self.worker = worker
        self._tell = tell
        self._held: list[Event] | None = [] if held else None
        self._known: WorkerReport | None = None
        self.own_report: asyncio.Future[WorkerReport] = asyncio.get_running_loop().create_future()
        """What the worker itself says it holds."""
        self._packets = PacketSocket(sock, self._packet, self._end)

    def release(self, told: WorkerReport) -> None:
        """The core knows `told` now. What the worker has said since follows."""
        held, self._held = self._held or [], None
        if not self.own_report.done():
            self._known = told
        for event in held:
            self._tell(event)

    def finish(self) -> None:
        """The worker has gone: what it said at the end is heard before its exit is told."""
        self._packets.read(batch=1_000_000)
        self.close()

    def close(self) -> None:
        self._packets.close()
        self.own_report.cancel()

    # What the core wants of the worker.

    def load(self, effect: LoadObject) -> None:
        order: dict[str, Any] = {"do": "load", "model": effect.model}
        if effect.warmup:
            order |= {"warmup": effect.warmup, "table": effect.table, "warmed_by": effect.warmed_by}
        self._send(order)

    def unload(self, effect: UnloadObject) -> None:
        self._send({"do": "unload", "model": effect.model})

    def park(self, effect: ParkObject) -> None:
        self._send({"do": "park", "model": effect.model})

    def unpark(self, effect: UnparkObject) -> None:
        self._send({"do": "unpark", "model": effect.model})

    def drain(self, effect: Drain) -> None:
        self._send({"do": "drain", "model": effect.model, "drain": effect.drain, "finish": effect.finish})

    def resume(self, effect: Resume) -> None:
        self._send({"do": "resume", "model": effect.model})

    def grant(self, effect: Grant) -> None:
        self._send(
            {
                "do": "grant",
                "model": effect.model,
                "lease": effect.lease,
                "token": effect.token,
                "holder": effect.holder,
                "hold_until": effect.hold_until,
                "parent": effect.parent,
                **({"route": effect.route} if effect.route is not None else {}),
                **({"shadow": effect.shadow} if effect.shadow is not None else {}),
            }
        )

    def revoke(self, effect: Revoke) -> None:
        self._send({"do": "revoke", "lease": effect.lease})

    def withdraw(self, effect: Withdraw) -> None:
        self._send({"do": "withdraw", "lease": effect.lease})

    def _send(self, message: dict[str, Any]) -> None:
        self._packets.send(message)

    # What the worker says.

    def _packet(self, packet: memoryview) -> None:
        try:
            said = from_worker(packet)
        except msgspec.MsgspecError as error:
            log.warning("worker %s said something that was not understood: %s", self.worker, error)
            return
        if isinstance(said, Report):
            self._report(said.report)
            return
        event = said.event(self.worker)
        if self._held is not None:
            self._held.append(event)
        else:
            self._tell(event)

    def _report(self, report: WorkerReport) -> None:
        if not self.own_report.done():
            self.own_report.set_result(report)
        if self._known is not None:  # it was silent when the core was told what the host knew of it
            known, self._known = self._known, None
            for event in missed(known, report):
                self._tell(event)

    def _end(self) -> None:
        """The host will say that it has gone; until then there is nothing to be heard from it."""
        self.own_report.cancel()
