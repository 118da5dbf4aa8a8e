"""Where a model's library is installed, found out without importing it."""

from __future__ import annotations

import glob
import importlib.util
import os
import re
import shutil
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


def directory(package: str, spec: dict[str, Any]) -> str | None:
    """Of the package that a model will be loaded with; None if it is not found. An interpreter that is not lazyd's
    own is not asked, which would take too long: its packages are in some usual place, or not found."""
    python = spec.get("python")
    for path in (*spec.get("python_path", ()), *(_packages_of(python) if python else ())):
        if os.path.isdir(os.path.join(path, package)):
            return os.path.join(path, package)
    if python:
        return None
    found = importlib.util.find_spec(package)
    return os.path.dirname(found.origin) if found is not None and found.origin else None


def may_use_gpus(package: str, spec: dict[str, Any], says_so: Callable[[str], bool]) -> bool:
    """Whether a model can be loaded on GPUs, as far as is known: what `says_so` finds in the package's directory.

    Another interpreter whose library is not found may be able to: if it is not, its first load tells so, but what is
    never tried never tells that it is.
    """
    library = directory(package, spec)
    return bool(spec.get("python")) if library is None else says_so(library)


def constant(path: str, name: str) -> str | None:
    """What a Python file assigns to `name`, as it is written there, without quotes; None: nothing."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            text = file.read(1 << 20)
    except OSError:
        return None
    found = re.search(rf"^{re.escape(name)}\s*(?::[^=\n]*)?=\s*(.+?)\s*$", text, re.MULTILINE)
    return found[1].strip("'\"") if found else None


def _packages_of(python: str) -> list[str]:
    """Where an interpreter has its packages: in its virtual environment, then in that which it was made from."""
    found = shutil.which(python)
    places = (
        [] if found is None else [os.path.dirname(os.path.dirname(path)) for path in (found, os.path.realpath(found))]
    )
    patterns = ("lib*/python3*/*-packages", "local/lib*/python3*/*-packages")
    return [
        path
        for place in places
        for pattern in patterns
        for path in sorted(glob.glob(os.path.join(glob.escape(place), pattern)))
    ]
