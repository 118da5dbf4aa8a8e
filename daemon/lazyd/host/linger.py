"""How long the host stays without a manager (docs/architecture.md: "Stop, restart, crash").

Under systemd it asks what becomes of the manager's unit: inactive or failed without a job means
that nobody comes back. Where it cannot ask, and without systemd, it waits for `linger_s`.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable

from ..worker.loop import Loop, Timer
from . import cgroups, helper
from .reaper import Reaper

ASK_EVERY_S = 3.0
ASK_LIMIT_S = 10.0
DEFAULT_LINGER_S = 600.0


def under_systemd() -> bool:
    """Whether this process is a unit's own, and not merely below one."""
    return "NOTIFY_SOCKET" in os.environ or os.environ.get("SYSTEMD_EXEC_PID") == str(os.getpid())


def nobody_comes_back(shown: str) -> bool | None:
    """Reads ``systemctl show -p ActiveState,Job``; None if that is no answer."""
    properties = dict(line.split("=", 1) for line in shown.split() if "=" in line)
    state = properties.get("ActiveState")
    if state is None:
        return None
    return state in ("inactive", "failed") and properties.get("Job", "0") in ("", "0")


class Linger:
    """Calls `on_over` once if no manager comes for too long."""

    def __init__(self, loop: Loop, reaper: Reaper, unit: str | None, on_over: Callable[[str], None]) -> None:
        self.linger_s: float | None = DEFAULT_LINGER_S
        self._loop = loop
        self._reaper = reaper
        self._ask = _question(unit) if unit else None
        self._on_over = on_over
        self._waits = False
        self._limit: Timer | None = None
        self._next: Timer | None = None

    def begin(self) -> None:
        """There is no manager."""
        self.end()
        self._waits = True
        if self._ask is not None:
            self._next = self._loop.after(ASK_EVERY_S, self._look)
        else:
            self._wait()

    def end(self) -> None:
        """There is one."""
        self._waits = False
        for timer in (self._limit, self._next):
            if timer is not None:
                timer.cancel()
        self._limit = self._next = None

    def _wait(self) -> None:
        if self._limit is None and self.linger_s is not None:
            self._limit = self._loop.after(self.linger_s, lambda: self._over("no manager has come back"))

    def _look(self) -> None:
        if self._ask is not None:
            helper.run(self._loop, self._reaper, self._ask, ASK_LIMIT_S, self._answered)

    def _answered(self, status: int | None, output: str) -> None:
        if not self._waits:
            return
        gone = nobody_comes_back(output) if status == 0 else None
        if gone:
            self._over("the manager's unit has been stopped")
            return
        if gone is None:
            self._wait()
        elif self._limit is not None:
            self._limit.cancel()
            self._limit = None
        self._next = self._loop.after(ASK_EVERY_S, self._look)

    def _over(self, why: str) -> None:
        self.end()
        self._on_over(why)


def _question(unit: str) -> list[str] | None:
    systemctl = shutil.which("systemctl")
    if systemctl is None:
        return None
    own = cgroups.own_path()
    scope = ["--user"] if own is not None and "/user@" in str(own) else []
    return [systemctl, *scope, "show", "--property=ActiveState,Job", unit]
