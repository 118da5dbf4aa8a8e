"""A data connection that several tasks use at once. The event loop reads it for all of them."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING

from ...errors import Closed
from ...wire.frames import roomy
from ..dataline import DataLine, LineState
from ..unix import send
from .connecting import connected
from .waiting import until, wake

if TYPE_CHECKING:
    from ..answer import Piece
    from ..call import Call, PackedCall
    from ..steps import Dial


class AsyncLine:
    """See `steps.Line`."""

    def __init__(self, sock: socket.socket, line: DataLine) -> None:
        self._sock = sock
        self._line = line
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[Call, asyncio.Future[None]] = {}
        self._loop.add_reader(sock.fileno(), self._receive)
        self._flush()

    @classmethod
    async def dial(cls, dial: Dial) -> AsyncLine:
        """Connects and presents the token. Raises `OSError`, `Dropped`, `Late`, the worker's error."""
        sock = await connected(dial.endpoint, dial.deadline)
        roomy(sock)
        line = cls(sock, DataLine(dial.lease, dial.token))
        try:
            await line.wait(line._line.hello, dial.deadline)
            line.take(line._line.hello)
        except BaseException:
            line.close()
            raise
        return line

    def __repr__(self) -> str:
        return repr(self._line)

    @property
    def lease(self) -> str:
        return self._line.lease

    def begin(self, packed: PackedCall) -> Call:
        call = self._line.begin(packed)
        self._flush()
        return call

    def take(self, call: Call) -> Piece:
        return call.take()

    def cancel(self, call: Call) -> None:
        self._line.cancel(call)
        self._flush()

    async def wait(self, call: Call, deadline: float | None) -> None:
        """Returns when something has arrived for the call. Raises `Late`."""
        if call.ready:
            return
        future = self._waiting[call] = self._loop.create_future()
        try:
            await until(future, deadline)
        finally:
            del self._waiting[call]

    def close(self) -> None:
        self._tell(self._line.end(lambda _: Closed()))

    def close_if_idle(self) -> bool:
        if self._line.idle:
            self.close()
        return self._line.state is LineState.ENDED

    def _receive(self) -> None:
        try:
            concerned = self._line.received(self._sock.recv_into(self._line.space()))
        except BlockingIOError:
            return
        except OSError as error:
            concerned = self._line.lost(error.strerror or str(error))
        self._tell(concerned)

    def _flush(self) -> None:
        """Writes what the kernel takes now, and the rest when it takes more."""
        if self._sock.fileno() < 0:
            return
        try:
            while self._line.outgoing:
                count = send(self._sock, self._line.sendable())
                if not count:
                    self._loop.add_writer(self._sock.fileno(), self._flush)
                    return
                self._line.sent(count)
        except OSError:  # what it said before it closed is still to be read
            self._line.unsendable()
        self._loop.remove_writer(self._sock.fileno())

    def _tell(self, concerned: list[Call]) -> None:
        for call in concerned:
            if call in self._waiting:
                wake(self._waiting[call])
        if self._line.state is LineState.ENDED and self._sock.fileno() >= 0:
            self._loop.remove_reader(self._sock.fileno())
            self._loop.remove_writer(self._sock.fileno())
            self._sock.close()
