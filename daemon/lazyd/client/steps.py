"""What the client's rules need done, as values.

The rules (`requests`, `calling`) are generators. They yield one of these steps where something
must be waited for, and are sent its result or thrown its exception. Who waits, a thread or an
asyncio task, is decided by the driver alone (`blocking.driver`, `aio.driver`), so there is one
set of rules and they are tested without either.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Generator
    from typing import Any, Protocol, TypeVar, Union

    from .answer import Piece
    from .call import Call, PackedCall

    class Control(Protocol):
        """One connection to the control socket."""

        def stale(self) -> bool:
            """The other side has closed it, or says what nobody asked."""

        def close(self) -> None:
            """Ends it, and with it the request under way."""

    class Line(Protocol):
        """One open connection to a worker's data socket."""

        @property
        def lease(self) -> str: ...

        def begin(self, packed: PackedCall) -> Call:
            """Starts a call without waiting. Raises `Dropped` if the line has ended."""

        def take(self, call: Call) -> Piece:
            """What has arrived for the call. Raises its error."""

        def cancel(self, call: Call) -> None:
            """Nobody wants the call's answer any more. Does nothing for one that is over."""

        def close(self) -> None:
            """Ends the connection, and with it the lease and every call."""

        def close_if_idle(self) -> bool:
            """Ends the connection if nobody waits for anything on it, in one step; whether it has ended."""

    T = TypeVar("T")
    Step = Union["Connect", "Talk", "Dial", "Wait", "Pause"]
    Steps = Generator[Step, Any, T]
    """A rule at work; returns a T."""


class Dropped(Exception):
    """A connection has ended. `delivered`: the other side may have acted on what was under way."""

    def __init__(self, reason: str, *, delivered: bool) -> None:
        super().__init__(reason)
        self.reason = reason
        self.delivered = delivered


class Late(Exception):
    """The deadline of a step has passed."""


class Connect(NamedTuple):
    """Connect to the control socket. Sent a `Control`; thrown `OSError`, `Late`."""

    deadline: float | None


class Talk(NamedTuple):
    """Send a message, if there is one, and receive a reply. Sent a dict; thrown `Dropped`, `Late`."""

    control: Control
    message: bytes | None
    deadline: float | None


class Dial(NamedTuple):
    """Connect to a worker and present the token. Sent a `Line`; thrown `OSError`, `Dropped`, `Late`."""

    endpoint: str
    lease: str
    token: str
    deadline: float | None


class Wait(NamedTuple):
    """Wait until something has arrived for a call. Thrown `Late`."""

    line: Line
    call: Call
    deadline: float | None


class Pause(NamedTuple):
    """Let time pass."""

    seconds: float
