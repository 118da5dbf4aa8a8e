"""Runs lazyctl as a person would, and watches when it says what."""

from __future__ import annotations

import contextlib
import os
import pty
import subprocess
import termios
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from subprocess import PIPE
from typing import IO

from . import screen
from .stage import Failed, Stage

LIMIT_S = 120.0


@dataclass(frozen=True)
class Said:
    """What a command printed, and when, in seconds from its start."""

    text: str
    first_s: float
    total_s: float


def show(stage: Stage, *words: str) -> None:
    """Shows a command and its output. On a terminal the command gets one too, so that it draws as it would there.

    Raises:
        Failed: it did not exit 0.
    """
    screen.command("lazyctl", *words)
    ours, theirs = pty.openpty() if screen.coloured() else os.pipe()
    try:
        if screen.coloured():
            termios.tcsetwinsize(theirs, (24, screen.WIDTH - len(screen.INDENT)))
        process = stage.run("lazyctl", *words, stdout=theirs)
    finally:
        os.close(theirs)
    with os.fdopen(ours, "rb") as pipe:
        screen.output(b"".join(pieces(pipe)).decode(errors="replace"))
    if process.wait(LIMIT_S) != 0:
        raise Failed(f"lazyctl {' '.join(words)}: exit status {process.returncode}")


def stream(stage: Stage, *words: str, at_first: Callable[[], None] = lambda: None) -> Said:
    """Shows a command and its output as it comes. `at_first` is called once the first of it is there.

    Raises:
        Failed: it did not exit 0, or said nothing.
    """
    screen.command("lazyctl", *words)
    began = time.monotonic()
    process = stage.run("lazyctl", *words, stdout=PIPE, stderr=PIPE)
    assert process.stdout is not None
    first = 0.0
    text = b""
    flow = screen.Flow()
    for piece in pieces(process.stdout):
        flow.add(piece.decode(errors="replace"))
        text += piece
        if not first:
            first = time.monotonic() - began
            at_first()
    flow.end()
    ended(process, words)
    total = time.monotonic() - began
    if not text.strip():
        raise Failed(f"lazyctl {' '.join(words)} printed nothing")
    return Said(text.decode(errors="replace"), first, total)


def together(stage: Stage, count: int, *words: str) -> tuple[list[str], float]:
    """Starts the same command so many times at once. Returns what each printed, and how long the slowest took.

    Raises:
        Failed: one did not exit 0.
    """
    for _ in range(count):
        screen.command("lazyctl", *words, "&")
    began = time.monotonic()
    processes = [stage.run("lazyctl", *words, stdout=PIPE, stderr=PIPE) for _ in range(count)]
    texts = []
    for process in processes:
        assert process.stdout is not None
        texts.append(process.stdout.read().decode(errors="replace"))
        ended(process, words)
    return texts, time.monotonic() - began


def pieces(pipe: IO[bytes]) -> Iterator[bytes]:
    """What comes out of a pipe, as it comes."""
    with contextlib.suppress(OSError):  # how a terminal says that its other end is closed
        while piece := os.read(pipe.fileno(), 4096):
            yield piece


def ended(process: subprocess.Popen[bytes], words: tuple[str, ...]) -> None:
    """Waits for the command's end.

    Raises:
        Failed: it did not exit 0.
    """
    assert process.stdout is not None
    assert process.stderr is not None
    with process.stdout, process.stderr:
        problems = process.stderr.read().decode(errors="replace").strip()
    if process.wait(LIMIT_S) != 0:
        raise Failed(f"lazyctl {' '.join(words)}: exit status {process.returncode}: {problems}")
