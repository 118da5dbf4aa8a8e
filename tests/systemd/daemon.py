"""An installed daemon, as one of its users sees it."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from typing import Any

from .machine import LONGEST_S, Machine
from .units import Units

PYTHON = "/usr/local/lib/lazyd/venv/bin/python3"
"""The installed environment's interpreter."""


@dataclass(frozen=True)
class Daemon:
    """The daemon of some units, and who uses it."""

    units: Units
    user: str

    @property
    def machine(self) -> Machine:
        return self.units.machine

    def start(self, *command: str) -> subprocess.Popen[str]:
        """Starts a command as the user, in whose environment the daemon is found."""
        runtime = f"XDG_RUNTIME_DIR=/run/user/{self.machine.answer('id', '-u', self.user)}"
        return self.machine.start("env", runtime, *command, user=self.user)

    def lazyctl(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Runs lazyctl as the user."""
        process = self.start("lazyctl", *words)
        out, err = process.communicate(timeout=LONGEST_S)
        return subprocess.CompletedProcess(words, process.returncode, out, err)

    def ask(self, method: str, *arguments: object, model: str = "thing") -> object:
        """Calls a method of a model."""
        done = self.lazyctl("--json", "call", model, method, json.dumps(arguments))
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["result"]

    def shown(self, model: str) -> dict[str, Any]:
        """What `Status` says of a model; nothing if there is none of this name."""
        models = json.loads(self.lazyctl("--json", "status").stdout)["models"]
        return next((dict(each) for each in models if each["name"] == model), {})

    def in_flight(self, model: str) -> int:
        """How many calls of a model are under way."""
        return sum(worker["inFlight"] for worker in self.shown(model)["workers"])

    def workers(self, model: str) -> list[int]:
        """The pids of a model's workers."""
        return [worker["pid"] for worker in self.shown(model)["workers"]]
