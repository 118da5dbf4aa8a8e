"""Models for the tests: what a factory of the python runtime may be. Runs inside workers."""

from __future__ import annotations

import os
import time
from pathlib import Path


class Thing:
    """Says where it runs, and takes its time if asked to."""

    def pid(self) -> int:
        return os.getpid()

    def uid(self) -> int:
        return os.geteuid()

    def cgroup(self) -> str:
        (unified,) = (line for line in Path("/proc/self/cgroup").read_text().splitlines() if line.startswith("0::"))
        return unified.removeprefix("0::")

    def read(self, path: str) -> str:
        return Path(path).read_text()

    def take(self, seconds: float) -> float:
        time.sleep(seconds)
        return seconds


def thing() -> Thing:
    return Thing()


def never() -> Thing:
    """Loads longer than any test lasts."""
    time.sleep(3600)
    return Thing()
