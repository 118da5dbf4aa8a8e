"""A `Get` of a model that is hot, as often as one likes."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from demo.stage import Stage

from . import echo
from .figure import Figure, Goal, pairs

ROUNDS = 9
CALLS = 500

MODEL = """
[models.hot]
runtime = "python"
factory = "collections:Counter"
idle_timeout = "never"
"""


class Line:
    """One connection that asks and waits, the same on both sides of the comparison."""

    def __init__(self, path: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(str(path))

    def ask(self, request: bytes) -> bytes:
        self.socket.sendall(request)
        answer = self.socket.recv(1 << 16)
        while not answer.endswith(b"\0"):
            answer += self.socket.recv(1 << 16)
        return answer


def message(method: str, **parameters: Any) -> bytes:
    return json.dumps({"method": f"io.lazyd.{method}", "parameters": parameters}).encode() + b"\0"


def gets(line: Line) -> float:
    """Microseconds of one `Get`; what is got is released outside of the measured time."""
    request = message("Get", model="hot")
    spent = 0.0
    for _ in range(CALLS):
        began = time.perf_counter()
        answer = line.ask(request)
        spent += time.perf_counter() - began
        line.ask(message("Release", lease=json.loads(answer[:-1])["parameters"]["lease"]))
    return spent / CALLS * 1e6


def echoes(line: Line, request: bytes) -> float:
    """Microseconds of one echo, with a second one outside of the measured time in place of `Release`."""
    spent = 0.0
    for _ in range(CALLS):
        began = time.perf_counter()
        line.ask(request)
        spent += time.perf_counter() - began
        line.ask(request)
    return spent / CALLS * 1e6


@contextlib.contextmanager
def echo_server(path: Path) -> Iterator[None]:
    with subprocess.Popen([sys.executable, echo.__file__, str(path)], stdout=subprocess.PIPE) as server:
        try:
            assert server.stdout is not None
            server.stdout.readline()
            yield
        finally:
            server.kill()


def figures() -> Iterator[Figure]:
    with Stage(MODEL) as stage, echo_server(stage.root / "echo.sock"):
        stage.start()
        stage.ask("Load", model="hot")
        daemon, bare = Line(stage.socket), Line(stage.root / "echo.sock")
        ours, floor = pairs(ROUNDS, lambda: gets(daemon), lambda: echoes(bare, message("Get", model="hot")))
    yield Figure("hot Get, round trip", "µs", Goal(times=1.5), ours, floor, "asyncio JSON echo, Unix socket")
