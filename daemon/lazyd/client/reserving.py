"""A reservation: memory for a program that the daemon does not run, held by a connection of its own.

    Reserve ──▶ held ──────────────▶ closed by us
                  │   ▲
       the daemon │   │ claimed again (resume), for up to 30 s
       went away  ▼   │
                 lost connection ──▶ lost: the daemon refused it, was stopped, or did not come back

A reservation asks on its own behalf (`Requests`), so that whoever ends it ends its connection and no other.
"""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Any

from ..errors import Closed, LazydError, ProtocolError
from .requests import Request, Requests
from .steps import Dropped, Talk

if TYPE_CHECKING:
    from .steps import Control, Steps

CLAIM_S = 30.0
"""How long the daemon may take to give it back: for so long it keeps what nobody has claimed."""


class Reserving:
    """The rules of one reservation. `begin` it, then let somebody `keep` it until `close`."""

    def __init__(self, socket: str, device: str, count: int, *, wait: bool, command: str | None) -> None:
        """`count` bytes of `device`; `command` says what it is for."""
        self.device = device
        self.bytes = count
        self.wait = wait
        self.command = command
        self.id = ""
        self.uuid: str | None = None
        """Of the GPU."""
        self.lost: LazydError | None = None
        """Why it is not held any more, although nobody has closed it."""
        self.requests = Requests(socket)
        self._control: Control | None = None

    def __repr__(self) -> str:
        state = "lost" if self.lost else "closed" if self.requests.closed else "held" if self._control else "not held"
        return f"<reservation of {self.bytes} bytes of {self.device}, {state}>"

    def begin(self, timeout_s: float | None) -> Steps[None]:
        """Waits until it is held. Raises `NoRoom`, `NoSuchDevice`, `Timeout`, `Unavailable`."""
        try:
            yield from self._ask(Request("Reserve", self._parameters(), timeout_s=timeout_s))
        except BaseException:
            self.close()
            raise

    def keep(self) -> Steps[None]:
        """Claims it again whenever the daemon went away. Ends when it is closed, or lost."""
        try:
            while (yield from self._interrupted()):
                yield from self._ask(Request("Reserve", self._parameters(), timeout_s=CLAIM_S))
        except LazydError as error:
            if not self.requests.closed:
                self.lost = error
        finally:
            self._drop()
            self.close()

    def close(self) -> None:
        """Nobody wants it any more. Whoever waits in `begin` or `keep` must be woken, too."""
        self.requests.close()

    def _parameters(self) -> dict[str, Any]:
        return {
            "device": self.device,
            "bytes": self.bytes,
            "wait": None if self.wait else False,
            "resume": self.id or None,
            "command": self.command,
        }

    def _ask(self, request: Request) -> Steps[None]:
        control, reply = yield from self.requests.begin(request)
        granted = reply.get("parameters") or {}
        if not isinstance(granted.get("reservation"), str):
            control.close()
            raise ProtocolError(reason="a reservation came without its name")
        if self.requests.closed:  # meanwhile
            control.close()
            raise Closed()
        self._control = control
        self.id, self.uuid = granted["reservation"], granted.get("uuid")

    def _interrupted(self) -> Steps[bool]:
        """Waits for the end of the connection. True: it was not our doing."""
        if self._control is None:
            return False
        try:
            yield Talk(self._control, None, None)
        except Dropped:
            self._drop()
            self.requests.reconnect.lost(time.monotonic())
            return not self.requests.closed
        raise ProtocolError(reason="the daemon said something that nobody had asked for")

    def _drop(self) -> None:
        control, self._control = self._control, None
        if control is not None:
            control.close()


def own_name() -> str | None:
    """The name of the program that runs here."""
    return os.path.basename(sys.argv[0]) if sys.argv and sys.argv[0] not in ("", "-c", "-m") else None
