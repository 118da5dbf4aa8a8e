"""One NVIDIA GPU, or one instance of a divided one, asked through NVML.

Drivers differ in what they can tell: for each question the newest function that this one has is found
at the first answer and kept. What only some GPUs have (processes, sensors) may be missing; the memory may not.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from .source import CUDA, DeviceGone, Sample

READINGS = 3
"""So often at most are the two figures read that are to agree."""
FIRST_NAMESPACE = 0xEFFFFFFC
"""The inode of the process ids of the machine itself, as the kernel has it (PROC_PID_INIT_INO)."""
SENSORS_S = 1.0
"""Temperature and power are for people: no more often than this."""


def reason_of(error: Exception) -> str:
    return f"NVML: {error}"


def trouble(nvml: Any, error: Any) -> Exception:
    """What an error of NVML's means for a device: that it is gone, and with it all that computes there, or only
    that it has not answered."""
    if error.value == nvml.NVML_ERROR_GPU_IS_LOST:
        return DeviceGone(f"it has fallen off the bus ({reason_of(error)})")
    if error.value in (nvml.NVML_ERROR_RESET_REQUIRED, nvml.NVML_ERROR_DRIVER_NOT_LOADED):
        return DeviceGone(reason_of(error))
    if error.value == nvml.NVML_ERROR_NO_PERMISSION:
        return PermissionError(reason_of(error))
    return OSError(reason_of(error))


def sees_all_ids() -> bool:
    """Whether an id that a driver tells means here what it means there: not so in a container."""
    try:
        return os.stat("/proc/self/ns/pid").st_ino == FIRST_NAMESPACE
    except OSError:
        return True


def is_here(pid: int) -> bool:
    """Whether an id is that of a process, of whomever."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    return True


@dataclass
class Device:
    """`nvml` is the module pynvml, `handle` its handle. `whole` is the GPU of an instance."""

    nvml: Any
    handle: Any
    uuid: str
    label: str
    whole: Any = None
    _chosen: dict[str, int] = field(default_factory=dict)
    """Which version of a function this driver has."""
    _sensors: tuple[int | None, float | None] = (None, None)
    _sensed: float = float("-inf")

    def sample(self, name: str) -> Sample:
        """Raises `DeviceGone` or `OSError`."""
        try:
            return self._sample(name)
        except self.nvml.NVMLError as error:
            raise trouble(self.nvml, error) from None

    def _sample(self, name: str) -> Sample:
        begun = monotonic()
        for _ in range(READINGS):
            total, before = self._memory()
            processes = self._processes()
            total, after = self._memory()
            if before == after:
                break
        temperature, power = self._sensed_now()
        return Sample(
            name=name,
            kind=CUDA,
            total_bytes=total,
            used_bytes=max(before, after),
            begun=begun,
            processes=processes,
            alone=self.whole is not None,
            uuid=self.uuid,
            label=self.label,
            temperature_c=temperature,
            power_w=power,
        )

    def _memory(self) -> tuple[int, int]:
        """Bytes that programs can have, and those that they have.

        Version 1 counts what the driver has set aside for itself (hundreds of MiB) as used; version 2 tells it
        apart as `reserved`, and whether `used` includes it differs with the driver. So `used` is not read:
        what is not free is used, and what is set aside is no part of the total, thus counted nowhere. Of a driver
        that has version 1 only it is counted once, as used by others.
        """
        memory = self._ask("memory", self._memory_v2, self.nvml.nvmlDeviceGetMemoryInfo)
        if memory is None:
            raise OSError("NVML does not tell how much memory it has")
        total = memory.total - getattr(memory, "reserved", 0)
        return total, max(total - memory.free, 0)

    def _memory_v2(self, handle: Any) -> Any:
        return self.nvml.nvmlDeviceGetMemoryInfo(handle, self.nvml.nvmlMemory_v2)

    def _processes(self) -> dict[int, int]:
        """Bytes by process id. A process may compute and draw: each list then shows all that it has.

        Those without a figure (None) are left out, and in a container the ids that are nobody's there: drivers tell
        those of the machine, and one's own processes have others. To lazyd such a process is one that is hidden.
        """
        found: dict[int, int] = {}
        are_known = sees_all_ids()
        for kind in ("Compute", "Graphics", "MPSCompute"):
            versions = [
                getattr(self.nvml, f"nvmlDeviceGet{kind}RunningProcesses_{version}") for version in ("v3", "v2")
            ]
            for process in self._ask(kind, *versions) or ():
                if process.usedGpuMemory is not None and (are_known or is_here(process.pid)):
                    found[process.pid] = max(found.get(process.pid, 0), process.usedGpuMemory)
        return found

    def _sensed_now(self) -> tuple[int | None, float | None]:
        """Degrees and watts. Those of an instance are its whole GPU's, and watts then say nothing of it."""
        if monotonic() - self._sensed >= SENSORS_S:
            nvml = self.nvml
            celsius = self._ask("temperature", self._temperature_v, self._temperature)
            milliwatts = self._ask("power", nvml.nvmlDeviceGetPowerUsage) if self.whole is None else None
            self._sensors = celsius, None if milliwatts is None else milliwatts / 1000
            self._sensed = monotonic()
        return self._sensors

    def _temperature_v(self, handle: Any) -> Any:
        """The newer function; nvidia-ml-py 12 does not have it."""
        newer = getattr(self.nvml, "nvmlDeviceGetTemperatureV", None)
        if newer is None:
            raise self.nvml.NVMLError(self.nvml.NVML_ERROR_FUNCTION_NOT_FOUND)
        return newer(self.whole or handle, self.nvml.NVML_TEMPERATURE_GPU)

    def _temperature(self, handle: Any) -> Any:
        return self.nvml.nvmlDeviceGetTemperature(self.whole or handle, self.nvml.NVML_TEMPERATURE_GPU)

    def _ask(self, question: str, *versions: Callable[[Any], Any]) -> Any:
        """What the first of these functions answers that this driver has; None: it has none of them."""
        nvml = self.nvml
        while (at := self._chosen.get(question, 0)) < len(versions):
            try:
                return versions[at](self.handle)
            except nvml.NVMLError as error:
                if error.value == nvml.NVML_ERROR_INSUFFICIENT_SIZE:
                    return versions[at](self.handle)  # a list has grown meanwhile
                if error.value not in (
                    nvml.NVML_ERROR_NOT_SUPPORTED,
                    nvml.NVML_ERROR_FUNCTION_NOT_FOUND,
                    nvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
                    nvml.NVML_ERROR_NO_PERMISSION,
                ):
                    raise
                self._chosen[question] = at + 1
        return None
