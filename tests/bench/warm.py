"""The load of a model whose file is in the page cache against one whose file was dropped from it."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator

import lazyd
from demo.stage import Stage
from lazyd.client import Client
from lazyd.manager.pages.sampling import cached_fraction

from .figure import Figure, Goal
from .models import GEMMA, GEMMA_TABLE

ROUNDS = 7
CHUNK_BYTES = 1 << 20
DROPPED, WARM = 0.05, 0.95
"""Of the file in the page cache: what counts as none, and as all of it."""


def drop() -> float | None:
    """Takes the file out of the page cache; the part that is still there, None where that cannot be known."""
    with GEMMA.open("rb") as file:
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    return cached_fraction([str(GEMMA)])


def read() -> float:
    """Seconds for a plain read of the file, from its first byte to its last."""
    began = time.perf_counter()
    buffer = bytearray(CHUNK_BYTES)
    with GEMMA.open("rb", buffering=0) as file:
        while file.readinto(buffer):
            pass
    return time.perf_counter() - began


def load(client: Client) -> float:
    """Seconds until the model is ready, as it is told; it is freed again before this returns."""
    began = time.perf_counter()
    client.load("gemma")
    took = time.perf_counter() - began
    client.unload("gemma")
    return took


def warmed(client: Client) -> float:
    """Seconds for ``warm --tier ram`` of the dropped file, at the lowest priority."""
    began = time.perf_counter()
    client.warm("gemma", tier="ram", wait=True)
    return time.perf_counter() - began


def from_disk(measure: Callable[[], float], left: list[float]) -> float:
    """A measurement after the file was dropped; what is left of it all the same is noted in `left`."""
    part = drop()
    if part is not None:
        left.append(part)
    return measure()


def from_memory(measure: Callable[[], float]) -> float:
    """A measurement with the whole file in the page cache. It must have been read a moment ago."""
    part = cached_fraction([str(GEMMA)])
    assert part is None or part >= WARM, f"{part:.0%} of the file are cached"
    return measure()


def figures() -> Iterator[Figure]:
    """All in turn, so that a slow moment of the machine hits all."""
    left: list[float] = []
    cold: list[float] = []
    reads_cold: list[float] = []
    warmings: list[float] = []
    warm: list[float] = []
    reads_warm: list[float] = []
    with Stage(GEMMA_TABLE) as stage:
        stage.start()
        with lazyd.connect(str(stage.socket)) as client:
            load(client)  # the library's files, and what is compiled once
            for _ in range(ROUNDS):
                cold.append(from_disk(lambda: load(client), left))
                reads_cold.append(from_disk(read, left))
                warmings.append(from_disk(lambda: warmed(client), left))
                warm.append(from_memory(lambda: load(client)))
                reads_warm.append(from_memory(read))
    note = said_of(left)
    read_it = "a plain read of the file"
    yield Figure("load of gemma-270m, its file dropped", "s", Goal(), cold, reads_cold, read_it, note)
    yield Figure("load of gemma-270m, its file warm", "s", Goal(), warm, reads_warm, read_it)
    yield Figure("the same beside the load from the dropped file", "s", Goal(times=1.0), warm, cold, "dropped", note)
    yield Figure("warm --tier ram of gemma-270m", "s", Goal(), warmings, reads_cold, read_it, note)


def said_of(left: list[float]) -> str:
    """Whether the file was really dropped each time."""
    if not left:
        return "this machine does not say whether the file was dropped"
    median = statistics.median(left)
    return f"{median:.0%} still cached" if max(left) <= DROPPED else f"not really dropped: {max(left):.0%} still cached"
