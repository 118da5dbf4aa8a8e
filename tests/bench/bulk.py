"""Calls of a model that answers what it is given: how long they take beyond the model's own time.

The model is an ONNX file with one node, ``Identity``. In process it is called by the same onnxruntime, and its
answer copied once, since an answer that came from elsewhere is the caller's own. Beside both: the bytes alone, sent to
another process through a Unix socket, and back. All are measured in turn, a median of many calls each time.
"""

from __future__ import annotations

import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy

import lazyd
from demo.stage import Stage
from lazyd.wire.frames import roomy
from tests.unit.runtimes.onnx_files import FLOAT, identity, written

from . import mirror
from .figure import Figure, Goal, Measure

ROUNDS = 9
MOST_BEYOND_US = 150.0
LEAST_GB_PER_S = 1.0
MB = 10**6

MODEL = """
[models.same]
runtime = "onnx"
path = "{path}"
idle_timeout = "never"
"""


def typical(call: Callable[[], Any], calls: int) -> float:
    """Microseconds that a call takes, the median."""
    spent = []
    for _ in range(calls):
        began = time.perf_counter()
        answer = call()
        spent.append(time.perf_counter() - began)
        del answer
    return statistics.median(spent) * 1e6


@contextmanager
def mirrored(size: int) -> Iterator[Callable[[], None]]:
    """Sends so many bytes to another process and takes them back."""
    ours, theirs = socket.socketpair()
    for end in (ours, theirs):
        roomy(end)
    there, back = bytes(size), memoryview(bytearray(size))
    command = [sys.executable, mirror.__file__, str(theirs.fileno()), str(size)]
    with ours, theirs, subprocess.Popen(command, pass_fds=[theirs.fileno()]) as process:
        theirs.close()

        def both_ways() -> None:
            ours.sendall(there)
            mirror.received(ours, back)

        try:
            yield both_ways
        finally:
            ours.close()
            process.wait()


def rounds(*measures: Measure) -> list[list[float]]:
    """All in turn, so that a slow moment of the machine hits all; once before, unmeasured."""
    for measure in measures:
        measure()
    samples = [[measure() for measure in measures] for _ in range(ROUNDS)]
    return [list(each) for each in zip(*samples, strict=True)]


def best(samples: list[float]) -> str:
    return f"best round {min(samples):,.0f} µs"


def figures() -> Iterator[Figure]:
    import onnxruntime

    with Stage("") as stage:
        path = written(Path(stage.root) / "same.onnx", identity(FLOAT, ("N",)))
        stage.config.write_text(MODEL.format(path=path))
        stage.start()
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        with lazyd.connect(str(stage.socket)) as client:
            model = client.model("same")
            yield from small(model)
            yield from megabyte(model, session)
            yield from large(model)


def small(model: Any) -> Iterator[Figure]:
    """One number."""
    number = numpy.zeros(1, numpy.float32)
    with mirrored(64) as echo:
        ours, floor = rounds(
            lambda: typical(lambda: model.run({"x": number}), 500),
            lambda: typical(echo, 500),
        )
    yield Figure("call with one number", "µs", Goal(), ours, floor, "64 bytes through a socket and back", best(ours))


def megabyte(model: Any, session: Any) -> Iterator[Figure]:
    """A megabyte of float32."""
    array = numpy.random.default_rng(1).random(MB // 4, numpy.float32)
    with mirrored(array.nbytes) as echo:
        ours, here, floor = rounds(
            lambda: typical(lambda: model.run({"x": array}), 100),
            lambda: typical(lambda: session.run(["y"], {"x": array})[0].copy(), 100),
            lambda: typical(echo, 100),
        )
    told = f"in process and one copy: {statistics.median(here):,.0f} µs; {best(ours)}"
    yield Figure("call with 1 MB", "µs", Goal(), ours, floor, "its bytes through a socket and back", told)
    beyond = [mine - theirs for mine, theirs in zip(ours, here, strict=True)]
    yield Figure("beyond the same call in process and one copy", "µs", Goal(value=MOST_BEYOND_US), beyond)


def large(model: Any) -> Iterator[Figure]:
    """100 MB of float32. There and back one after the other: at 1 GB/s each way twice the time of one."""
    array = numpy.random.default_rng(1).random(25 * MB, numpy.float32)
    with mirrored(array.nbytes) as echo:
        ours, floor = rounds(
            lambda: typical(lambda: model.run({"x": array}), 3) / 1e3,
            lambda: typical(echo, 3) / 1e3,
        )
    most_ms = 2 * array.nbytes / LEAST_GB_PER_S / 1e6
    speed = 2 * array.nbytes / statistics.median(ours) / 1e6
    told = f"{speed:.1f} GB/s each way"
    yield Figure(
        "call with 100 MB", "ms", Goal(value=most_ms), ours, floor, "its bytes through a socket and back", told
    )
