"""The files of a model, as its runtime knows them."""

from __future__ import annotations

import os
from typing import NamedTuple

from lazyd.core.spec import ModelSpec

from ..processes.environment import as_told


class File(NamedTuple):
    """One file, and what it was when it was looked at."""

    path: str
    id: str
    """``device:inode``, as the ledger calls it."""
    bytes: int


def paths(spec: ModelSpec) -> list[str]:
    """Where they are, each once. Blocks. Raises `OSError` or `ValueError` with a clear line."""
    from lazyd.runtimes import runtime_named

    if spec.fetched is not None and not os.path.exists(spec.fetched):
        raise FileNotFoundError("it has not been fetched yet: 'lazyctl load' fetches it")
    return list(dict.fromkeys(map(os.path.realpath, runtime_named(spec.runtime).files(as_told(spec)))))


def found(spec: ModelSpec) -> list[File]:
    """All of them; none, if the model has none that is known before it is loaded. Blocks.

    Raises:
        OSError: one is missing, is no plain file, or may not be read.
        ValueError: they say that they are not whole.
    """
    return [_look(path) for path in paths(spec)]


def _look(path: str) -> File:
    with open(path, "rb") as file:  # to be told now if it may not be read
        seen = os.fstat(file.fileno())
    return File(path, f"{seen.st_dev}:{seen.st_ino}", seen.st_size)
