"""A connection to the control socket, used by one task at a time."""

from __future__ import annotations

from typing import Any

from ..steps import Dropped
from ..unix import ControlSocket, send
from .connecting import connected
from .waiting import readable, writable


class AsyncControl(ControlSocket):
    """See `steps.Control`."""

    @classmethod
    async def connect(cls, path: str, deadline: float | None) -> AsyncControl:
        """Raises `OSError`, `Late`."""
        return cls(await connected(path, deadline))

    async def talk(self, message: bytes | None, deadline: float | None) -> dict[str, Any]:
        """Sends a message, if there is one, and returns a reply. Raises `Dropped`, `Late`, `ProtocolError`."""
        if message is not None:
            await self._send(message, deadline)
        while not self._replies:
            await readable(self._sock, deadline)  # no reading ahead: a slow reader is to be seen as one
            self._receive()
        return self._replies.popleft()

    async def _send(self, message: bytes, deadline: float | None) -> None:
        rest = memoryview(message)
        try:
            while True:
                rest = rest[send(self._sock, [rest]) :]
                if not rest:
                    return
                await writable(self._sock, deadline)
        except OSError as error:  # part of a message is no message
            raise Dropped(error.strerror or str(error), delivered=False) from None
