"""One manager a runtime directory: the lock file, and taking over from who holds it.

The file holds the manager's pid for people and for ``--replace``; what counts is the lock,
which ends with the process however it ends.
"""

from __future__ import annotations

import fcntl
import os
import signal
import time

from .failures import CannotStart

TAKE_OVER_S = 10.0
"""How long ``--replace`` waits for the old manager to leave."""
_LOOK_AGAIN_S = 0.005


def acquire(path: str, *, replace: bool) -> int:
    """Takes the lock, with `replace` from a running manager. The descriptor holds it: never close it.

    Blocks while an old manager leaves, so it comes before the loop runs.

    Raises:
        CannotStart: another manager has the lock, or the file cannot be opened.
    """
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
    except OSError as error:
        raise CannotStart(
            f"{path} cannot be opened: {error.strerror}; let lazyd's user write there, or give --runtime-dir"
        ) from None
    try:
        if not _lock(fd):
            if not replace:
                raise CannotStart(
                    f"another lazyd ({_who(fd)}) holds {path}; stop it, or take over from it with --replace"
                )
            _take_over(fd, path)
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
    except OSError as error:
        os.close(fd)
        raise CannotStart(f"{path} cannot be written: {error.strerror}; make room there") from None
    except CannotStart:
        os.close(fd)
        raise
    return fd


def _take_over(fd: int, path: str) -> None:
    """Tells the holder to leave host and workers to us, and waits until it has."""
    deadline = time.monotonic() + TAKE_OVER_S
    told: int | None = None
    while not _lock(fd):
        holder = _pid(fd)
        if holder is not None and holder != told:
            told = holder
            _tell(holder, path)
        if time.monotonic() > deadline:
            raise CannotStart(f"{_who(fd)} was asked to leave and still holds {path}; end it with kill -9 {told or ''}")
        time.sleep(_LOOK_AGAIN_S)


def _tell(holder: int, path: str) -> None:
    try:
        pidfd = os.pidfd_open(holder)
    except ProcessLookupError:
        return  # it left just now, and the lock with it
    try:
        signal.pidfd_send_signal(pidfd, signal.SIGUSR2)
    except ProcessLookupError:
        pass
    except PermissionError:
        raise CannotStart(
            f"pid {holder} holds {path} and belongs to another user; run --replace as that user or as root"
        ) from None
    finally:
        os.close(pidfd)


def _lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _pid(fd: int) -> int | None:
    text = os.pread(fd, 32, 0).strip()
    return int(text) if text.isdigit() else None


def _who(fd: int) -> str:
    pid = _pid(fd)
    return f"pid {pid}" if pid else "its pid is not known"
