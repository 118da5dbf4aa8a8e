"""What Paddle can do on this machine, found out without importing it."""

from __future__ import annotations

import os
from typing import Any

from . import out_of_memory, packages

PACKAGE = "paddle"
OUT_OF_MEMORY = out_of_memory.signs(r"ResourceExhaustedError")
"""What it says on every device."""


def may_use_gpus(spec: dict[str, Any]) -> bool:
    """Whether a model can be loaded on GPUs, as far as is known."""
    return packages.may_use_gpus(PACKAGE, spec, _has_cuda)


def itself(spec: dict[str, Any]) -> list[str]:
    """The file that says which version it is: a model that is loaded with another one may need other memory."""
    library = packages.directory(PACKAGE, spec)
    return [_version_file(library)] if library and os.path.exists(_version_file(library)) else []


def _has_cuda(library: str) -> bool:
    return packages.constant(_version_file(library), "cuda_version") not in (None, "None", "False")


def _version_file(library: str) -> str:
    return os.path.join(library, "version", "__init__.py")
