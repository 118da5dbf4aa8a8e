"""What others do: strangers on the GPUs, kills, and a driver that is not well."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import threading

from tests.fakes.nvml import MIB, OutOfMemory, StandIn
from tests.fakes.nvml.driver import HIDDEN, SHOWN, UNKNOWN, WITHOUT_BYTES, Allocation

FIRST_STRANGER = 4_000_000
"""Their pids are those of no process."""
SHOWN_AS = {"hidden": HIDDEN, "shown": SHOWN, "without bytes": WITHOUT_BYTES}
MEMORY = "nvmlDeviceGetMemoryInfo_v2"
ASKED = (MEMORY, "nvmlDeviceGetMemoryInfo", "nvmlDeviceGetComputeRunningProcesses_v3")

_pids = itertools.count(FIRST_STRANGER)


def is_stranger(pid: int) -> bool:
    return pid >= FIRST_STRANGER


def visit(
    driver: StandIn, ended: threading.Event, gpu: int, mib: int, steps: int, every_s: float, stay_s: float, shown: str
) -> None:
    """A stranger comes, grows step by step, stays and goes: at `ended` at the latest."""
    pid, held = next(_pids), list[Allocation]()
    try:
        for step in range(steps):
            part = mib * (step + 1) // steps - mib * step // steps
            held.append(driver.stranger(gpu, part * MIB, pid=pid, shown=SHOWN_AS[shown]))
            ended.wait(every_s)
    except (OutOfMemory, OSError):
        pass  # it makes do with what it has
    ended.wait(stay_s)
    for allocation in held:
        allocation.free()


def kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def fail(driver: StandIn, gpu: int) -> None:
    for function in ASKED:
        driver.fail(function, UNKNOWN, gpu=gpu)


def hang(driver: StandIn, gpu: int) -> None:
    driver.hang(MEMORY, gpu=gpu)
