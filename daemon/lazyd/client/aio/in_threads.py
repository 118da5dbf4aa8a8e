"""An object of this process as asyncio sees it."""

from __future__ import annotations

import asyncio
import functools
from typing import Any


class InThreads:
    """Its methods are awaited, as those of a model of the daemon, and run in threads: the event loop goes on."""

    def __init__(self, instance: Any) -> None:
        self._instance = instance

    def __repr__(self) -> str:
        return f"<InThreads {self._instance!r}>"

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._instance, name)
        return functools.partial(asyncio.to_thread, found) if callable(found) else found
