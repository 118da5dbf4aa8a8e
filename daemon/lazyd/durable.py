"""Replacing a file so that a power cut, or a full disk, leaves the old one or the new one.

Standard library only. Blocks on the disk: it is used in a thread.
"""

from __future__ import annotations

import contextlib
import os


def replace(path: str, *parts: bytes) -> None:
    """Replaces a file as a whole; once it returns, the new one outlives a power cut.

    The directory is made if it is missing. Both are their owner's alone.

    Raises:
        OSError: the disk is full, say. The old file is as it was.
    """
    directory = os.path.dirname(path)
    new = f"{path}.new"
    os.makedirs(directory, mode=0o700, exist_ok=True)
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(new)
        with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
            file.writelines(parts)
            file.flush()
            os.fsync(file.fileno())
        os.rename(new, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(new)
        raise
    entry = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(entry)
    finally:
        os.close(entry)
