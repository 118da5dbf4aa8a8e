"""Which files make up the configuration, and whether they have changed since.

With ``--config FILE`` it is that file alone. Otherwise ``lazyd.toml`` and then
``lazyd.d/*.toml`` in name order, in the first of these directories that has any:
``$XDG_CONFIG_HOME/lazyd`` (``~/.config/lazyd``; not for root), ``/etc/lazyd``. A user's own
configuration replaces the machine's: read together, two daemons would own the same models.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Mapping

import msgspec

from ..places import SYSTEM_CONFIG
from .problems import Problem

MAX_BYTES = 64 * 2**20
_CLOCK_STEP_NS = 20_000_000
"""Longer than the steps in which a kernel stamps files (4 or 10 ms)."""


class Files(msgspec.Struct, frozen=True, kw_only=True):
    """Absolute paths in the order of reading; later ones override earlier ones key by key."""

    paths: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()
    """Directories that could not be listed."""


class Mark(msgspec.Struct, frozen=True, array_like=True):
    """What tells one state of a file from another. Equal marks: the same contents."""

    path: str
    device: int
    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int


def find(config: str | None = None, *, environ: Mapping[str, str] | None = None, uid: int | None = None) -> Files:
    """The files that exist now; `config` is the argument of ``--config``. Empty: there are none."""
    if config is not None:
        return Files(paths=(os.path.abspath(config),))
    for directory in _directories(os.environ if environ is None else environ, os.geteuid() if uid is None else uid):
        found = _in_directory(directory)
        if found.paths or found.problems:
            return found
    return Files()


def marks_of(paths: tuple[str, ...]) -> tuple[Mark, ...] | None:
    """The marks of all files as they are now; None where one cannot be told from its next state."""
    marks = []
    for path in paths:
        try:
            mark = mark_of(path, os.stat(path))
        except OSError:
            return None
        if mark is None:
            return None
        marks.append(mark)
    return tuple(marks)


def mark_of(path: str, found: os.stat_result) -> Mark | None:
    """None for what is no regular file, or was written so recently that it may change unseen."""
    if not stat.S_ISREG(found.st_mode) or found.st_ctime_ns > time.time_ns() - _CLOCK_STEP_NS:
        return None
    return Mark(path, found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def read(path: str) -> tuple[bytes, Mark | None]:
    """The contents, and the mark from before reading. Raises OSError."""
    with open(path, "rb") as file:
        mark = mark_of(path, os.fstat(file.fileno()))
        contents = file.read(MAX_BYTES + 1)
    if len(contents) > MAX_BYTES:
        raise OSError(f"larger than {MAX_BYTES // 2**20} MiB")
    return contents, mark


def _directories(environ: Mapping[str, str], uid: int) -> list[str]:
    if uid == 0:
        return [SYSTEM_CONFIG]
    home = environ.get("XDG_CONFIG_HOME") or os.path.join(environ.get("HOME") or "/nonexistent", ".config")
    return [os.path.join(home, "lazyd"), SYSTEM_CONFIG]


def _in_directory(directory: str) -> Files:
    main = os.path.join(directory, "lazyd.toml")
    more = os.path.join(directory, "lazyd.d")
    problems = []
    names: list[str] = []
    try:
        names = sorted(name for name in os.listdir(more) if name.endswith(".toml") and not name.startswith("."))
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as error:
        problems.append(
            Problem(file=more, what=f"cannot be listed: {error.strerror}", remedy="let lazyd's user read the directory")
        )
    # lexists: a link to nowhere is a mistake to report, not an absent file.
    first = [main] if os.path.lexists(main) else []
    return Files(paths=(*first, *(os.path.join(more, name) for name in names)), problems=tuple(problems))
