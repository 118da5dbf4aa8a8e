"""The manager is killed and started again while a model is hot and a client is at work."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import lazyd
from demo.stage import Stage

from .figure import Figure, Goal
from .models import GEMMA_TABLE, PROMPT

ROUNDS = 7


class Traffic(threading.Thread):
    """A client that keeps calling, on the connection that it had before the kill."""

    def __init__(self, stage: Stage) -> None:
        super().__init__()
        self.client = lazyd.connect(str(stage.socket))
        self.ended = threading.Event()
        self.calls = 0
        self.failures: list[str] = []

    def run(self) -> None:
        gemma = self.client.model("gemma")
        while not self.ended.is_set():
            try:
                gemma.tokenize(PROMPT)
                self.calls += 1
            except lazyd.LazydError as problem:
                self.failures.append(repr(problem))

    def finish(self) -> None:
        self.ended.set()
        self.join()
        self.client.close()


def hot_call(stage: Stage) -> float:
    """Seconds that a new client needs for one call: connect, lease, answer."""
    began = time.perf_counter()
    with lazyd.connect(str(stage.socket)) as client:
        client.model("gemma").tokenize(PROMPT)
    return time.perf_counter() - began


def figures() -> Iterator[Figure]:
    with Stage(GEMMA_TABLE) as stage:
        stage.start()
        hot_call(stage)
        loads, pid = stage.model("gemma")["loads"], stage.model("gemma")["workers"][0]["pid"]
        ours, floor = [], []
        traffic = Traffic(stage)
        traffic.start()
        try:
            for _ in range(ROUNDS):
                floor.append(hot_call(stage))
                began = time.perf_counter()
                stage.kill_manager()
                stage.start()
                hot_call(stage)
                ours.append(time.perf_counter() - began)
        finally:
            traffic.finish()
        now = stage.model("gemma")
        reloads = now["loads"] - loads if now["workers"][0]["pid"] == pid else ROUNDS
        yield Figure("killed manager to next hot call", "s", Goal(value=0.3), ours, floor, "without a kill")
    yield Figure(f"… reloads in {ROUNDS} kills", "", Goal(value=0), [reloads])
    yield Figure(
        f"… failed calls of {traffic.calls:,} meanwhile",
        "",
        Goal(value=0),
        [len(traffic.failures)],
        note=traffic.failures[0] if traffic.failures else "",
    )
