"""What a worker is made from: an interpreter, a runtime, a path, and an environment that is final.

Variables such as ``OMP_NUM_THREADS`` must be set when the interpreter is executed, as set after a
fork they come too late for some libraries. So workers that differ in any of these cannot come
from the same zygote.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ..runtimes import runtime_named

_BOOT = str(Path(__file__).parent.parent / "worker" / "boot.py")
_NOT_INHERITED = frozenset(
    {
        "INVOCATION_ID",
        "JOURNAL_STREAM",
        "LISTEN_FDNAMES",
        "LISTEN_FDS",
        "LISTEN_PID",
        "MAINPID",
        "NOTIFY_SOCKET",
        "SYSTEMD_EXEC_PID",
        "WATCHDOG_PID",
        "WATCHDOG_USEC",
    }
)
"""systemd speaks to the host, not to its workers."""
GPU_VARIABLES = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")
"""Which GPUs a process is shown; they are heeded when it first looks for one."""


class Recipe(NamedTuple):
    """Equal recipes may share a zygote."""

    python: str
    runtime: str
    python_path: tuple[str, ...]
    imports: tuple[str, ...]
    """Of the model's own, beside its runtime's."""
    env: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, spec: Mapping[str, Any], base: Mapping[str, str]) -> Recipe:
        """From a model's description. Raises `ValueError` if its runtime or interpreter is not there."""
        runtime = spec["runtime"]
        env = {**base, **runtime_named(runtime).final_env(dict(spec)), **spec.get("env", {})}
        return cls(
            python=_interpreter(spec.get("python")),
            runtime=runtime,
            python_path=tuple(spec.get("python_path", ())),
            imports=tuple(spec.get("imports", ())),
            env=tuple(sorted(env.items())),
        )

    @property
    def in_ram(self) -> Recipe:
        """The same without a word of GPUs."""
        return self._replace(env=tuple(each for each in self.env if each[0] not in GPU_VARIABLES))

    @property
    def gpus(self) -> dict[str, str]:
        """What its environment says of GPUs."""
        return {name: value for name, value in self.env if name in GPU_VARIABLES}

    def command(self, role: str, fd: int) -> list[str]:
        """What is executed; `fd` is its link to this process."""
        arguments: dict[str, Any] = {"role": role, "fd": fd, "host": os.getpid(), "python_path": self.python_path}
        if role == "zygote":
            arguments |= {"runtime": self.runtime, "imports": self.imports}
        return [self.python, _BOOT, json.dumps(arguments)]


def base_environment(control_socket: str) -> dict[str, str]:
    """What every worker gets: the host's own, and where a model that calls models finds the manager."""
    env = {name: value for name, value in os.environ.items() if name not in _NOT_INHERITED}
    env.setdefault("LAZYD_SOCKET", control_socket)
    return env


def _interpreter(python: str | None) -> str:
    if not python:
        return sys.executable
    found = shutil.which(python)
    if found is None:
        raise ValueError(f"the interpreter {python} is missing or cannot be executed")
    return found
