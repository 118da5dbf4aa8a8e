"""What llama.cpp can do on this machine, found out without importing it."""

from __future__ import annotations

import functools
import glob
import os
from typing import Any

from . import packages

_PACKAGE = "llama_cpp"
ELSEWHERE = "LLAMA_CPP_LIB_PATH"
"""llama-cpp-python loads its libraries from there if the environment says so."""

REPACKED = {
    "avx2": ("Q4_0", "Q4_K", "IQ4_NL", "MXFP4"),
    "avx512f": ("Q2_K",),
    "asimddp": ("Q4_0", "Q4_K", "Q5_K", "Q6_K", "Q8_0", "IQ4_NL", "MXFP4"),
}
"""Weights of these types ggml copies into another order for a processor with this feature (``repack.cpp``)."""


def directory(spec: dict[str, Any]) -> str | None:
    """Where the libraries are that a model will be loaded with; None if they are not found, see `packages`."""
    there = spec.get("env", {}).get(ELSEWHERE)
    return str(there) if there else packages.directory(_PACKAGE, spec)


def may_use_gpus(spec: dict[str, Any]) -> bool:
    """Whether a model can be loaded on GPUs, as far as is known. Another interpreter whose library is not found may be
    able to: if it is not, its dry run or its first load tells so, but what is never tried never tells that it is."""
    library = directory(spec)
    return has_gpu_backend(library) or (library is None and bool(spec.get("python")))


def has_gpu_backend(directory: str | None) -> bool:
    """Whether the libraries there compute on the GPUs that lazyd knows."""
    return directory is not None and bool(_libraries(directory, "libggml-cuda"))


def itself(directory: str) -> list[str]:
    """The file of the library: a model that is loaded with another one may need other memory."""
    return _libraries(directory, "libllama")[:1]


@functools.lru_cache(maxsize=1)
def repacked_types() -> frozenset[str]:
    """Types of weights that are copied when they are loaded into RAM, though the file is mapped."""
    try:
        with open("/proc/cpuinfo") as file:
            lines = (line.partition(":") for line in file)
            features = next(
                (set(value.split()) for key, _, value in lines if key.strip() in ("flags", "Features")), set()
            )
    except OSError:
        features = set()
    return frozenset(kind for feature in features & REPACKED.keys() for kind in REPACKED[feature])


def _libraries(directory: str, name: str) -> list[str]:
    places = (directory, os.path.join(directory, "lib"))
    return sorted(path for place in places for path in glob.glob(os.path.join(glob.escape(place), f"{name}*.so*")))
