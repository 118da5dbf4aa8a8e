"""Keeps a worker host connected: finds one, starts one where nobody else does, sees it end.

Under systemd the host is a unit of its own and is only waited for. Otherwise the manager starts
it, in a session of its own, so that it outlives the manager.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import subprocess
import time
from collections.abc import Callable

from lazyd import places
from lazyd.core.events import Event, HostAway, HostLost

from . import detached
from .adoption import adopt
from .hostlink import HostLink, NoHost
from .messages import Hello
from .workers import Workers

log = logging.getLogger("lazyd.host")

START_S = 30.0
"""How long a host that was started may take until its socket answers."""
QUICK_LOOK_S = 0.01
LONGEST_LOOK_S = 2.0
"""How often a host that is starting is looked for, at first and in the end."""
FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 30.0
"""Between two starts of a host that does not come up."""
PATIENCE_S = 2.0
"""How much longer than it was given a host may take to end."""


Note = Callable[[str, str], None]
"""Takes the kind of an event and its reason."""


class HostKeeper:
    """`on_connected` is called when a host has been found or started, `note` when something is worth knowing."""

    def __init__(
        self,
        runtime: str,
        control_socket: str,
        version: str,
        workers: Workers,
        tell: Callable[[Event], None],
        *,
        starts_hosts: bool,
        on_connected: Callable[[HostLink], None],
        note: Note,
    ) -> None:
        self._runtime = runtime
        self._control_socket = control_socket
        self._socket = places.host_socket(runtime)
        self._version = version
        self._workers = workers
        self._tell = tell
        self._starts_hosts = starts_hosts
        self._on_connected = on_connected
        self._note = note
        self._link: HostLink | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._pidfd: int | None = None
        self._adopted = False
        self._is_first = True
        self._wanted = True
        self._spawning = asyncio.Lock()

    @property
    def serves(self) -> bool:
        """A host is connected, and its workers are known."""
        return self._adopted

    async def find(self) -> bool:
        """Adopts the workers of a host that is there already. Whether there was one."""
        link = await self._connect()
        if link is not None:
            await self._take(link)
        return link is not None

    async def keep(self) -> None:
        """Sees to it that a host is connected, until `quit`."""
        while self._wanted:
            if self._link is None:
                await self._take(await self._get())
            await self._watch()

    async def quit(self, grace_s: float) -> None:
        """Has the host end its workers and itself, and waits for that; then it is killed."""
        self._wanted = False
        async with self._spawning:  # one that is being started just now is not to be forgotten
            pass
        if self._link is not None and self._pidfd is not None:
            self._link.send({"do": "quit", "grace_s": grace_s})
            if not await _has_ended(self._pidfd, grace_s + PATIENCE_S):
                log.warning("the host (pid %d) did not end in time and is killed", self._link.pid)
                with contextlib.suppress(ProcessLookupError):
                    signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
                await _has_ended(self._pidfd, PATIENCE_S)
        elif self._process is not None:
            self._process.kill()  # it was started a moment ago, and has no workers yet
        await asyncio.to_thread(self._reap)

    # One host.

    async def _connect(self) -> HostLink | None:
        try:
            return await HostLink.connect(self._socket, self._version)
        except NoHost as reason:
            log.debug("no host yet: %s", reason)
            return None

    async def _take(self, link: HostLink) -> None:
        if self._pidfd is not None:
            os.close(self._pidfd)
        try:
            self._pidfd = os.pidfd_open(link.pid)
        except OSError:
            self._pidfd = None  # it has just ended, or runs where its pid means nothing here
        self._link = link
        try:
            await adopt(link, self._workers, self._tell, is_first=self._is_first)
        except BaseException:
            self._link = None
            link.close()
            raise
        self._adopted, self._is_first = True, False
        self._on_connected(link)
        log.info("connected to the host (pid %d) with %d workers", link.pid, len(link.workers))

    async def _watch(self) -> None:
        """Waits for the end of the connection. A host that still lives is taken up again with its workers."""
        link = self._link
        assert link is not None
        await link.ended.wait()
        if not self._wanted:
            return
        link.close()
        self._link = None
        self._adopted = False
        self._tell(HostAway())
        again = await self._connect()
        if again is None or _identity(again.hello) != _identity(link.hello):
            self._note("host lost", f"the host (pid {link.pid}) is gone, and its workers with it")
            self._workers.disconnect()
            self._tell(HostLost())
            await asyncio.to_thread(self._reap)
        if again is not None:
            await self._take(again)

    async def _get(self) -> HostLink:
        """Starts a host, or waits until somebody has."""
        look_s, start_s = QUICK_LOOK_S, FIRST_PAUSE_S
        while (link := await self._connect()) is None:
            if self._starts_hosts:
                link = await self._start()
                if link is not None:
                    break
                await asyncio.sleep(start_s)
                start_s = min(2 * start_s, LONGEST_PAUSE_S)
            else:
                await asyncio.sleep(look_s)
                look_s = min(2 * look_s, LONGEST_LOOK_S)
        return link

    async def _start(self) -> HostLink | None:
        """Starts a host and connects to it; None if it did not come up."""
        try:
            async with self._spawning:
                if not self._wanted:
                    return None
                self._process = await asyncio.to_thread(start, self._runtime, self._control_socket)
        except OSError as error:
            self._failed(f"it cannot be started: {error}")
            return None
        process = self._process
        deadline = time.monotonic() + START_S
        while process.poll() is None and time.monotonic() < deadline:
            await asyncio.sleep(QUICK_LOOK_S)
            link = await self._connect()
            if link is not None:
                return link
        status = process.poll()
        if status is None:
            process.kill()
        await asyncio.to_thread(self._reap)
        self._failed(f"it did not answer within {START_S:g} s" if status is None else f"it ended with status {status}")
        return None

    def _failed(self, reason: str) -> None:
        self._note("host failed", f"no worker host: {reason}; see {places.host_log(self._runtime)}")

    def _reap(self) -> None:
        """Blocks until the host that was started here has left no zombie."""
        process, self._process = self._process, None
        if process is not None:
            process.wait()


def start(runtime: str, control_socket: str) -> subprocess.Popen[bytes]:
    """Starts a host, whose workers find this daemon. Blocks for the time of a fork.

    Raises:
        OSError: its directory cannot be made, or the process not be started.
    """
    os.makedirs(places.host_dir(runtime), mode=0o750, exist_ok=True)
    log_file = places.host_log(runtime)
    return detached.start("lazyd.host", "--runtime-dir", runtime, log=log_file, LAZYD_SOCKET=control_socket)


def _identity(hello: Hello) -> tuple[int, float]:
    """What a host keeps when it executes itself anew."""
    return hello.pid, hello.started


async def _has_ended(pidfd: int, within_s: float) -> bool:
    """Waits for the end of a process; whether it came in time."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_reader(pidfd, ended.set)
    try:
        async with asyncio.timeout(within_s):
            await ended.wait()
    except TimeoutError:
        return False
    finally:
        loop.remove_reader(pidfd)
    return True
