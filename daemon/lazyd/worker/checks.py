"""Whether a process that has imported a model library may fork workers, and whether it is still up to date.

A fork copies one thread only and shares every file: an unknown thread may hold a lock for ever in
the child, an unknown socket may be a session that two processes then talk on, and a CUDA context
(an open ``/dev/nvidia*``) does not survive a fork at all.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import stat
import sys
import sysconfig
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

_HARMLESS_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_OPENBLAS_COUNTS = ("scipy_openblas_get_num_threads64_", "openblas_get_num_threads64_", "openblas_get_num_threads")


def why_not_fork(known_fds: Collection[int]) -> str | None:
    """Why no worker may be forked from this process, or None."""
    return _unknown_threads() or _unknown_file(known_fds)


def fingerprint() -> dict[str, list[int]]:
    """Time of change and size of every file that modules were imported from, the interpreter's own aside."""
    own = tuple({os.path.join(sysconfig.get_path(name), "") for name in ("stdlib", "platstdlib")})
    other = tuple(os.path.join(path, "") for path in map(sysconfig.get_path, ("purelib", "platlib")))
    files = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    return look_at(file for file in files if file and (file.startswith(other) or not file.startswith(own)))


def look_at(files: Iterable[str]) -> dict[str, list[int]]:
    """Time of change (ns) and size of each file; a file that is gone has neither."""
    return {file: _look_at_one(file) for file in files}


def _look_at_one(file: str) -> list[int]:
    try:
        found = os.stat(file)
    except OSError:
        return []
    return [found.st_mtime_ns, found.st_size]


def _unknown_threads() -> str | None:
    threads = len(os.listdir("/proc/self/task"))
    known = 1 + sum(map(_openblas_threads, _mapped_libraries("openblas")))
    return f"{threads - known} unknown threads run after the imports" if threads > known else None


def _openblas_threads(library: str) -> int:
    """OpenBLAS starts threads when it is loaded. It ends them before a fork, and starts them again when needed."""
    try:
        handle = ctypes.CDLL(library)
    except OSError:
        return 0
    for name in _OPENBLAS_COUNTS:
        if hasattr(handle, name):
            return int(getattr(handle, name)()) - 1
    return 0


def _mapped_libraries(word: str) -> set[str]:
    with open("/proc/self/maps") as maps:
        paths = {line.split(None, 5)[-1].strip() for line in maps if word in line}
    return {path for path in paths if word in os.path.basename(path)}


def _unknown_file(known: Collection[int]) -> str | None:
    for name in os.listdir("/proc/self/fd"):
        fd = int(name)
        if fd in known:
            continue
        try:
            kind = os.fstat(fd)
            path = os.readlink(f"/proc/self/fd/{fd}")
        except OSError:
            continue  # the listing's own
        if not _is_harmless(fd, kind, path):
            return f"descriptor {fd} ({path}) is open after the imports"
    return None


def _is_harmless(fd: int, kind: os.stat_result, path: str) -> bool:
    if stat.S_ISREG(kind.st_mode):
        return fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY
    return stat.S_ISDIR(kind.st_mode) or path in _HARMLESS_DEVICES
