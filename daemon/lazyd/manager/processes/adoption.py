"""Taking over the workers that an earlier manager started.

The host says which there are, each worker what it holds. A worker that is silent (it may be
inside native code) is known by what the host last heard of it; when it speaks at last, the core
is told what it had missed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from lazyd.core.events import Event, HostFound, WorkerReport

from ..pages.orders import locks
from . import keeping
from .channel import Channel
from .hostlink import HostLink
from .workers import Workers

log = logging.getLogger("lazyd.adoption")

SILENCE_S = 2.0
"""How long a worker may take to say what it holds."""


async def adopt(link: HostLink, workers: Workers, tell: Callable[[Event], None], *, is_first: bool) -> None:
    """Attaches to all workers of the host and tells the core of them; it answers again after that.

    What the host has kept counts for the first that a manager finds: later it knows better itself.
    """
    workers.connect(link)
    channels = [(workers.attach(told.report), told.report) for told in link.workers]
    if channels:
        await asyncio.wait([channel.own_report for channel, _ in channels], timeout=SILENCE_S)
    reports = [_report(channel, last) for channel, last in channels]
    kept = keeping.reservations(link.hello.kept) if is_first else ()
    tell(HostFound(workers=tuple(reports), reservations=kept, locks=locks(link)))
    for (channel, _), report in zip(channels, reports, strict=True):
        channel.release(report)
    link.listen(workers.hear)


def _report(channel: Channel, last: WorkerReport) -> WorkerReport:
    own = channel.own_report
    if own.done() and not own.cancelled():
        return own.result()
    log.warning("worker %s does not answer; it is known by what the host last heard of it", channel.worker)
    return last
