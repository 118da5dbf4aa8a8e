"""From the moment at which the driver shows a model's bytes to be free to the start of the load that waits for them.

A real manager, host and workers on the stand-in driver. Two models that do not fit on its GPU together are loaded
in turn, so each load sends the other model away and waits until the driver has given its bytes back, 0.5 to
1.5 s after the end of its process. In what is measured are: the time until the next sample, the sample, the
decision, and the order to the host. What follows, until the next model has its first byte on the GPU, is told
beside it.
"""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from demo.stage import Stage
from tests.fakes.nvml import GIB, StandIn
from tests.fakes.nvml.driver import LET_GO, TAKEN

from .figure import Figure, Goal, percentile

GOAL_MS = 20.0
ROUNDS = 24
RELEASES_S = (0.5, 0.7, 1.0, 1.3, 1.5)
CHECKOUT = Path(__file__).resolve().parents[2]
LIMIT_S = 60.0

MODEL = """
[models.{name}]
runtime = "python"
factory = "tests.fakes.gpu_model:make"
python_path = ["{checkout}"]
device = "gpu0"
memory = "6GiB"
idle_timeout = "never"
options = {{ size_mib = 6000, steps = 1 }}
"""


class Events:
    """What the daemon tells as it happens."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(LIMIT_S)
        self._socket.connect(str(path))
        self._socket.sendall(
            json.dumps({"method": "io.lazyd.Subscribe", "parameters": {}, "more": True}).encode() + b"\0"
        )
        self._rest = b""

    def until(self, kind: str, model: str) -> dict[str, Any]:
        while True:
            while b"\0" not in self._rest:
                self._rest += self._socket.recv(1 << 16)
            message, self._rest = self._rest.split(b"\0", 1)
            event: dict[str, Any] = json.loads(message)["parameters"]
            if event["kind"] == kind and event.get("model") == model:
                return event

    def close(self) -> None:
        self._socket.close()


def swap(stage: Stage, driver: StandIn, events: Events, model: str, release_s: float) -> tuple[float, float]:
    """Has a model loaded in the other one's place. Milliseconds from the release to the order to start it, and
    to its first byte."""
    driver.set_release(release_s)
    stage.ask("Load", model=model)
    to_monotonic = time.monotonic() - time.time()
    began = events.until("loading", model)["time"] + to_monotonic
    happened = driver.happened()
    free = max(each.at_ns for each in happened if each.what == LET_GO) / 1e9 + release_s
    first = max(each.at_ns for each in happened if each.what == TAKEN) / 1e9
    return (began - free) * 1000, (first - free) * 1000


def figures() -> Iterator[Figure]:
    models = "".join(MODEL.format(name=name, checkout=CHECKOUT) for name in "ab")
    with Stage(models) as stage:
        driver = StandIn(stage.root / "driver", gpus=[8 * GIB])
        stage.environment.update(driver.environment())
        stage.start()
        stage.wait_until_running()
        stage.ask("Load", model="a")
        with contextlib.closing(Events(stage.socket)) as events:
            swaps = [swap(stage, driver, events, "ba"[n % 2], RELEASES_S[n % len(RELEASES_S)]) for n in range(ROUNDS)]
    orders, bytes_ = zip(*swaps, strict=True)
    yield Figure("bytes shown free to next load started", "ms", Goal(value=GOAL_MS), orders)
    yield Figure(
        "… 95 of 100",
        "ms",
        Goal(value=GOAL_MS),
        [percentile(orders, 95)],
        note=f"the longest of {ROUNDS}: {max(orders):.0f} ms",
    )
    yield Figure("… to its first byte on the GPU", "ms", Goal(), bytes_, note="with the start of its process")
