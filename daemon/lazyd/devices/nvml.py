"""NVIDIA's GPUs, as far as there are any: a machine without NVML's library pays for nothing of it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from .source import DeviceGone, Sample

if TYPE_CHECKING:  # its import is for machines with a GPU
    from .nvml_driver import Driver

LIBRARY = "libnvidia-ml.so.1"


class Nvml:
    """A `Source`. The library may come later: it is looked for whenever names are asked for, until it is there."""

    def __init__(self) -> None:
        self._driver: Driver | None = None
        self._loading = threading.Lock()

    def names(self) -> list[str]:
        """The GPUs that there are, also those that do not answer. See `Source`."""
        driver = self._found()
        return driver.names() if driver is not None else []

    def sample(self, name: str) -> Sample:
        """See `Source`."""
        if self._driver is None:
            raise DeviceGone(f"there is no {name}, and no driver")
        return self._driver.sample(name)

    def uuid(self, name: str) -> str | None:
        """What ``CUDA_VISIBLE_DEVICES`` calls it; None: nobody knows. Never blocks."""
        return self._driver.uuid(name) if self._driver is not None else None

    def _found(self) -> Driver | None:
        with self._loading:
            if self._driver is None and has_library():
                from .nvml_driver import Driver

                self._driver = Driver()
            return self._driver


def has_library() -> bool:
    import ctypes

    try:
        ctypes.CDLL(LIBRARY)
    except OSError:
        return False
    return True
