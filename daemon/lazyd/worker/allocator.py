"""What is freed goes back to the kernel.

glibc keeps a heap for each of many threads, and of the free memory in one that is not the main thread's it returns
next to nothing, whatever it is asked. In a family every object has a thread of its own: the temporary arrays of all
their loads would stay, and most of what an object held that has left. It would be measured, and booked, as if used.
"""

from __future__ import annotations

import ctypes

_M_ARENA_MAX = -8
"""From malloc.h."""

_libc = ctypes.CDLL(None)


def share_one_heap() -> None:
    """All threads use the main thread's heap. Only before the first of them starts; nothing where there is no glibc."""
    mallopt = getattr(_libc, "mallopt", None)
    if mallopt is not None:
        mallopt(ctypes.c_int(_M_ARENA_MAX), ctypes.c_int(1))


def give_back_memory() -> None:
    """Returns the free memory of the main thread's heap, without Python's lock; nothing where there is no glibc."""
    malloc_trim = getattr(_libc, "malloc_trim", None)
    if malloc_trim is not None:
        malloc_trim(ctypes.c_size_t(0))
