"""What systemd is told, one function a state. Each does nothing where systemd does not listen.

Messages are ASCII, since the library encodes them otherwise than systemd reads them.
"""

from __future__ import annotations

import os
import time
from typing import Protocol, cast

_PATIENCE_S = 0.5
"""A service manager that does not read its mail must not stop the loop."""


class Notifier(Protocol):
    def notify(self, state: str) -> None: ...


class Systemd:
    """Speaks with the service manager that started this process, if one did."""

    def __init__(self) -> None:
        self._notifier = _notifier()
        self._status = ""

    @property
    def present(self) -> bool:
        """Whether lazyd runs as a unit: then the host is a unit too, and a stop is not told by SIGTERM."""
        return self._notifier is not None

    def ready(self) -> None:
        """The socket answers, and what was alive before is known again."""
        self._tell("READY=1")

    def reloading(self) -> None:
        """The configuration is being read; `ready` follows."""
        self._tell(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self) -> None:
        self._tell("STOPPING=1")

    def status(self, words: str) -> None:
        """What ``systemctl status`` shows; the same words twice are sent once."""
        if words != self._status:
            self._status = words
            self._tell("STATUS=" + words.replace("\n", " "))

    def alive(self) -> None:
        """The loop that does the work still turns."""
        self._tell("WATCHDOG=1")

    def watchdog_s(self) -> float | None:
        """How often `alive` is expected at least; None: it is not."""
        pid = os.environ.get("WATCHDOG_PID")
        usec = os.environ.get("WATCHDOG_USEC", "")
        if self._notifier is None or not usec.isdigit() or int(usec) == 0 or (pid and pid != str(os.getpid())):
            return None
        return int(usec) / 1e6

    def _tell(self, state: str) -> None:
        if self._notifier is not None:
            self._notifier.notify(state.encode("ascii", "replace").decode("ascii"))


def _notifier() -> Notifier | None:
    if not os.environ.get("NOTIFY_SOCKET"):
        return None
    import sdnotify

    notifier = sdnotify.SystemdNotifier()
    if notifier.socket is not None:
        notifier.socket.settimeout(_PATIENCE_S)
    return cast("Notifier", notifier)
