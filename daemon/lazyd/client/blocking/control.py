"""A connection to the control socket, used by one thread at a time."""

from __future__ import annotations

import select
from typing import Any

from ..steps import Dropped, Late
from ..unix import ControlSocket, left_ms, send
from .connecting import connected


class BlockingControl(ControlSocket):
    """See `steps.Control`."""

    @classmethod
    def connect(cls, path: str, deadline: float | None) -> BlockingControl:
        """Raises `OSError`, `Late`."""
        return cls(connected(path, deadline))

    def talk(self, message: bytes | None, deadline: float | None) -> dict[str, Any]:
        """Sends a message, if there is one, and returns a reply. Raises `Dropped`, `Late`, `ProtocolError`."""
        if message is not None:
            self._send(message, deadline)
        while not self._replies:
            self._wait(select.POLLIN, deadline)
            self._receive()
        return self._replies.popleft()

    def _send(self, message: bytes, deadline: float | None) -> None:
        rest = memoryview(message)
        try:
            while True:
                rest = rest[send(self._sock, [rest]) :]
                if not rest:
                    return
                self._wait(select.POLLOUT, deadline)
        except OSError as error:  # part of a message is no message
            raise Dropped(error.strerror or str(error), delivered=False) from None

    def _wait(self, events: int, deadline: float | None) -> None:
        poll = select.poll()
        poll.register(self._sock, events)
        if not poll.poll(left_ms(deadline)):
            raise Late
