"""The workers that are alive, as the shell sees them: a channel each, and what was measured.

Starting, attaching and ending go by way of the host, everything else over the worker's channel.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import Callable, Collection, Container, Coroutine
from functools import partial
from typing import Any

from lazyd.core.effects import StartWorker, StopWorker
from lazyd.core.events import Event, WorkerExited, WorkerReport, WorkerStarted
from lazyd.core.spec import ModelSpec
from lazyd.wire import packets

from ..apart import Apart
from ..prediction.predictor import reason_of
from .channel import Channel
from .environment import as_told, told_with_files
from .hostlink import HostLink
from .messages import Exited, FromHost, Measured, Started
from .placing import Gpus, placement

log = logging.getLogger("lazyd.workers")


class Workers:
    """`tell` gets the events of all workers; `spec_of` finds the spec of a key; `run` runs a short task. `counted`
    are the workers that the core counts with: also those that have ended and whose bytes have yet to come back."""

    def __init__(
        self,
        tell: Callable[[Event], None],
        spec_of: Callable[[str], ModelSpec | None],
        run: Callable[[str, Coroutine[Any, Any, None]], None],
        counted: Callable[[], Container[str]] = tuple,
    ) -> None:
        self._tell = tell
        self._spec_of = spec_of
        self._run = run
        self._counted = counted
        self.gpus = Gpus()
        self._link: HostLink | None = None
        self.channels: dict[str, Channel] = {}
        self.pids: dict[str, list[int]] = {}
        """All processes of each worker that lives, as last measured."""
        self._ended: dict[str, list[int]] = {}
        """Those of workers that have ended, as long as they are counted with."""
        self.measured: dict[str, dict[str, int]] = {}
        """Bytes of RAM that are each worker's own, by device: anonymous and shared memory."""
        self.file_bytes: dict[str, int] = {}
        """Each worker's share of the pages of files that it maps."""
        self._apart = Apart()
        self._preparing: set[str] = set()
        """Workers whose start waits for a file to be read."""
        self._rounds: list[_Round] = []
        self.none_left = asyncio.Event()
        self.none_left.set()

    # The host comes and goes.

    @property
    def link(self) -> HostLink | None:
        """To the host that is there."""
        return self._link

    def connect(self, link: HostLink) -> None:
        self._link = link

    def disconnect(self) -> None:
        """The host is lost, and the workers with it."""
        self._link = None
        for worker in list(self.channels):
            self._forget(worker)
        self._preparing.clear()

    def attach(self, told: WorkerReport) -> Channel:
        """Gives a worker that runs already a new channel, whose events are held back at first."""
        assert self._link is not None
        ours, theirs = packets.pair()
        channel = Channel(told.worker, ours, self._tell, held=True)
        self._link.send({"do": "attach", "worker": told.worker}, [theirs.detach()])
        self._add(channel)
        self.pids.setdefault(told.worker, [told.pid])
        self.measured.setdefault(told.worker, told.measured_bytes)
        return channel

    # What the core wants.

    def start(self, effect: StartWorker) -> None:
        spec = self._spec_of(effect.model)
        if spec is None or self._link is None:
            self._not_started(
                effect.worker, "there is no host" if spec else f"{effect.model} is not configured any more"
            )
            return
        try:
            gpus = self.gpus.environment(effect.devices)
        except LookupError as error:
            self._not_started(effect.worker, reason_of(error))
            return
        ours, theirs = packets.pair()
        self._add(Channel(effect.worker, ours, self._tell))
        fd = theirs.detach()
        if spec.env_file is None and spec.fetched is None:
            self._send_start(effect, as_told(spec, {**spec.env, **gpus}), fd)
        else:
            self._preparing.add(effect.worker)
            self._run(f"start of {effect.model}", self._start_later(effect, spec, gpus, fd))

    def stop(self, effect: StopWorker) -> None:
        if effect.worker in self._preparing:
            self._preparing.discard(effect.worker)
            self._not_started(effect.worker, "its start was cancelled")
        elif self._link is not None:
            self._link.send({"do": "stop", "worker": effect.worker, "grace_s": effect.grace_s})

    def processes(self) -> dict[str, list[int]]:
        """All processes of each worker. Drivers may show one for a while after its end, so those of a worker that
        has ended are told too, as long as it is counted with."""
        self._drop_ended()
        return {**self._ended, **self.pids}

    async def measure(self, within_s: float, only: Collection[str] | None = None) -> None:
        """Has the host measure every worker, or these alone, and waits for the figures, but not for long."""
        wanted = self.channels.keys() if only is None else self.channels.keys() & set(only)
        if self._link is None or not wanted:
            return
        self._link.send({"do": "measure"} if only is None else {"do": "measure", "workers": sorted(wanted)})
        awaited = _Round(wanted)
        self._rounds.append(awaited)
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(within_s):
                    await awaited.over.wait()
        finally:
            self._rounds.remove(awaited)

    async def _start_later(self, effect: StartWorker, spec: ModelSpec, gpus: dict[str, str], fd: int) -> None:
        told, reason = None, ""
        try:
            told = await self._apart.ask(spec.identity, partial(told_with_files, spec, gpus))
        except (OSError, ValueError) as error:
            reason = reason_of(error)
        still_wanted = effect.worker in self._preparing  # else it was told already why it does not start
        self._preparing.discard(effect.worker)
        if told is not None and still_wanted:
            self._send_start(effect, told, fd)
            return
        os.close(fd)
        if still_wanted:
            self._not_started(effect.worker, reason)

    def _send_start(self, effect: StartWorker, told: dict[str, Any], fd: int) -> None:
        message = {
            "do": "start",
            "worker": effect.worker,
            "model": effect.model,
            "spec": {**told, "placement": placement(effect.devices, effect.layers)},
            "devices": effect.devices,
            "memo": effect.memo,
        }
        if self._link is None:
            os.close(fd)
            return  # all workers were told to be lost
        self._link.send(message, [fd])

    def _not_started(self, worker: str, reason: str) -> None:
        self._forget(worker)
        self._tell(WorkerExited(worker=worker, log=reason))

    # What the host says.

    def hear(self, message: FromHost) -> None:
        if isinstance(message, Started):
            if message.worker in self.channels:
                self.pids[message.worker] = [message.pid]
            self._tell(WorkerStarted(worker=message.worker, pid=message.pid))
        elif isinstance(message, Exited):
            channel = self.channels.get(message.worker)
            if channel is not None:
                channel.finish()
            self._forget(message.worker)
            self._tell(message.event())
        elif isinstance(message, Measured) and message.worker in self.channels:
            self.pids[message.worker] = message.pids
            self.measured[message.worker] = message.bytes
            self.file_bytes[message.worker] = message.files
            self._looked_at(message.worker)
            self._tell(message.event())

    def _looked_at(self, worker: str) -> None:
        for awaited in self._rounds:
            awaited.discard(worker)

    def _add(self, channel: Channel) -> None:
        before = self.channels.get(channel.worker)
        if before is not None:
            before.close()
        self.channels[channel.worker] = channel
        self.none_left.clear()

    def _drop_ended(self) -> None:
        counted = self._counted()
        self._ended = {worker: pids for worker, pids in self._ended.items() if worker in counted}

    def _forget(self, worker: str) -> None:
        self._drop_ended()
        self._ended[worker] = self.pids.get(worker, [])  # the core has yet to hear of its end
        for known in (self.pids, self.measured, self.file_bytes):
            known.pop(worker, None)
        self._looked_at(worker)
        channel = self.channels.pop(worker, None)
        if channel is not None:
            channel.close()
        if not self.channels:
            self.none_left.set()


class _Round:
    """Workers that are being measured; `over` is set when all have been, or have gone."""

    def __init__(self, workers: Collection[str]) -> None:
        self._left = set(workers)
        self.over = asyncio.Event()

    def discard(self, worker: str) -> None:
        self._left.discard(worker)
        if not self._left:
            self.over.set()
