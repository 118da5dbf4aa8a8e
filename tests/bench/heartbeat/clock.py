"""How waiting is compressed: only time in which nobody works passes faster.

A commit comes every so many minutes. From the commit to the end of its heartbeat real processes do real work, in real
time. What is left of the interval then is waiting, and a minute of it takes a second. Work that does not end within
the interval is not waited for any longer: the next commit kills it, at its real time.

What lazyd waits for is compressed in the same way: its default ``idle_timeout`` of ten minutes is ten seconds here.
This errs against lazyd. The heartbeat's work lies between two uses of a model and is not compressed, so models look
as if they had been idle for longer than they would have been.
"""

from __future__ import annotations

SPEED = 60.0
"""So many seconds of waiting take one."""

IDLE_TIMEOUT_S = 600.0
"""lazyd's default."""


def compressed(seconds: float) -> float:
    """The seconds that so many seconds of waiting take; 0 for none or less."""
    return max(0.0, seconds) / SPEED
