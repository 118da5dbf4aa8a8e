"""When to try again after the daemon was lost (docs/protocol.md: "When the daemon restarts").

A daemon that was never there is not waited for. One that was there and went without a word is
being restarted: it is waited for up to 30 s from the loss. One that said that it shuts down was
stopped on purpose, and trying again could start it anew.
"""

from __future__ import annotations

import enum
import errno
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

PATIENCE_S = 30.0
FIRST_PAUSE_S = 0.005
PAUSE_GROWTH = 1.3
"""A daemon starts in a tenth of a second; doubling pauses would let half of that again pass unused."""
LONGEST_PAUSE_S = 0.25

PASSING = frozenset({errno.ENOENT, errno.ECONNREFUSED, errno.ECONNRESET, errno.EAGAIN, errno.ETIMEDOUT, errno.EPIPE})
"""What connecting may answer while a daemon restarts: no socket, nobody behind it, a full queue."""

SAFE = frozenset(
    {
        "Status",
        "Health",
        "Describe",
        "History",  # until its first page
        "Versions",
        "Metrics",
        "Logs",  # until its first line
        "Subscribe",  # until its first event
        "Load",
        "Get",
        "Reserve",  # the first one, if it was granted, has ended with its connection
        "Release",
        "Warm",
        "Pin",
        "Unpin",
        "Promote",
        "Unload",
        "Reload",
        "Register",  # the daemon takes an equal one for the same
        "GetInfo",
        "GetInterfaceDescription",
    }
)
"""The methods that may be carried out twice."""


class Contact(enum.Enum):
    """What is known of the daemon."""

    NEVER = "never"
    MADE = "made"
    LOST = "lost"
    STOPPED = "stopped"


class Reconnect:
    """What one client knows of its daemon, and for how long it is worth trying."""

    def __init__(self) -> None:
        self.contact = Contact.NEVER
        self._lost_at = 0.0

    def __repr__(self) -> str:
        return f"<Reconnect {self.contact.value}>"

    def connected(self) -> None:
        """A connection stands. Whether somebody is behind it, only an answer tells."""
        if self.contact is Contact.NEVER:
            self.contact = Contact.MADE

    def answered(self) -> None:
        """The daemon is there."""
        self.contact = Contact.MADE

    def lost(self, now: float) -> None:
        """A connection broke, or could not be made."""
        if self.contact is Contact.MADE:
            self.contact = Contact.LOST
            self._lost_at = now

    def stopped(self) -> None:
        """The daemon said that it is being stopped."""
        self.contact = Contact.STOPPED

    def patience_s(self, now: float) -> float:
        """Seconds for which it is still worth trying; 0.0: give up."""
        if self.contact is not Contact.LOST:
            return 0.0
        return max(0.0, self._lost_at + PATIENCE_S - now)


def pauses() -> Iterator[float]:
    """The pauses between tries, in seconds: short ones, growing."""
    pause = FIRST_PAUSE_S
    while True:
        yield pause
        pause = min(PAUSE_GROWTH * pause, LONGEST_PAUSE_S)
