"""The addresses at which services are found: opened, closed and moved as the configuration says.

One that cannot be opened, as another program has it, is tried again every few seconds.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any

from ..client.aio.client import AsyncClient
from .conversation import Conversation
from .streams import Stream

log = logging.getLogger("lazyd.proxy")

AGAIN_S = 3.0

Served = dict[str, str]
"""By model: an address, as ``127.0.0.1:8188``."""


class Listening:
    """`on_change` is called when what is wrong has changed."""

    def __init__(self, client: AsyncClient, on_change: Callable[[], None]) -> None:
        self._client = client
        self._on_change = on_change
        self._wanted: Served = {}
        self._servers: dict[str, tuple[str, asyncio.Server]] = {}
        self._conversations: set[asyncio.Task[None]] = set()
        self._again: asyncio.TimerHandle | None = None
        self._working = asyncio.Lock()
        self.problems: dict[str, str] = {}
        """By model."""

    async def serve(self, wanted: Mapping[str, str]) -> None:
        """These from now on. A conversation that is under way goes on."""
        self._wanted = dict(wanted)
        await self._settle()

    async def _settle(self) -> None:
        async with self._working:
            for model, (address, server) in list(self._servers.items()):
                if self._wanted.get(model) != address:
                    server.close()
                    del self._servers[model]
            self.problems = {}
            for model, address in self._wanted.items():
                if model not in self._servers:
                    await self._open(model, address)
        self._on_change()
        if self._again is not None:
            self._again.cancel()
        if self.problems:
            loop = asyncio.get_running_loop()
            self._again = loop.call_later(AGAIN_S, lambda: self._start(self._settle()))

    async def _open(self, model: str, address: str) -> None:
        host, _, port = address.rpartition(":")
        loop = asyncio.get_running_loop()
        try:
            server = await loop.create_server(partial(_Visitor, self, model), host.strip("[]"), int(port))
        except OSError as error:
            reason = os.strerror(error.errno) if error.errno else str(error)
            self.problems[model] = f"{address} cannot be opened for {model}: {reason}; it is tried again"
        else:
            self._servers[model] = address, server

    def came(self, stream: Stream, model: str) -> None:
        """A client is there."""
        self._start(Conversation(stream, model, self._client).run())

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._conversations.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._conversations.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a conversation has ended with a mistake of the proxy's", exc_info=error)


class _Visitor(Stream):
    """A client's connection."""

    def __init__(self, listening: Listening, model: str) -> None:
        super().__init__()
        self._listening = listening
        self._of = model

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._listening.came(self, self._of)
