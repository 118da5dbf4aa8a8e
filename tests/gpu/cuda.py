"""Allocates on a GPU through CUDA's driver interface, without any library but the driver's own.

As a program, ``python -m tests.gpu.cuda``, it says ``ok`` when it has a context, or else what is missing. Then it obeys
lines: ``allocate BYTES`` and ``free`` (the last one), answered ``ok`` or ``error NUMBER``; ``info``, answered with the
free and the total bytes of the GPU; ``pid``, with its own.
"""

from __future__ import annotations

import ctypes
import os
import sys

OUT_OF_MEMORY = 2


class CudaError(Exception):
    """`code` is CUDA's."""

    def __init__(self, function: str, code: int) -> None:
        text = "out of memory" if code == OUT_OF_MEMORY else f"error {code}"
        super().__init__(f"CUDA error: {text} ({function})")
        self.code = code


class Cuda:
    """The first GPU that CUDA_VISIBLE_DEVICES shows, with its primary context. For any thread.

    Raises:
        OSError: there is no libcuda.
        CudaError: it does not work.
    """

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libcuda.so.1")
        self._held: list[ctypes.c_uint64] = []
        self._context = ctypes.c_void_p()
        device = ctypes.c_int()
        self._do("cuInit", ctypes.c_uint(0))
        self._do("cuDeviceGet", ctypes.byref(device), ctypes.c_int(0))
        self._do("cuDevicePrimaryCtxRetain", ctypes.byref(self._context), device)

    def allocate(self, size: int) -> None:
        at = ctypes.c_uint64()
        self._in_context("cuMemAlloc_v2", ctypes.byref(at), ctypes.c_size_t(size))
        self._held.append(at)

    def free(self) -> None:
        """The last allocation."""
        self._in_context("cuMemFree_v2", self._held.pop())

    def info(self) -> tuple[int, int]:
        """Free and total bytes."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self._in_context("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value, total.value

    def _in_context(self, function: str, *arguments: object) -> None:
        """A context is current in one thread alone."""
        self._do("cuCtxSetCurrent", self._context)
        self._do(function, *arguments)

    def _do(self, function: str, *arguments: object) -> None:
        code = getattr(self._library, function)(*arguments)
        if code != 0:
            raise CudaError(function, code)


def obey(cuda: Cuda, word: str, *size: int) -> tuple[object, ...]:
    """Does what a line says. Its answer. Raises `CudaError`."""
    if word == "info":
        return cuda.info()
    if word == "pid":
        return (os.getpid(),)
    if word == "allocate":
        cuda.allocate(*size)
    elif word == "free":
        cuda.free()
    return ("ok",)


def main() -> None:
    try:
        cuda = Cuda()
    except (OSError, CudaError) as error:
        print(error, flush=True)
        return
    print("ok", flush=True)
    for line in sys.stdin:
        word, *rest = line.split()
        try:
            print(*obey(cuda, word, *map(int, rest)), flush=True)
        except CudaError as error:
            print("error", error.code, flush=True)


if __name__ == "__main__":
    main()
