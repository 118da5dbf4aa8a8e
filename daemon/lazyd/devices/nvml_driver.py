"""NVIDIA's driver: its GPUs, found and numbered through NVML. No CUDA context is ever made; it would cost
hundreds of MiB of each GPU.

``gpu0`` is NVML's first GPU when this process first looked, and stays the GPU with that UUID; a later one gets
a number that nobody has had. A divided GPU (MIG) is no device, its instances are. NVML's library stays
loaded and its GPUs initialised, which also spares every program that starts the seconds that this takes.

Any call may hang for ever, so no lock is held during one. Every GPU is looked at in a thread of its own.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from time import monotonic
from typing import Any

from .numbering import Answer, Numbering
from .nvml_device import Device, reason_of, trouble
from .source import DeviceGone, Sample

LOOK_S = 4.0
"""How long a GPU may take to say what it is, before the others are named without it."""


class Driver:
    """All GPUs of this machine, by way of pynvml, whose import takes 25 ms and some megabytes."""

    def __init__(self) -> None:
        import pynvml

        self._nvml: Any = pynvml
        self._initialised = False
        self._lock = threading.Lock()
        self._numbering = Numbering()
        self._inside = 0
        """Calls of NVML under way."""
        self._looking: dict[int, threading.Thread] = {}
        """Positions whose GPU has not answered yet."""
        self._finding = threading.Lock()

    def names(self) -> list[str]:
        """The GPUs that there are, also those that do not answer. See `Source`."""
        if not self._finding.acquire(blocking=False):
            raise OSError("the last look for GPUs has not ended")
        try:
            self._find()
        finally:
            self._finding.release()
        with self._lock:
            return self._numbering.names()

    def sample(self, name: str) -> Sample:
        """See `Source`."""
        with self._lock:
            slot = self._numbering.slot(name)
            device, why = slot.device, slot.trouble
        if device is None:
            raise why.with_traceback(None) if why else DeviceGone("it is not there")
        with self._call():
            return device.sample(name)

    def uuid(self, name: str) -> str | None:
        """What ``CUDA_VISIBLE_DEVICES`` calls it; None: nobody knows. Never blocks."""
        try:
            with self._lock:
                return self._numbering.slot(name).uuid
        except DeviceGone:
            return None

    # Finding them.

    def _find(self) -> None:
        """Raises `OSError`: the driver is there and says something strange."""
        nvml = self._nvml
        try:
            if not self._initialised:
                nvml.nvmlInit()
                self._initialised = True
            with self._call():
                count = nvml.nvmlDeviceGetCount()
        except nvml.NVMLError as error:
            self._lose_all(error)
            if error.value == nvml.NVML_ERROR_DRIVER_NOT_LOADED:
                return
            raise OSError(reason_of(error)) from None
        found = self._look_at(range(count))
        with self._lock:
            self._numbering.place(found, count)
            anew = count > 0 and not any(slot.device for slot in self._numbering.slots)
        if anew:  # not one of them works: perhaps the driver was loaded anew
            self._end()

    def _end(self) -> None:
        """NVML is to be initialised again. Not while somebody is in a call, which might never come back."""
        with self._lock:
            if self._inside or not self._initialised:
                return
            self._initialised = False
        with contextlib.suppress(self._nvml.NVMLError):  # it was down already
            self._nvml.nvmlShutdown()

    def _lose_all(self, error: Any) -> None:
        with self._lock:
            for slot in self._numbering.slots:
                slot.fail(trouble(self._nvml, error))
        self._end()

    def _look_at(self, positions: range) -> dict[int, Answer]:
        """What is at each position. One that takes too long is not waited for, and not asked twice."""
        answers: dict[int, Answer] = {}
        self._looking = {position: thread for position, thread in self._looking.items() if thread.is_alive()}
        begun = [position for position in positions if position not in self._looking]
        for position in begun:
            thread = threading.Thread(target=self._look, args=(position, answers), name=f"nvml {position}", daemon=True)
            self._looking[position] = thread
            thread.start()
        deadline = monotonic() + LOOK_S
        for position in begun:
            self._looking[position].join(max(0.0, deadline - monotonic()))
        return dict(answers)

    def _look(self, position: int, answers: dict[int, Answer]) -> None:
        nvml = self._nvml
        try:
            with self._call():
                answers[position] = self._devices(nvml.nvmlDeviceGetHandleByIndex(position))
        except nvml.NVMLError as error:
            answers[position] = trouble(nvml, error)
        except OSError as error:
            answers[position] = error

    def _devices(self, handle: Any) -> list[Device]:
        """A GPU, or the instances of a divided one."""
        nvml = self._nvml
        try:
            divided, _ = nvml.nvmlDeviceGetMigMode(handle)
        except nvml.NVMLError as error:
            if error.value not in (nvml.NVML_ERROR_NOT_SUPPORTED, nvml.NVML_ERROR_FUNCTION_NOT_FOUND):
                raise
            divided = nvml.NVML_DEVICE_MIG_DISABLE
        if divided == nvml.NVML_DEVICE_MIG_DISABLE:
            return [self._device(handle)]
        # Compute instances of one GPU instance share its memory: one of them stands for it.
        by_memory: dict[int, Device] = {}
        for n in range(nvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
            try:
                instance = nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, n)
            except nvml.NVMLError as error:
                if error.value not in (nvml.NVML_ERROR_NOT_FOUND, nvml.NVML_ERROR_INVALID_ARGUMENT):
                    raise
                continue
            by_memory.setdefault(nvml.nvmlDeviceGetGpuInstanceId(instance), self._device(instance, whole=handle))
        return list(by_memory.values())

    def _device(self, handle: Any, whole: Any = None) -> Device:
        uuid, label = self._nvml.nvmlDeviceGetUUID(handle), self._nvml.nvmlDeviceGetName(handle)
        return Device(self._nvml, handle, uuid, label, whole)

    @contextlib.contextmanager
    def _call(self) -> Iterator[None]:
        """Around calls of NVML: it is not shut down meanwhile."""
        with self._lock:
            if not self._initialised:
                raise OSError("NVML is being initialised again")
            self._inside += 1
        try:
            yield
        finally:
            with self._lock:
                self._inside -= 1
