"""A version is swapped under 100 calls a second: how long calls take meanwhile, and whether one fails.

Two versions of a model in Python take turns behind one name. Callers in threads of one program call it at fixed times,
whether or not earlier calls have ended; a call's time counts from when it was due. A swap lasts from the
promotion until the old version has left. The floor is the same callers for as long afterwards, with nothing going on.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import lazyd
from demo.stage import Stage

from .figure import Figure, Goal, percentile

CALLS_PER_S = 100
CALLERS = 5
WORK_S = 0.002
LOAD_S = 1.0
ROUNDS = 8
LIMIT_S = 60.0

FACTORY = f"""
import time

class Model:
    def __init__(self, version): self.version = version
    def run(self): time.sleep({WORK_S}); return self.version

def load(version): time.sleep({LOAD_S}); return Model(version)
"""
MODEL = """
[models."ocr:{version}"]
runtime = "python"
factory = "ocr_model:load"
python_path = ["{root}"]
idle_timeout = "never"
options = {{ version = "{version}" }}
"""


class Callers:
    """They call at fixed times and note when each call was due, and how long after that it was answered."""

    def __init__(self, socket: Path) -> None:
        self.took: list[tuple[float, float]] = []
        self.failed = 0
        self._socket = str(socket)
        self._end = threading.Event()

    @contextmanager
    def at_work(self) -> Iterator[None]:
        threads = [threading.Thread(target=self._work, args=(number,)) for number in range(CALLERS)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._end.set()
            for thread in threads:
                thread.join()

    def _work(self, number: int) -> None:
        with lazyd.connect(self._socket) as client:
            model = client.model("ocr")
            due = time.perf_counter() + number / CALLS_PER_S
            while not self._end.wait(max(0.0, due - time.perf_counter())):
                try:
                    model.run()
                except lazyd.LazydError:
                    self.failed += 1
                self.took.append((due, time.perf_counter() - due))
                due += CALLERS / CALLS_PER_S

    def p99_ms(self, begin: float, end: float) -> float:
        """Of the calls that were due in this time."""
        return 1e3 * percentile([took for due, took in self.took if begin <= due < end], 99)


def swap(stage: Stage, version: str) -> float:
    """Promotes a version, and waits until the other one has left. How long that took."""
    began = time.perf_counter()
    before = stage.ask("Promote", model="ocr", version=version)["before"]
    give_up = time.monotonic() + LIMIT_S
    while stage.ask("Status", model=before)["models"][0]["state"] != "cold":
        if time.monotonic() > give_up:
            raise TimeoutError(f"{before} does not leave")
        time.sleep(0.02)
    return time.perf_counter() - began


def figures() -> Iterator[Figure]:
    with Stage("") as stage:
        (stage.root / "ocr_model.py").write_text(FACTORY)
        stage.config.write_text("".join(MODEL.format(version=version, root=stage.root) for version in "12"))
        stage.start()
        stage.ask("Load", model="ocr")
        callers = Callers(stage.socket)
        spans = []
        with callers.at_work():
            time.sleep(2.0)
            for number in range(ROUNDS):
                began = time.perf_counter()
                took = swap(stage, "12"[number % 2])
                time.sleep(took + 0.5)
                spans.append((began, began + took))
        during = [callers.p99_ms(began, ended) for began, ended in spans]
        steady = [callers.p99_ms(ended + 0.5, ended + 0.5 + ended - began) for began, ended in spans]
    name = f"call during a version swap, {CALLS_PER_S} calls/s, p99"
    note = f"{len(callers.took)} calls, a swap of {LOAD_S:g} s and more"
    yield Figure(name, "ms", Goal(times=2.0), during, steady, "the same without a swap", note)
    yield Figure("calls that failed then", "", Goal(value=0), [float(callers.failed)])
