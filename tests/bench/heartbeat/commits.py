"""One commit: the application's process starts, registers, does its heartbeat, waits, and is killed."""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .application import book
from .clock import compressed

HERE = Path(__file__).resolve().parent


class Broken(Exception):
    """The application ended before its time; the text has what it printed."""


@dataclass
class Beat:
    """What one commit's heartbeat came to. Times are in seconds, those `to_…` from the start of the process."""

    interval_s: float
    to_registered: float | None = None
    to_first: float | None = None
    """To the first strategy's answer."""
    to_end: float | None = None
    first_call: float | None = None
    rare_call: float | None = None
    """The strategy that heartbeats hardly ever use."""
    felt_call: float | None = None
    """The language model."""
    signals: dict[str, float] = field(default_factory=dict)
    text: str = ""
    wrong: list[str] = field(default_factory=list)
    bytes: int | None = None
    """What the side holds between this heartbeat and the next commit."""

    @property
    def succeeded(self) -> bool:
        """Whether it had finished before the next commit, with every answer as expected."""
        return self.to_end is not None and self.to_end <= self.interval_s and not self.wrong and self.is_complete

    @property
    def is_complete(self) -> bool:
        return len(self.signals) == len(book.HOT) + 1

    @property
    def up(self) -> float:
        """The part of the interval that is left once the first heartbeat has ended."""
        return max(0.0, 1 - self.to_end / self.interval_s) if self.to_end is not None else 0.0

    def note(self, line: Mapping[str, Any], began: float) -> None:
        """Takes what the application says."""
        at, what = line["at"] - began, line["what"]
        if what == "registered":
            self.to_registered = at
        elif what == "beaten":
            self.to_end = at
        else:
            if not line["right"]:
                self.wrong.append(json.dumps(line))
            if what == "felt":
                self.felt_call, self.text = line["took"], line["text"]
                return
            self.signals[line["name"]] = line["signal"]
            if self.to_first is None:
                self.to_first, self.first_call = at, line["took"]
            if line["name"] in book.RARE:
                self.rare_call = line["took"]


def commit(
    arguments: Sequence[str], environment: Mapping[str, str], interval_s: float, held_bytes: Callable[[int], int]
) -> Beat:
    """Starts the application, and kills it when the next commit is due. Takes at most `interval_s` seconds,
    and what is left of them after the heartbeat is compressed.

    Raises:
        Broken: the process ended by itself.
    """
    beat = Beat(interval_s)
    began = time.monotonic()
    with subprocess.Popen(
        [sys.executable, "-m", "application", *arguments],
        cwd=HERE,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    ) as process:
        try:
            listen(process, beat, began)
            if beat.to_end is not None:
                beat.bytes = held_bytes(process.pid)
                time.sleep(compressed(interval_s - beat.to_end))
        finally:
            process.kill()
    return beat


def listen(process: subprocess.Popen[bytes], beat: Beat, began: float) -> None:
    """Notes what the application says, until its heartbeat has ended or the next commit is due."""
    assert process.stdout is not None
    pending = b""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while beat.to_end is None and (left := began + beat.interval_s - time.monotonic()) > 0:
            if not selector.select(left):
                return
            piece = os.read(process.stdout.fileno(), 1 << 16)
            if not piece:
                raise Broken(f"the application ended with status {process.wait()}")
            *lines, pending = (pending + piece).split(b"\n")
            for line in lines:
                beat.note(json.loads(line), began)
