"""A `Get` of a model that is hot, as often as one likes."""

from __future__ import annotations

import contextlib
import json
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from demo.stage import Stage

from . import echo
from .figure import Figure, Goal, Measure, pairs

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


def typical(call: Callable[[], Any], after: Callable[[Any], Any]) -> float:
    """Microseconds that a call takes, the median of many. What is done `after` each is not measured."""
    spent = []
    for _ in range(CALLS):
        began = time.perf_counter()
        answer = call()
        spent.append(time.perf_counter() - began)
        after(answer)
    return statistics.median(spent) * 1e6


def get(line: Line) -> Measure:
    """One `Get`; what is got is given back afterwards."""
    request = message("Get", model="hot")

    def release(answer: bytes) -> None:
        line.ask(message("Release", lease=json.loads(answer[:-1])["parameters"]["lease"]))

    return lambda: typical(lambda: line.ask(request), release)


def echoed(line: Line) -> Measure:
    """The same message echoed, and a second one afterwards in place of `Release`."""
    request = message("Get", model="hot")
    return lambda: typical(lambda: line.ask(request), lambda _: line.ask(request))


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
        ours, floor = pairs(ROUNDS, get(daemon), echoed(bare))
    yield Figure("hot Get, round trip", "µs", Goal(times=1.5), ours, floor, "asyncio JSON echo")
