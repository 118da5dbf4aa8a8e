"""The two machines that are compared, each for itself: without lazyd, and with it."""

from __future__ import annotations

import contextlib
import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import psutil

from demo.stage import MODELS, Stage, proportional_bytes

from .application import book
from .clock import IDLE_TIMEOUT_S, compressed
from .commits import HERE, Beat, commit

MODEL = MODELS / "smollm2.gguf"
MAX_LOADED = len(book.HOT) + 1
"""As many as one heartbeat uses: the hot ones, and one that is hardly ever used."""


def sentiment() -> Path | None:
    """The language model, if this machine has it and what it needs."""
    return MODEL if MODEL.exists() and importlib.util.find_spec("llama_cpp") else None


class Side(Protocol):
    name: str

    def commit(self, number: int, interval_s: float) -> Beat:
        """One commit, to the moment of the next."""


class Before:
    """The application has everything itself."""

    name = "before"

    def commit(self, number: int, interval_s: float) -> Beat:
        return commit(arguments(self.name, number), os.environ, interval_s, proportional_bytes)


class WithLazyd:
    """lazyd has the models, the application asks it for them."""

    name = "lazyd"

    def __init__(self, stage: Stage) -> None:
        self.stage = stage

    def commit(self, number: int, interval_s: float) -> Beat:
        return commit(arguments(self.name, number), self.stage.environment, interval_s, self.held_bytes)

    def held_bytes(self, application: int) -> int:
        """The application's memory and all of lazyd's: manager, host, zygotes, workers."""
        assert self.stage.manager is not None
        found = {application, self.stage.manager.pid}
        host = self.stage.host_pid()
        for pid in {self.stage.manager.pid, *([host] if host else [])}:
            with contextlib.suppress(psutil.NoSuchProcess):
                found |= {pid, *(child.pid for child in psutil.Process(pid).children(recursive=True))}
        return sum(map(proportional_bytes, found))


def arguments(side: str, number: int) -> list[str]:
    model = sentiment()
    return [side, str(number), *([str(model)] if model else [])]


def configuration() -> str:
    """As a user would write it, but for the compressed ``idle_timeout``. No model has a time of its own: what lazyd
    learns of their use may replace the default."""
    language_model = f"""
[models.sentiment]
runtime = "llama_cpp"
path = "{MODEL}"
[models.sentiment.options]
n_ctx = {book.N_CTX}
"""
    return f"""
[daemon]
idle_timeout = "{compressed(IDLE_TIMEOUT_S) * 1000:.0f}ms"

[models."strategy/*"]
runtime = "python"
factory = "application.strategies:load"
python_path = ["{HERE}"]
max_loaded = {MAX_LOADED}
idempotent = ["signal"]
{language_model if sentiment() else ""}"""


@contextlib.contextmanager
def with_lazyd() -> Iterator[WithLazyd]:
    """A lazyd that has just been started, and has loaded nothing."""
    with Stage(configuration()) as stage:
        stage.start()
        stage.wait_until_running()
        yield WithLazyd(stage)
