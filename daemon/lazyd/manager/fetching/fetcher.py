"""The process that fetches (`lazyd.fetch`): it is reached over its socket, and started if nobody listens there.

Under systemd the socket is a unit's, and connecting starts it. Otherwise the manager starts it as a process of its own,
that outlives the manager while something is on its way.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import subprocess
from collections.abc import AsyncIterator
from time import monotonic
from typing import Any

import msgspec

from lazyd import places

from ..processes import detached
from ..processes.packets import PacketSocket

START_S = 20.0
"""How long one that was started may take until its socket answers, and one that answers until it has heard."""
LOOK_S = 0.02
TRIES = 3
"""It may end, as it had nothing to do, in the moment in which it is asked."""


class NoFetcher(Exception):
    """Nobody fetches; `str` says why."""


class Fetcher:
    """`starts`: the manager starts the process itself."""

    def __init__(self, runtime: str, state: str, *, starts: bool) -> None:
        self._path = places.fetch_socket(runtime)
        self._log = places.fetch_log(runtime)
        self._state = state
        self._starts = starts
        self._starting = asyncio.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    @contextlib.asynccontextmanager
    async def ask(self, question: dict[str, Any]) -> AsyncIterator[Conversation]:
        """A conversation about one question. Raises `NoFetcher`."""
        conversation = await self._asked(question)
        try:
            yield conversation
        finally:
            conversation.close()

    async def quit(self) -> None:
        """Has it end, if the manager may: what is under way goes on another time."""
        if not self._starts:
            return
        with contextlib.suppress(OSError):
            conversation = Conversation(_connected(self._path))
            conversation.say({"do": "quit"})
            conversation.close()
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                await asyncio.to_thread(self._process.wait, 2.0)

    async def _asked(self, question: dict[str, Any]) -> Conversation:
        for _ in range(TRIES):
            conversation = Conversation(await self._connect())
            conversation.say(question)
            try:
                if await conversation.is_heard(START_S):
                    return conversation
            except TimeoutError:
                raise NoFetcher(f"the fetcher has not answered for {START_S:g} s; see {self._log}") from None
            finally:
                if not conversation.heard:
                    conversation.close()
        raise NoFetcher(f"the fetcher does not answer; see {self._log}")

    async def _connect(self) -> socket.socket:
        async with self._starting:
            deadline, begun = monotonic() + START_S, False
            while True:
                try:
                    return _connected(self._path)
                except BlockingIOError:
                    pass
                except OSError as error:
                    if not self._starts:
                        raise NoFetcher(
                            f"the fetcher cannot be reached ({error.strerror}): systemctl status lazyd-fetch.socket"
                        ) from None
                    if self._process is None or self._process.poll() is not None:
                        if begun and self._process is not None and self._process.returncode != 0:
                            raise NoFetcher(f"the fetcher ends at once: {_last_line(self._log)}") from None
                        self._process, begun = await asyncio.to_thread(self._start), True
                if monotonic() > deadline:
                    raise NoFetcher(f"the fetcher did not answer within {START_S:g} s; see {self._log}")
                await asyncio.sleep(LOOK_S)

    def _start(self) -> subprocess.Popen[bytes]:
        arguments = "--state-dir", self._state, "--socket", self._path
        try:
            return detached.start("lazyd.fetch", *arguments, log=self._log)
        except OSError as error:
            raise NoFetcher(f"the fetcher cannot be started: {error}") from None


class Conversation:
    """What it says to one question, in order; None at its end."""

    def __init__(self, sock: socket.socket) -> None:
        self.heard = False
        """What was said first has arrived."""
        self._said: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue()
        self._packets = PacketSocket(sock, self._packet, lambda: self._said.put_nowait(None))

    def say(self, message: dict[str, Any]) -> None:
        self._packets.send(message)

    async def hear(self, within_s: float | None) -> dict[str, Any] | None:
        """The next that it says. Raises `TimeoutError`."""
        async with asyncio.timeout(within_s):
            return await self._said.get()

    async def is_heard(self, within_s: float) -> bool:
        """Whether somebody is there who listens: it says so first of all. Raises `TimeoutError`."""
        self.heard = await self.hear(within_s) is not None
        return self.heard

    def close(self) -> None:
        self._packets.close()

    def _packet(self, packet: memoryview) -> None:
        self._said.put_nowait(msgspec.json.decode(packet))


def _last_line(path: str) -> str:
    try:
        with open(path, errors="replace") as file:
            lines = file.read().splitlines()
    except OSError as error:
        return str(error)
    return lines[-1] if lines else f"see {path}"


def _connected(path: str) -> socket.socket:
    """Raises `OSError`."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    sock.setblocking(False)
    try:
        sock.connect(path)
    except OSError:
        sock.close()
        raise
    return sock
