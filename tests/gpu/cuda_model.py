"""A model of the runtime ``python`` that holds memory of a real GPU."""

from __future__ import annotations

import os
from typing import Any

from .cuda import Cuda

MIB = 1024**2


class CudaModel:
    """Holds `size_mib` of the first GPU that it sees, and the context that this takes."""

    def __init__(self, size_mib: int) -> None:
        self._cuda = Cuda()
        self._size = size_mib * MIB
        self._cuda.allocate(self._size)

    def tell(self) -> dict[str, Any]:
        return {"pid": os.getpid(), "visible": os.environ.get("CUDA_VISIBLE_DEVICES"), "info": self._cuda.info()}

    def park(self) -> None:
        self._cuda.free()

    def unpark(self) -> None:
        self._cuda.allocate(self._size)


class Unparkable(CudaModel):
    """Leaves when it is idle."""

    park = None  # type: ignore[assignment]


def make(**options: Any) -> CudaModel:
    return Unparkable(**options)


def make_parkable(**options: Any) -> CudaModel:
    return CudaModel(**options)
