"""How long a process takes, and what one that runs costs."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from .figure import Measure


def run_time(command: Sequence[str], environment: Mapping[str, str] | None = None) -> Measure:
    """Measures milliseconds from starting the command to its end; it must exit 0."""

    def measure() -> float:
        began = time.perf_counter()
        subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env=environment, check=True)
        return (time.perf_counter() - began) * 1000

    return measure


def python_time(code: str) -> Measure:
    """The same for ``python -c CODE``, of the environment that lazyd runs in."""
    return run_time([sys.executable, "-c", code])


def resident_bytes(pid: int) -> int:
    """What the process has in memory, shared libraries included."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def wakeups(pid: int) -> int:
    """How often all threads of the process together gave up the processor of their own will, so far."""
    total = 0
    for status in Path(f"/proc/{pid}/task").glob("*/status"):
        for line in status.read_text().splitlines():
            if line.startswith("voluntary_ctxt_switches:"):
                total += int(line.split()[1])
    return total
