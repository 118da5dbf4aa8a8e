"""The time of day, which may be set, and runs on while the machine sleeps.

The loop's own timers count monotonic seconds, which do neither. Linux has timers of the other kind
(`timerfd_create(2)`), that end at a time of day, and at once when somebody sets the clock or the machine wakes up.
"""

from __future__ import annotations

import asyncio
import errno
import os
import struct
import time
from collections.abc import Callable

from ..epoch import epoch

TFD_NONBLOCK = os.O_NONBLOCK
TFD_CLOEXEC = os.O_CLOEXEC
TFD_TIMER_ABSTIME = 1
TFD_TIMER_CANCEL_ON_SET = 2
ITIMERSPEC = struct.Struct("@llll")
"""How often, in seconds and nanoseconds, and when."""


class WallClock:
    """Tells the time of day, and rings once at one, or when the clock is set. One alarm at a time."""

    def __init__(self) -> None:
        self._on_ring: Callable[[], None] | None = None
        self._descriptor: int | None = None

    def now(self) -> float:
        """Seconds since 1970."""
        return time.time()

    def monotonic(self, when: float) -> float:
        """A time of day as the core's clock will show it, if nobody sets the clock and the machine stays awake."""
        return when - epoch()

    def ring_at(self, when: float, on_ring: Callable[[], None]) -> None:
        """Replaces the alarm.

        Raises:
            OSError: the system has no such timers left.
        """
        self._on_ring = on_ring
        if self._descriptor is None:
            self._descriptor = _call("timerfd_create", time.CLOCK_REALTIME, TFD_NONBLOCK | TFD_CLOEXEC)
            asyncio.get_running_loop().add_reader(self._descriptor, self._ring)
        whole = int(when)
        at = ITIMERSPEC.pack(0, 0, whole, int((when - whole) * 1e9))
        _call("timerfd_settime", self._descriptor, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, at, None)

    def close(self) -> None:
        """No alarm rings any more."""
        if self._descriptor is not None:
            asyncio.get_running_loop().remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = None

    def _ring(self) -> None:
        assert self._descriptor is not None
        try:
            os.read(self._descriptor, 8)
        except BlockingIOError:
            return
        except OSError as error:
            if error.errno != errno.ECANCELED:  # that says: the clock was set
                raise
        on_ring, self._on_ring = self._on_ring, None
        if on_ring is not None:
            on_ring()


def _call(name: str, *arguments: int | bytes | None) -> int:
    """A function of the C library, which Python has from 3.13 on. Raises `OSError`."""
    import ctypes  # only where there is a schedule

    result = int(getattr(ctypes.CDLL(None, use_errno=True), name)(*arguments))
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
