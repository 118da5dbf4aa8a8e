"""What the log says when no descriptor is left for another client.

asyncio tries again once a second, with as many tries as the backlog is long, and reports each.
Clients wait in the backlog meanwhile.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from time import monotonic
from typing import Any

TOLD_EVERY_S = 60.0
_SHORT_OF = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)

log = logging.getLogger("lazyd")


class Shortage:
    """The loop's exception handler: tells of a shortage in one line a minute, and of all else as asyncio does."""

    def __init__(self) -> None:
        self._told: float | None = None

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if not (isinstance(error, OSError) and error.errno in _SHORT_OF and "accept" in context.get("message", "")):
            loop.default_exception_handler(context)
            return
        now = monotonic()
        if self._told is None or now - self._told >= TOLD_EVERY_S:
            self._told = now
            log.error("clients wait to be let in: %s; raise lazyd's limit of open files (LimitNOFILE=)", error.strerror)
