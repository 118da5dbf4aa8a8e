"""A model of the runtime ``python`` that does with GPU memory what models do, on the stand-in driver.

In a configuration:

    [models.big]
    runtime = "python"
    factory = "tests.fakes.gpu_model:make"     # python_path = ["<this checkout>"]
    device = ["gpu0", "gpu1"]
    options = { size_mib = 6144, context_mib = 300, load_s = 0.2, call_peak_mib = 512 }

It allocates on the GPUs that CUDA_VISIBLE_DEVICES names, evenly on all of them, and nothing where it names
none. Python 3.9, standard library.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import Any

from .nvml import MIB, Allocation, OutOfMemory, StandIn
from .nvml.driver import HIDDEN, SHOWN


class OutOfMemoryError(RuntimeError):
    """What PyTorch raises is called so, and says what this says."""


class GpuModel:
    """Sizes are MiB.

    `size_mib` is what it holds when it is loaded, after a ramp of `steps` over `load_s`; `load_peak_mib` it needs
    besides while it loads, `call_peak_mib` while a call runs, which takes `call_s`. Every call leaks `leak_mib`.
    `context_mib` is what a process pays on each GPU as soon as it uses it; parking leaves that, and
    `residue_mib`. `hidden`: the driver does not show the process; `in_child`: a child of it has the memory. `gate`
    is a file for which the load waits at its end, `fails` what it then says instead of being loaded. In the file
    `roll` it writes a line: the pid that has the memory, its own, and `called`.
    `error` is the manner of running out: ``torch``, ``cuda``, ``ggml`` or ``abort``.
    """

    def __init__(
        self,
        *,
        size_mib: int = 0,
        load_s: float = 0.0,
        steps: int = 5,
        load_peak_mib: int = 0,
        call_peak_mib: int = 0,
        call_s: float = 0.0,
        leak_mib: int = 0,
        context_mib: int = 0,
        residue_mib: int = 0,
        hidden: bool = False,
        in_child: bool = False,
        gate: str | None = None,
        fails: str | None = None,
        error: str = "torch",
        roll: str | None = None,
        called: str = "",
    ) -> None:
        self._size_mib, self._load_s, self._steps = size_mib, load_s, steps
        self._call_peak_mib, self._call_s, self._leak_mib = call_peak_mib, call_s, leak_mib
        self._residue_mib = residue_mib
        self._shown = HIDDEN if hidden else SHOWN
        self._error = error
        self._driver = StandIn.of_environment()
        self._gpus = self._driver.visible(os.environ.get("CUDA_VISIBLE_DEVICES"))
        self._child = subprocess.Popen(["sleep", "infinity"]) if in_child else None
        if roll is not None:
            with open(roll, "a") as file:
                file.write(f"{self._pid()} {os.getpid()} {called}\n")
        self._allocate(context_mib * len(self._gpus))
        self._weights = self._ramp()
        free(self._allocate(load_peak_mib))
        while gate is not None and not os.path.exists(gate):
            time.sleep(0.005)
        if fails is not None:
            raise RuntimeError(fails)

    # What clients call.

    def run(self, gate: str | None = None) -> dict[str, Any]:
        """A call: it takes its time, or as long as until the file `gate` is there."""
        peak = self._allocate(self._call_peak_mib)
        try:
            time.sleep(self._call_s)
            while gate is not None and not os.path.exists(gate):
                time.sleep(0.005)
        finally:
            free(peak)
        self._weights += self._allocate(self._leak_mib)
        return self.tell()

    def tell(self) -> dict[str, Any]:
        """Where it is, and what it holds there."""
        pid = self._pid()
        return {"pid": pid, "gpus": self._gpus, "bytes": [self._driver.held(gpu, pid) for gpu in self._gpus]}

    def grow(self, mib: int) -> None:
        self._weights += self._allocate(mib)

    # What lazyd calls.

    def park(self) -> None:
        free(self._weights)
        self._weights = self._allocate(self._residue_mib)

    def unpark(self) -> None:
        free(self._weights)
        self._weights = self._ramp()

    def close(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._child.wait()

    # Below.

    def _pid(self) -> int:
        return os.getpid() if self._child is None else self._child.pid

    def _ramp(self) -> list[Allocation]:
        held: list[Allocation] = []
        whole = self._shares(self._size_mib)
        for step in range(self._steps):
            held += self._take([n * (step + 1) // self._steps - n * step // self._steps for n in whole])
            time.sleep(self._load_s / self._steps)
        return held

    def _allocate(self, mib: int) -> list[Allocation]:
        return self._take(self._shares(mib))

    def _shares(self, mib: int) -> list[int]:
        """Evenly on all GPUs."""
        count = len(self._gpus)
        return [mib * (n + 1) // count - mib * n // count for n in range(count)]

    def _take(self, shares: list[int]) -> list[Allocation]:
        """So much on each GPU. What it could not have altogether it has not at all."""
        got: list[Allocation] = []
        for n, mib in enumerate(shares):
            if mib == 0:
                continue
            try:
                got.append(self._driver.allocate(self._gpus[n], mib * MIB, pid=self._pid(), shown=self._shown))
            except OutOfMemory as full:
                free(got)
                raise self._ran_out(n, mib) from full
        return got

    def _ran_out(self, gpu: int, mib: int) -> Exception:
        if self._error == "torch":
            text = f"CUDA out of memory. Tried to allocate {mib}.00 MiB. GPU {gpu} has a total capacity of less."
            return OutOfMemoryError(text)
        if self._error == "cuda":
            return RuntimeError("CUDA error: out of memory")
        if self._error == "ggml":
            print(
                f"ggml_backend_cuda_buffer_type_alloc_buffer: allocating {mib}.00 MiB on device {gpu}: "
                "cudaMalloc failed: out of memory",
                file=sys.stderr,
                flush=True,
            )
            return ValueError("Failed to load model from file")
        print(f"CUDA error: out of memory\n  current device: {gpu}", file=sys.stderr, flush=True)
        os.abort()


def free(allocations: list[Allocation]) -> None:
    for allocation in allocations:
        allocation.free()
    allocations.clear()


def make(**options: Any) -> GpuModel:
    return GpuModel(**options)


class Member(GpuModel):
    """One object of many in a process, which goes without it: it gives back what is its own."""

    def close(self) -> None:
        free(self._weights)
        super().close()


def member(_name: str, **options: Any) -> GpuModel:
    """Of a family."""
    return Member(**options)


class Unparkable(GpuModel):
    """One that cannot park."""

    park = None  # type: ignore[assignment]


def make_unparkable(**options: Any) -> GpuModel:
    return Unparkable(**options)
