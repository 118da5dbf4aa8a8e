"""The GPU that tests run on: a real one, or they are skipped."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.nvml import GIB, MIB, StandIn
from tests.fakes.nvml.build import CUDA, library
from tests.integration.conftest import daemon as daemon

ROOT = Path(__file__).parents[2]
LIMIT_S = 30.0
"""How long anything may take."""
ROOM = 4 * GIB
"""So much has to be free on the GPU."""
NOISE = 64 * MIB
"""What others on the GPU may do meanwhile."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--stand-in", action="store_true", help="tests/gpu on the stand-in driver, not on a real GPU")


class Program:
    """A process that answers each line with a line."""

    def __init__(self, module: str, environment: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", module],
            cwd=ROOT,
            env={**os.environ, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    @property
    def pid(self) -> int:
        return self.process.pid

    def hear(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"it has ended with {self.process.wait(LIMIT_S)}"
        return line.strip()

    def ask(self, line: str) -> str:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        return self.hear()

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


class Gpu:
    """One GPU of this machine, of which a test may use `ROOM`."""

    def __init__(self, eyes: Program, name: str, environment: dict[str, str]) -> None:
        self._eyes = eyes
        self.name = name
        self.environment = environment
        """With which programs find the driver."""
        self.uuid: str = self.sample()["uuid"]
        self.programs: list[Program] = []

    @property
    def onlooker(self) -> int:
        """The pid of the process that looks."""
        return self._eyes.pid

    def sample(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._eyes.ask(self.name))
        return found

    def used(self) -> int:
        return int(self.sample()["used_bytes"])

    def program(self) -> Program:
        """One that allocates, with a context on this GPU."""
        program = Program("tests.gpu.cuda", {**self.environment, "CUDA_VISIBLE_DEVICES": self.uuid})
        self.programs.append(program)
        assert program.hear() == "ok"
        return program

    def until(self, condition: Callable[[], Any], within_s: float = LIMIT_S) -> float:
        """Waits until something is so; how long it took."""
        began = time.monotonic()
        while not condition():
            assert time.monotonic() - began < within_s, f"it did not come to be: {self.sample()}"
            time.sleep(0.005)
        return time.monotonic() - began


@pytest.fixture(scope="session")
def machine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment in which there are GPUs."""
    if not request.config.getoption("--stand-in", default=False):  # it is known if this folder was named
        yield {}
        return
    path = tmp_path_factory.mktemp("stand-in") / "driver"
    environment = StandIn(path, gpus=[16 * GIB, 8 * GIB], release_s=0.3, reserved=256 * MIB).environment()
    yield {**environment, "LD_LIBRARY_PATH": f"{library(CUDA).parent}:{environment['LD_LIBRARY_PATH']}"}


@pytest.fixture(scope="session")
def eyes(machine: dict[str, str]) -> Iterator[Program]:
    program = Program("tests.gpu.looking", machine)
    yield program
    program.kill()


@pytest.fixture(scope="session")
def at_rest() -> dict[str, int]:
    """What is used of each GPU while no test runs, as first seen."""
    return {}


@pytest.fixture
def gpu(machine: dict[str, str], eyes: Program, at_rest: dict[str, int]) -> Iterator[Gpu]:
    """The GPU with the most free memory, of which the tests before this one have nothing any more."""
    names = json.loads(eyes.ask("names"))
    if not names:
        pytest.skip("there is no NVIDIA driver here, or no GPU")
    found = [Gpu(eyes, name, machine) for name in names]
    samples = {each.name: each.sample() for each in found}
    best = max(found, key=lambda each: samples[each.name]["total_bytes"] - samples[each.name]["used_bytes"])
    if samples[best.name]["total_bytes"] - samples[best.name]["used_bytes"] < ROOM:
        pytest.skip(f"no GPU here has {ROOM // GIB} GiB free")
    rest = at_rest.setdefault(best.name, samples[best.name]["used_bytes"])
    best.until(lambda: best.used() <= rest + NOISE)
    yield best
    for program in best.programs:
        program.kill()
