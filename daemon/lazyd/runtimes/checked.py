"""Checks of a spec that runtimes have in common."""

from __future__ import annotations

import difflib
import os
import shutil
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

MIB = 1024 * 1024
UNKNOWN_BYTES = 256 * MIB
"""What a model without a file is booked with until it has been measured."""


def interpreter(spec: dict[str, Any]) -> None:
    """Raises `ValueError` if the model's own interpreter cannot be executed."""
    python = spec.get("python")
    if python and shutil.which(python) is None:
        raise ValueError(f"the interpreter {python} is missing or cannot be executed")


def file_size(path: str) -> int:
    """The size of a file that can be read. Raises `OSError`."""
    with open(path, "rb") as file:
        return os.fstat(file.fileno()).st_size


def known_options(options: Iterable[str], known: Iterable[str], what: str) -> None:
    """Raises `ValueError` for an option that the runtime's library does not have."""
    allowed = sorted(known)
    for option in options:
        if option not in allowed:
            near = difflib.get_close_matches(option, allowed, n=1)
            advice = f"did you mean {near[0]}?" if near else f"it knows {', '.join(allowed)}"
            raise ValueError(f"{what} has no option {option!r}; {advice}")
