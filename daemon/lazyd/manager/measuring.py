"""What memory there is and who uses it, looked at every few seconds.

Devices tell the core how much of them strangers use: all that is used, less what was measured of
lazyd's own workers a moment before.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from lazyd.core.events import DeviceSeen, Event
from lazyd.devices.source import Sample, Source

from .workers import Workers

log = logging.getLogger("lazyd.measuring")

WORKING_S = 5.0
IDLE_S = 15.0
"""How often, with and without workers."""
MEASURE_S = 0.5
"""How long the host may take to measure its workers."""


def seen(sample: Sample, own_bytes: int) -> DeviceSeen:
    """A sample as the core is told of it."""
    return DeviceSeen(
        name=sample.name,
        kind=sample.kind,
        total_bytes=sample.total_bytes,
        foreign_bytes=max(0, sample.used_bytes - own_bytes),
    )


class Measuring:
    """Samples a source of devices in a thread, as a background task."""

    def __init__(self, source: Source, workers: Workers, tell: Callable[[Event], None]) -> None:
        self._source = source
        self._workers = workers
        self._tell = tell

    async def keep(self) -> None:
        while True:
            await asyncio.sleep(WORKING_S if self._workers.channels else IDLE_S)
            if self._workers.channels:
                await self._workers.measure(MEASURE_S)
            for sample in await asyncio.to_thread(self._source.sample):
                own = sum(measured.get(sample.name, 0) for measured in self._workers.measured.values())
                self._tell(seen(sample, own))
