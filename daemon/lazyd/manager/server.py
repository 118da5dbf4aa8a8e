"""The manager's day: it starts, serves, and stops."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import sys
from time import monotonic
from typing import Any

from lazyd.core.events import Configure, MeaningsKept, Stop
from lazyd.errors import InvalidConfig

from . import signals
from .control import sockets
from .control.descriptors import Shortage
from .control.sockets import BACKLOG, live_holder
from .failures import CannotStart
from .memory.sampler import seen
from .parts import Beginnings, Parts
from .signals import Ending

log = logging.getLogger("lazyd")

STOP_S = 30.0
"""How long a stop waits for calls in flight."""
HURRY_S = 10.0
"""How long it waits for workers that were told to end."""
QUIT_S = 2.0
"""How long the host has to end after its workers."""
SOCKET_S = 60.0
"""How often it is seen to that the control socket is still there: what tidies up temporary files may remove it."""
KEEP_S = 1.0
"""How long what was learned last may take to be on the disk."""
GPUS_S = 0.05
"""How long the start waits for GPUs. Those that are seen later are told of later."""
EX_SOFTWARE = 70
GC_THRESHOLD = 50_000
"""Objects between two collections: showing 10,000 models makes 40,000 at once, and none of them is garbage."""


class Server:
    """One manager, from its start to its end. `run` returns its exit status."""

    def __init__(self, given: Beginnings) -> None:
        self._given = given
        self._socket = given.listening
        self._ending: Ending | None = None
        self._ended = asyncio.Event()
        self._hurry = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._parts = Parts(given, self._ended.is_set, lambda: self.end(Ending.BROKEN))

    async def run(self) -> int:
        with signals.handled(self, is_unit=self._parts.systemd.present):
            await self._start()
            await self._ended.wait()  # everything happens in callbacks until a signal ends it
            return await self._stop()

    async def _start(self) -> None:
        """Takes over what is alive, and answers after that. A host that is not there yet is not waited for."""
        parts = self._parts
        for sample in (self._given.ram, *self._given.first.samples(GPUS_S)):
            parts.driver.tell(seen(sample))
        parts.driver.tell(MeaningsKept(kept=self._given.meanings))
        parts.driver.tell(Configure(config=parts.configuration.config, pins=self._given.pins))
        parts.schedules.put_in_force(parts.configuration.config)
        await parts.host.find()
        await self._listen()
        parts.background.keep("host", parts.host.keep)
        parts.measuring.start()
        parts.background.once("remembered habits", parts.remembering.recall())
        parts.background.once("accepted configuration", parts.configuration.keep())
        parts.watching.look()
        parts.status_line.say()
        log.info("ready: %d models, socket %s", len(parts.configuration.config.models), self._socket.getsockname())
        parts.systemd.ready()
        self._feed_watchdog()
        self._loop.call_later(SOCKET_S, self._watch_socket)
        gc.freeze()
        gc.set_threshold(GC_THRESHOLD, 20, 20)
        gc.enable()

    async def _stop(self) -> int:
        """Frees everything if that is wanted; otherwise leaves it to the next manager."""
        parts = self._parts
        if self._ending is Ending.FREE:
            parts.systemd.stopping()
            log.info("stopping: calls in flight have %g s, a second signal ends them", STOP_S)
            await self._free()
        if self._ending is Ending.FREE:
            if not parts.systemd.present:
                await parts.fetches.quit()
                await parts.host.quit(QUIT_S)
            self._remove_socket()
        parts.remembering.sweep()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(KEEP_S):
                for clerk in parts.clerks:
                    await clerk.settled()
        for connection in list(parts.connections):
            connection.close()
        await asyncio.sleep(0)  # so that what was closed can end
        log.info("ended: %s", self._ending.value if self._ending else "")
        return EX_SOFTWARE if self._ending is Ending.BROKEN else 0

    async def _free(self) -> None:
        """Waits for calls, then for workers to end."""
        none_left = self._parts.workers.none_left
        self._parts.driver.tell(Stop(deadline=monotonic() + STOP_S))
        await _first(none_left, self._hurry, within_s=STOP_S + HURRY_S)
        if self._ending is Ending.FREE and not none_left.is_set():
            self._parts.driver.tell(Stop(deadline=monotonic()))
            await _first(none_left, within_s=HURRY_S)

    # What signals and bugs do.

    def end(self, ending: Ending) -> None:
        """Ends the day. What was begun is only cut short by another manager, a bug or impatience."""
        if self._ending is None:
            self._ending = ending
            self._ended.set()
        elif ending in (Ending.HAND_OVER, Ending.BROKEN):
            self._ending = ending
            self._hurry.set()
        elif ending is Ending.FREE:
            self._hurry.set()

    def reload(self) -> None:
        self._see_to_socket()
        self._parts.background.once("reload", self._reload())

    async def _reload(self) -> None:
        """A reload that nobody waits for: what is wrong is told by the log, the events and the status."""
        try:
            await self._parts.configuration.reload()
        except InvalidConfig as error:
            for problem in error.problems:
                log.error("%s", problem)
            self._parts.journal.add("configuration refused", reason=error.problems[0])

    # Small things.

    async def _listen(self) -> None:
        self._loop.set_exception_handler(Shortage())
        # Python 3.13 would remove the socket at the end, which may be systemd's or already the next manager's.
        keep: dict[str, Any] = {"cleanup_socket": False} if sys.version_info >= (3, 13) else {}
        self._listening = await self._loop.create_unix_server(
            self._parts.connection, sock=self._socket, backlog=BACKLOG, **keep
        )

    def _watch_socket(self) -> None:
        self._see_to_socket()
        self._loop.call_later(SOCKET_S, self._watch_socket)

    def _see_to_socket(self) -> None:
        """Makes the control socket anew if somebody has removed it. Those that are connected stay so."""
        path = self._socket.getsockname()
        if self._ended.is_set() or os.path.lexists(path):
            return
        if self._given.inherited:
            log.error("%s was removed, and nobody can connect: systemctl restart lazyd.socket", path)
            return
        try:
            self._socket = sockets.listen(path, self._given.roles.group)
        except CannotStart as error:
            log.error("%s", error)
            return
        log.warning("%s was removed, and has been made anew", path)
        self._listening.close()
        self._parts.background.once("control socket", self._listen())

    def _remove_socket(self) -> None:
        """Unless it is systemd's, or was removed and another daemon has made its own there."""
        path = self._socket.getsockname()
        with contextlib.suppress(OSError, CannotStart):
            if not self._given.inherited and live_holder(path) == os.getpid():
                os.unlink(path)

    def _feed_watchdog(self) -> None:
        """A loop that hangs feeds nothing."""
        within_s = self._parts.systemd.watchdog_s()
        if within_s is not None:
            self._parts.systemd.alive()
            self._loop.call_later(within_s / 3, self._feed_watchdog)


async def _first(*events: asyncio.Event, within_s: float) -> None:
    """Waits for the first of several events, but not for ever."""
    waits = [asyncio.create_task(event.wait()) for event in events]
    await asyncio.wait(waits, timeout=within_s, return_when=asyncio.FIRST_COMPLETED)
    for wait in waits:
        wait.cancel()
