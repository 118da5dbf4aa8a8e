"""The stand-in inside a test's own process, whose LD_LIBRARY_PATH was read when it was started.

A library that is loaded already is found again by its name, so nvidia-ml-py gets the stand-in all the same.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from .driver import VARIABLE, StandIn


@contextmanager
def used_here(driver: StandIn) -> Iterator[StandIn]:
    """While it lasts, NVML in this process means this driver. Nobody may have NVML initialised before."""
    import pynvml

    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = driver.path
    try:
        yield driver
    finally:
        driver.heal()
        driver.load()
        with suppress(pynvml.NVMLError):
            while True:
                pynvml.nvmlShutdown()
        if before is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = before
