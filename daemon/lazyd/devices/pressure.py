"""Whether programs stall for want of memory, as the kernel tells it (pressure stall information).

The kernel is asked to ring when at least one program has stood still for 200 ms within 2 s, which is also what
systemd's services hear of. Whoever is not root may ask for windows of 2 s only, since Linux 6.4; before, and for a
cgroup's file that is somebody else's, the same figure is read every few seconds.
"""

from __future__ import annotations

import errno
import os
import select
import time
from collections.abc import Iterator

STALL_US = 200_000
WINDOW_US = 2_000_000
LOOK_S = 5.0
"""How often the figure is read where the kernel does not ring."""
_MAY_NOT = (errno.EACCES, errno.EPERM, errno.EROFS)
"""A container's cgroups may be mounted for reading alone."""


def stalls(path: str, look_s: float = LOOK_S) -> Iterator[None]:
    """Yields whenever memory was short, once a window at most; blocks in between.

    Raises:
        OSError: this kernel does not tell it, or the cgroup that `path` belongs to is gone.
    """
    try:
        fd = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno not in _MAY_NOT:
            raise
        yield from _read(path, look_s)
        return
    try:
        os.write(fd, f"some {STALL_US} {WINDOW_US}\0".encode())
    except PermissionError:
        os.close(fd)
        yield from _read(path, look_s)
        return
    except OSError:
        os.close(fd)
        raise
    yield from _rings(fd)


def _rings(fd: int) -> Iterator[None]:
    poll = select.poll()
    poll.register(fd, select.POLLPRI)
    try:
        while True:
            for _, happened in poll.poll():
                if happened & (select.POLLERR | select.POLLHUP | select.POLLNVAL):
                    raise OSError("the kernel has stopped watching")
                yield
    finally:
        os.close(fd)


def _read(path: str, look_s: float) -> Iterator[None]:
    before, since = _stalled_us(path), time.monotonic()
    while True:
        time.sleep(look_s)
        after, now = _stalled_us(path), time.monotonic()
        if (after - before) / (now - since) > STALL_US / (WINDOW_US / 1e6):
            yield
        before, since = after, now


def _stalled_us(path: str) -> int:
    """Microseconds in which at least one program stood still, since the machine was started."""
    with open(path, encoding="ascii") as file:
        words = file.readline().split()
    if not words or words[0] != "some" or not words[-1].startswith("total="):
        raise OSError(f"{path} is not understood")
    return int(words[-1].removeprefix("total="))
