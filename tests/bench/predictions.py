"""What a load of a real model was expected to need, and what it needed: in RAM, at three lengths of context.

Each model is loaded and called twice, with a prompt that fills its context. What is measured is the highest that the
host's own gauge sees of the worker from its start to the end of the call.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass

import lazyd
from demo.stage import MODELS, Stage
from lazyd.client import Client
from lazyd.host.measure import Gauge

from .figure import Figure, Goal

FIRST_GOAL, NEXT_GOAL = 15.0, 5.0
"""Per cent that a prediction may be wrong at the first load, and after one life."""
FILES = ("gemma", "smollm2")
CONTEXTS = (512, 2048, 8192)
EVERY_S = 0.02
ROOM = 16
"""Cells of the context that the prompt leaves free."""
WORD = " time"
MB = 1e6

MODEL = """
[models.{file}-{n_ctx}]
runtime = "llama_cpp"
path = "{path}"
device = "ram"
idle_timeout = "never"
options = {{ n_ctx = {n_ctx} }}
"""


@dataclass(frozen=True)
class Life:
    """Bytes of RAM that a load was expected to need, by whom, and its peak."""

    expected: int
    source: str
    peak: int

    @property
    def error(self) -> float:
        """In per cent of the peak."""
        return 100 * (self.expected - self.peak) / self.peak


class Watch(threading.Thread):
    """Follows the worker of a model. Files that it maps are not counted: these are known."""

    def __init__(self, stage: Stage, model: str) -> None:
        super().__init__()
        self.peak = 0
        self._stage, self._model = stage, model
        self._ended = threading.Event()

    def run(self) -> None:
        gauge, pids = Gauge(), list[int]()
        while not self._ended.wait(EVERY_S):
            pids = pids or [worker["pid"] for worker in self._stage.model(self._model)["workers"] if worker["pid"]]
            self.peak = max(self.peak, gauge.memory(pids, None).private_bytes)

    def end(self) -> int:
        self._ended.set()
        self.join()
        return self.peak


def expected(stage: Stage, model: str) -> tuple[int, str]:
    """What is thought of loading it now."""
    way = stage.ask("Describe", model=model)["prediction"]["ram"]
    return way["peakBytes"]["ram"], way["source"]


def live(stage: Stage, client: Client, model: str, n_ctx: int) -> Life:
    """One life, with a call that fills its context."""
    watch = Watch(stage, model)
    watch.start()
    try:
        stage.ask("Load", model=model)
        told, source = expected(stage, model)
        proxy = client.model(model)
        words = WORD * ((n_ctx - ROOM) // len(proxy.tokenize(WORD)[-1:]))
        proxy.complete(words, max_tokens=4)
    finally:
        peak = watch.end()
    client.unload(model)
    return Life(told, source, peak)


def figures() -> Iterator[Figure]:
    names = [(file, n_ctx) for file in FILES for n_ctx in CONTEXTS]
    table = [MODEL.format(file=file, n_ctx=n_ctx, path=MODELS / f"{file}.gguf") for file, n_ctx in names]
    with Stage("".join(table)) as stage:
        stage.start()
        stage.wait_until_running()
        with lazyd.connect(str(stage.socket)) as client:
            for file, n_ctx in names:
                model = f"{file}-{n_ctx}"
                by_file, _ = expected(stage, model)
                first, second = live(stage, client, model, n_ctx), live(stage, client, model, n_ctx)
                for life, goal in (
                    (Life(by_file, "file size", first.peak), None),
                    (first, FIRST_GOAL),
                    (second, NEXT_GOAL),
                ):
                    yield Figure(
                        f"{file}, n_ctx {n_ctx:,}: error of {life.source}",
                        "%",
                        Goal(value=goal),
                        [abs(life.error)],
                        note=f"{life.expected / MB:.0f} MB expected, {life.peak / MB:.0f} MB needed",
                    )
