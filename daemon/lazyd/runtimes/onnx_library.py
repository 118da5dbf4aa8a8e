"""What onnxruntime can do on this machine, found out without importing it."""

from __future__ import annotations

import glob
import os
from typing import Any

from . import packages

PACKAGE = "onnxruntime"


def may_use_gpus(spec: dict[str, Any]) -> bool:
    """Whether a model can be loaded on GPUs, as far as is known."""
    return packages.may_use_gpus(PACKAGE, spec, _has_cuda)


def itself(spec: dict[str, Any]) -> list[str]:
    """The file of the library: a model that is loaded with another one may need other memory."""
    library = packages.directory(PACKAGE, spec)
    return [] if library is None else _libraries(library, "onnxruntime_pybind11_state*.so")[:1]


def _has_cuda(library: str) -> bool:
    return bool(_libraries(library, "libonnxruntime_providers_cuda.so*"))


def _libraries(directory: str, pattern: str) -> list[str]:
    return sorted(glob.glob(os.path.join(glob.escape(directory), "capi", pattern)))
