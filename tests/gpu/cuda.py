"""Allocates on a GPU through CUDA's driver interface, without any library but the driver's own.

As a program, ``python -m tests.gpu.cuda``, it obeys lines: ``allocate BYTES`` and ``free`` (the last one), answered
``ok`` or ``error NUMBER``, and ``info``, answered with the free and the total bytes of the GPU.
"""

from __future__ import annotations

import ctypes
import sys

OUT_OF_MEMORY = 2


class CudaError(Exception):
    """`code` is CUDA's."""

    def __init__(self, function: str, code: int) -> None:
        text = "out of memory" if code == OUT_OF_MEMORY else f"error {code}"
        super().__init__(f"CUDA error: {text} ({function})")
        self.code = code


class Cuda:
    """The first GPU that CUDA_VISIBLE_DEVICES shows, with a context on it. Raises `CudaError`, `OSError`."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libcuda.so.1")
        self._held: list[ctypes.c_uint64] = []
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self._do("cuInit", 0)
        self._do("cuDeviceGet", ctypes.byref(device), 0)
        self._do("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self._do("cuCtxSetCurrent", context)

    def allocate(self, size: int) -> None:
        at = ctypes.c_uint64()
        self._do("cuMemAlloc_v2", ctypes.byref(at), ctypes.c_size_t(size))
        self._held.append(at)

    def free(self) -> None:
        """The last allocation."""
        self._do("cuMemFree_v2", self._held.pop())

    def info(self) -> tuple[int, int]:
        """Free and total bytes."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self._do("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value, total.value

    def _do(self, function: str, *arguments: object) -> None:
        code = getattr(self._library, function)(*arguments)
        if code != 0:
            raise CudaError(function, code)


def main() -> None:
    cuda = Cuda()
    print("ok", flush=True)
    for line in sys.stdin:
        word, *rest = line.split()
        try:
            if word == "allocate":
                cuda.allocate(int(rest[0]))
            elif word == "free":
                cuda.free()
            print(*(cuda.info() if word == "info" else ["ok"]), flush=True)
        except CudaError as error:
            print("error", error.code, flush=True)


if __name__ == "__main__":
    main()
