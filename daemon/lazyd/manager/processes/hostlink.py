"""The connection to the worker host: whole messages and descriptors over ``host/host.sock``."""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import pwd
import socket
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from lazyd.varlink.peer import peer_of

from .messages import All, DryRun, FromHost, Hello, Pages, Proxy, Worker, from_host
from .packets import PacketSocket

log = logging.getLogger("lazyd.hostlink")

HOST_USER = "lazyd-worker"
HELLO_S = 5.0
"""How long a host may take to say what it has."""


class NoHost(Exception):
    """Nobody answers at the host's socket; `str` says why."""


class HostLink:
    """A connected host that has said hello.

    `workers` are those that it has at that moment, `on_message` (set by `listen`) gets all that
    it says afterwards, `ended` is set when the connection has ended.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._hello: Hello | None = None
        self.workers: list[Worker] = []
        self.ended = asyncio.Event()
        self._complete = asyncio.Event()
        self._early: list[FromHost] = []
        self._on_message: Callable[[FromHost], None] | None = None
        self._early_pages: list[Pages] = []
        self._on_pages: Callable[[Pages], None] = self._early_pages.append
        self._on_proxy: Callable[[Proxy], None] = lambda _: None  # it is told again after the first order
        self._dry_runs: dict[int, asyncio.Future[DryRun]] = {}
        self._numbers = itertools.count(1)
        self._packets = PacketSocket(sock, self._packet, self._end)

    @classmethod
    async def connect(cls, path: str, version: str) -> HostLink:
        """Connects, checks who is there, and hears of its workers.

        Raises:
            NoHost: there is none, it is somebody else's, or it does not answer.
        """
        sock = await _connected(path)
        link = cls(sock)
        try:
            link.send({"do": "hello", "pid": os.getpid(), "version": version})
            async with asyncio.timeout(HELLO_S):
                await link._complete.wait()
        except TimeoutError:
            link.close()
            raise NoHost(f"the host at {path} did not answer within {HELLO_S:g} s") from None
        except asyncio.CancelledError:
            link.close()
            raise
        if link.ended.is_set() or link._hello is None:
            link.close()
            raise NoHost(f"the host at {path} has closed the connection without a word of its workers")
        return link

    @property
    def hello(self) -> Hello:
        """What it said of itself."""
        assert self._hello is not None, "`connect` waits for it"
        return self._hello

    @property
    def pid(self) -> int:
        return self.hello.pid

    def listen(self, on_message: Callable[[FromHost], None]) -> None:
        """From now on messages go there, those that have come already first."""
        early, self._early = self._early, []
        self._on_message = on_message
        for message in early:
            on_message(message)

    def listen_for_pages(self, on_pages: Callable[[Pages], None]) -> None:
        """From now on what the host says of files goes there, what it has said already first."""
        early, self._early_pages = self._early_pages, []
        self._on_pages = on_pages
        for message in early:
            on_pages(message)

    def listen_for_proxy(self, on_proxy: Callable[[Proxy], None]) -> None:
        """From now on what the host says of the addresses of services goes there."""
        self._on_proxy = on_proxy

    def send(self, message: dict[str, Any], fds: Sequence[int] = ()) -> None:
        """Sends a message with descriptors, which are closed here."""
        self._packets.send(message, fds)

    async def dry_run(self, spec: dict[str, Any], within_s: float) -> DryRun:
        """Has the host try in a process of its own what a load needs. What goes wrong is the answer's reason."""
        number = next(self._numbers)
        answer: asyncio.Future[DryRun] = asyncio.get_running_loop().create_future()
        self._dry_runs[number] = answer
        try:
            if self.ended.is_set():
                return DryRun(id=number, reason="there is no worker host")
            self.send({"do": "dry_run", "id": number, "spec": spec})
            async with asyncio.timeout(within_s):
                return await answer
        except TimeoutError:
            return DryRun(id=number, reason=f"the worker host did not answer within {within_s:g} s")
        finally:
            del self._dry_runs[number]

    def close(self) -> None:
        self._packets.close()
        self._end()

    def _packet(self, packet: memoryview) -> None:
        try:
            message = from_host(packet)
        except msgspec.MsgspecError as error:
            log.warning("the host said something that was not understood: %s", error)
            return
        if isinstance(message, Hello):
            self._hello = message
        elif isinstance(message, Worker):
            self.workers.append(message)
        elif isinstance(message, All):
            self._complete.set()
        elif isinstance(message, DryRun):
            self._answer(message)
        elif isinstance(message, Pages):
            self._on_pages(message)
        elif isinstance(message, Proxy):
            self._on_proxy(message)
        elif self._on_message is None:
            self._early.append(message)
        else:
            self._on_message(message)

    def _answer(self, message: DryRun) -> None:
        asked = self._dry_runs.get(message.id)
        if asked is not None and not asked.done():
            asked.set_result(message)

    def _end(self) -> None:
        self.ended.set()
        self._complete.set()
        for number in self._dry_runs:
            self._answer(DryRun(id=number, reason="the worker host has gone"))


async def _connected(path: str) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    sock.setblocking(False)
    try:
        sock.connect(path)
        uid = peer_of(sock).uid
        if uid != os.geteuid() and uid != await asyncio.to_thread(_host_uid):
            raise NoHost(f"{path} is served by uid {uid}, which is no host of this daemon")
    except OSError as error:
        sock.close()
        raise NoHost(f"{path}: {error.strerror}") from None
    except BaseException:
        sock.close()
        raise
    return sock


def _host_uid() -> int | None:
    """Blocks: users may be looked up in files, or over the network."""
    try:
        return pwd.getpwnam(HOST_USER).pw_uid
    except KeyError:
        return None
