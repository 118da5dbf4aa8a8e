"""What examples share: a private lazyd with an example's own ``lazyd.toml``, and web services beside it."""

from __future__ import annotations

import re
import signal
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import lazyd
from demo import screen
from demo.stage import Failed, Stage

LIMIT_S = 60.0
"""How long anything may take before an example has failed."""
URL = re.compile(r"http://127\.0\.0\.1:\d+")


class Example(Stage):
    """A lazyd that reads a configuration of the example's directory. All else lies in a directory that goes with it."""

    def __init__(self, folder: Path, config: str = "lazyd.toml") -> None:
        super().__init__("")
        self.config = folder / config

    def client(self) -> lazyd.Client:
        """A client of this lazyd."""
        return lazyd.connect(str(self.socket))

    def states(self) -> dict[str, str]:
        """Of every model."""
        return {model["name"]: model["state"] for model in self.ask("Status")["models"]}

    def until_state(self, name: str, state: str) -> None:
        """Waits until a model is in a state. Raises `Failed` after `LIMIT_S`."""
        give_up = time.monotonic() + LIMIT_S
        while (now := self.model(name)["state"]) != state:
            if time.monotonic() > give_up:
                raise Failed(f"{name} is still {now}, not {state}, after {LIMIT_S:.0f} s")
            time.sleep(0.02)

    def service(self, *words: str) -> Service:
        """Starts a command of this environment that serves HTTP, and waits until it says where."""
        return Service(self, *words)


class Service:
    """A web service in a process of its own. It is ready once its log names its address."""

    def __init__(self, example: Example, *words: str) -> None:
        log = example.root / f"service-{len(example.commands)}.log"
        with log.open("wb") as out:
            self.process = example.run(*words, stdout=out.fileno(), stderr=out.fileno())
        give_up = time.monotonic() + LIMIT_S
        while not (said := URL.search(log.read_text(errors="replace"))):
            if self.process.poll() is not None or time.monotonic() > give_up:
                raise Failed(f"{' '.join(words)} does not serve:\n{log.read_text(errors='replace')}")
            time.sleep(0.01)
        self.url = said[0]

    def open(self, path: str, data: bytes | None = None) -> Any:
        """The answer to one request, as a file: GET, or POST where there is `data`. Raises `urllib.error.HTTPError`."""
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/octet-stream"})
        return urllib.request.urlopen(request, timeout=LIMIT_S)

    def stop(self) -> None:
        """SIGTERM, as when a web service is deployed anew."""
        self.process.terminate()
        self.process.wait(LIMIT_S)


def check(holds: object, otherwise: str) -> None:
    """Raises `Failed` unless something holds."""
    if not holds:
        raise Failed(otherwise)


def told(
    folder: Path, title: str, story: Callable[[Example], None], prepare: Callable[[Example], None] = lambda _: None
) -> int:
    """Tells an example's story on a lazyd of its own. The exit status: 0 if all of it was true.

    `prepare` is for what must be so before lazyd starts.
    """
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        with Example(folder) as example:
            screen.title(f"{title}, privately in {example.root}")
            try:
                prepare(example)
                example.start()
                example.wait_until_running()
                story(example)
            except (Failed, lazyd.LazydError, OSError) as problem:
                screen.failure(f"{type(problem).__name__}: {problem}")
                if (log := example.log_tail()) not in str(problem):
                    screen.output(log)
                return 1
    except KeyboardInterrupt:
        return 130
    return 0


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def timed(work: Callable[[], Any]) -> tuple[Any, str]:
    """What `work` returned, and how long it took, as text."""
    began = time.monotonic()
    result = work()
    return result, screen.seconds(time.monotonic() - began)


def run(
    folder: Path, title: str, story: Callable[[Example], None], prepare: Callable[[Example], None] = lambda _: None
) -> None:
    """All of an example's ``__main__``."""
    sys.exit(told(folder, title, story, prepare))
