"""What signals mean (docs/architecture.md: "Stop, restart, crash").

| signal | without systemd | as a unit |
|---|---|---|
| SIGTERM, SIGINT | free everything and leave no process | the manager alone ends, at once |
| SIGUSR1 | the same | a stop follows: drain and free everything; the units end the host |
| SIGUSR2 | another manager takes over: leave host and workers to it | the same |
| SIGHUP | reload, or free everything when the terminal has gone | reload |
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import os
import signal
from collections.abc import Iterator
from typing import Protocol


class Ending(enum.Enum):
    """How the daemon ends."""

    LEAVE = "leave"
    """At once, and alone: workers and calls go on under the next manager."""
    HAND_OVER = "hand over"
    """The same, even in the middle of a stop: another manager waits."""
    FREE = "free"
    """Everything is freed. Asked for twice, calls in flight are not waited for."""
    BROKEN = "broken"
    """A bug: as `LEAVE`, with an exit status that says so."""


class Listener(Protocol):
    """What signals are turned into."""

    def end(self, ending: Ending) -> None: ...

    def reload(self) -> None: ...


@contextlib.contextmanager
def handled(listener: Listener, *, is_unit: bool) -> Iterator[None]:
    """Turns signals into calls of `listener`, in the loop, as long as it lasts."""
    loop = asyncio.get_running_loop()
    had_terminal = has_terminal()

    def hang_up() -> None:
        if had_terminal and not has_terminal():
            listener.end(Ending.FREE)
        else:
            listener.reload()

    terminated = Ending.LEAVE if is_unit else Ending.FREE
    meanings = {
        signal.SIGTERM: lambda: listener.end(terminated),
        signal.SIGINT: lambda: listener.end(terminated),
        signal.SIGUSR1: lambda: listener.end(Ending.FREE),
        signal.SIGUSR2: lambda: listener.end(Ending.HAND_OVER),
        signal.SIGHUP: hang_up,
    }
    for number, meaning in meanings.items():
        loop.add_signal_handler(number, meaning)
    try:
        yield
    finally:
        for number in meanings:
            loop.remove_signal_handler(number)


def has_terminal() -> bool:
    """Whether the process has a controlling terminal: when that goes, ``/dev/tty`` cannot be opened any more."""
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY | os.O_CLOEXEC))
    except OSError:
        return False
    return True
