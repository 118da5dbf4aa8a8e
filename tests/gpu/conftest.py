"""The GPU that tests run on: a real one, or they are skipped."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.nvml import GIB, MIB, StandIn
from tests.fakes.nvml.build import CUDA, library
from tests.integration.conftest import daemon as daemon

ROOT = Path(__file__).parents[2]
LIMIT_S = 60.0
"""How long anything may take: the first context of a machine takes seconds."""
ROOM = 8 * GIB
"""So much has to be free on the GPU."""
NOISE = 64 * MIB
"""What others on the GPU may do meanwhile."""
CONTEXT = 2 * GIB
"""More than what any context costs."""


def pytest_addoption(parser: pytest.Parser) -> None:
    words = "tests/gpu on the stand-in driver, not on a real GPU; hiding: it shows no processes, as in a container"
    parser.addoption("--stand-in", choices=("showing", "hiding"), help=words)


class Program:
    """A process that answers each line with a line."""

    def __init__(self, command: Sequence[str], environment: dict[str, str]) -> None:
        self.process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
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

    def end(self) -> int:
        """Lets it come to its end. Its exit status."""
        self.process.communicate(timeout=LIMIT_S)
        return self.process.returncode

    def kill(self) -> None:
        if self.process.returncode is None:
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
        self._programs: list[Program] = []

    @property
    def onlooker(self) -> int:
        """The pid of the process that looks."""
        return self._eyes.pid

    def sample(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._eyes.ask(self.name))
        return found

    def used(self) -> int:
        return int(self.sample()["used_bytes"])

    def of_process(self, pid: int) -> int | None:
        """What the driver shows of a process; None: it does not show it, as may be in a container."""
        found: int | None = self.sample()["processes"].get(str(pid))
        return found

    def program(self) -> Program:
        """One that allocates, with a context on this GPU."""
        program = self.run([sys.executable, "-m", "tests.gpu.cuda"], CUDA_VISIBLE_DEVICES=self.uuid)
        heard = program.hear()
        if "libcuda" in heard:
            pytest.skip(f"there is no CUDA here: {heard}")
        assert heard == "ok"
        return program

    def run(self, command: Sequence[str], **variables: str) -> Program:
        """A program that finds the driver, and is ended with the test."""
        self._programs.append(Program(command, {**self.environment, **variables}))
        return self._programs[-1]

    def until(self, condition: Callable[[], Any], within_s: float = LIMIT_S) -> float:
        """Waits until something is so; how long it took."""
        began = time.monotonic()
        while not condition():
            assert time.monotonic() - began < within_s, f"it did not come to be: {self.sample()}"
            time.sleep(0.005)
        return time.monotonic() - began

    def at_rest(self) -> int:
        """What is used when the driver has done what it does once, at the first context, and that has ended."""
        first = self.program()
        first.kill()
        self.until(lambda: self.of_process(first.pid) is None)
        used = self.used()
        while True:  # a driver gives back the rest within a second or two
            time.sleep(1.0)
            before, used = used, self.used()
            if used >= before:
                return used

    def close(self) -> None:
        for program in self._programs:
            program.kill()


@pytest.fixture(scope="session")
def environment(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The environment in which there are GPUs."""
    which = request.config.getoption("--stand-in", default=None)  # it is known if this folder was named
    if which is None:
        yield {}
        return
    path = tmp_path_factory.mktemp("stand-in") / "driver"
    found = StandIn(path, gpus=[16 * GIB, 8 * GIB], release_s=0.3, reserved=256 * MIB).environment()
    hides = {"STANDIN_HIDES": "1"} if which == "hiding" else {}
    yield {**found, **hides, "LD_LIBRARY_PATH": f"{library(CUDA).parent}:{found['LD_LIBRARY_PATH']}"}


@pytest.fixture(scope="session")
def eyes(environment: dict[str, str]) -> Iterator[Program]:
    program = Program([sys.executable, "-m", "tests.gpu.looking"], environment)
    yield program
    program.kill()


@pytest.fixture(scope="session")
def at_rest() -> dict[str, int]:
    """What is used of each GPU while no test runs, as first seen."""
    return {}


@pytest.fixture
def gpu(environment: dict[str, str], eyes: Program, at_rest: dict[str, int]) -> Iterator[Gpu]:
    """The GPU with the most free memory, of which the tests before this one have nothing any more."""
    names = json.loads(eyes.ask("names"))
    if not names:
        pytest.skip("there is no NVIDIA driver here, or no GPU")
    found = [Gpu(eyes, name, environment) for name in names]
    samples = {each.name: each.sample() for each in found}
    best = max(found, key=lambda each: samples[each.name]["total_bytes"] - samples[each.name]["used_bytes"])
    if samples[best.name]["total_bytes"] - samples[best.name]["used_bytes"] < ROOM:
        pytest.skip(f"no GPU here has {ROOM // GIB} GiB free")
    try:
        if best.name not in at_rest:
            at_rest[best.name] = best.at_rest()
        best.until(lambda: best.used() <= at_rest[best.name] + NOISE)
        yield best
    finally:
        best.close()
