"""A daemon on a machine with GPUs of the stand-in driver, for tests that import its fixture."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.nvml import GIB, StandIn

from .conftest import Client, Daemon

ROOT = Path(__file__).parents[2]
PATIENCE_S = 60.0
"""How long anything may take on a machine that is busy."""
SPEC = {
    "device",
    "factory",
    "hard_limit",
    "idle_timeout",
    "memory",
    "park_timeout",
    "pin",
    "python",
    "python_path",
    "tier",
}
"""Of the words of a model those that are no options of `tests.fakes.gpu_model`."""


class Machine:
    """A daemon on a machine with two GPUs, of 8 and 4 GiB."""

    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon
        self.driver = StandIn(daemon.root / "driver", gpus=[8 * GIB, 4 * GIB], release_s=0.3)
        self.gate = daemon.root / "gate"
        """A file that a test makes when a load that waits for it is to go on."""

    def start(self, budget: dict[str, str] | None = None, **models: dict[str, Any]) -> Client:
        """Starts with these models. `size_mib` and other words that no spec has are options of the model."""
        text = ["[budget]", *lines({"gpu_margin": "0MiB", **(budget or {})})]
        for name, words in models.items():
            spec = {
                "runtime": "python",
                "factory": "tests.fakes.gpu_model:make",
                "python_path": [str(ROOT)],
                "memory": f"{words.get('size_mib', 0) + 1}MiB",
                **{key: words[key] for key in words.keys() & SPEC},
            }
            options = {key: value for key, value in words.items() if key not in SPEC}
            text += [f"[models.{name}]", *lines(spec), f"[models.{name}.options]", *lines(options)]
        self.daemon.configure("\n".join(text))
        client = self.daemon.start(env=self.driver.environment())
        client.socket.settimeout(PATIENCE_S)
        self.until(self.daemon.host_pid)
        return client

    def client(self) -> Client:
        """Another one."""
        client = self.daemon.client()
        client.socket.settimeout(PATIENCE_S)
        return client

    def devices(self) -> dict[str, dict[str, Any]]:
        with self.daemon.client() as client:
            return {device["name"]: device for device in client.call("Status")["devices"]}

    def device(self, name: str) -> dict[str, Any]:
        return self.devices()[name]

    def until(self, condition: Callable[[], Any], within_s: float = PATIENCE_S) -> Any:
        return self.daemon.until(condition, within_s)

    def until_state(self, model: str, state: str) -> None:
        self.until(lambda: self.daemon.model(model)["state"] == state)

    def until_logged(self, text: str) -> None:
        self.until(lambda: text in self.daemon.log_text())


def lines(table: dict[str, Any]) -> list[str]:
    """A table of TOML's, whose strings, lists and numbers are JSON's."""
    return [f"{key} = {json.dumps(value)}" for key, value in table.items()]


@pytest.fixture
def machine(daemon: Daemon) -> Iterator[Machine]:
    machine = Machine(daemon)
    yield machine
    machine.driver.heal()
