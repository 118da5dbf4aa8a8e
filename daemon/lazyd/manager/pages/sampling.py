"""How much of a file is in the page cache, found out by asking for a few of its pages.

``preadv2`` with ``RWF_NOWAIT`` gives a page that is there, and otherwise says so at once. That is right on every
file system, and for files of others, where ``mincore`` and ``cachestat`` are not. One thing is to be undone: the
kernel begins to read a page that it was asked for and does not have. So pages are asked for at random places, a few
at first, and those that were missing are dropped again; otherwise looking often enough would read a file.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Collection

FIRST, MOST = 16, 64
"""Pages of a file. If none of the first is there, no more are asked for."""
PROMPT_S = 25e-6
"""A page that is there comes within 1 to 3 µs. One that comes later was most likely read just now: where this process
has to wait for a processor between asking for it and looking, a quick disk is done by then (measured on a busy virtual
machine: 35 µs and more, and of a file that nobody had read all pages seemed to be there)."""
SETTLE_S = 0.005
"""Until pages that were asked for have been read, so that they can be dropped."""
_UNKNOWN = (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS)
"""The kernel, or the file system, cannot say."""


def cached_fraction(paths: Collection[str]) -> float | None:
    """The part of these files that is in the page cache, by bytes; None where that cannot be known. Blocks.

    Raises:
        OSError: a file is missing, or may not be read.
    """
    there = total = 0.0
    for path in paths:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            size = os.fstat(fd).st_size
            part = _of(fd, size)
        finally:
            os.close(fd)
        if part is None:
            return None
        there += part * size
        total += size
    return there / total if total else None


def _of(fd: int, size: int) -> float | None:
    """The part of one file, 1.0 if it is empty."""
    page = os.sysconf("SC_PAGE_SIZE")
    pages = -(-size // page)
    if not pages:
        return 1.0
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_RANDOM)  # a page that is missing is read alone
    missing: list[int] = []
    hits = asked = 0
    try:
        for place in _places(pages):
            if asked == FIRST and not hits:
                break
            asked += 1
            if _is_there(fd, place * page):
                hits += 1
            else:
                missing.append(place * page)
    except OSError as error:
        if error.errno in _UNKNOWN:
            return None
        raise
    finally:
        _drop(fd, missing, page)
    return hits / asked


def _places(pages: int) -> list[int]:
    """One at random in each of equal parts of the file, in random order, so that the first are spread over it too."""
    count = min(pages, MOST)
    import random  # only where a model has files

    places = [random.randrange(pages * i // count, pages * (i + 1) // count) for i in range(count)]
    random.shuffle(places)
    return places


def _is_there(fd: int, offset: int) -> bool:
    began = time.perf_counter()
    try:
        found = os.preadv(fd, [bytearray(1)], offset, os.RWF_NOWAIT) > 0
    except BlockingIOError:
        return False
    return found and time.perf_counter() - began < PROMPT_S


def _drop(fd: int, offsets: list[int], page: int) -> None:
    if offsets:
        time.sleep(SETTLE_S)
        for offset in offsets:
            with contextlib.suppress(OSError):
                os.posix_fadvise(fd, offset, page, os.POSIX_FADV_DONTNEED)
