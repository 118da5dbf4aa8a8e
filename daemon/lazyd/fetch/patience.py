"""How often a server that is not reached, or breaks off, is tried again."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from .failures import Stopped, Unreachable

TRIES = 6
"""So many tries in a row may bring nothing."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.2, 10.0

T = TypeVar("T")


def patiently(question: Callable[[], T], stopped: threading.Event, tries: int = TRIES) -> T:
    """Its answer. Raises `Unreachable` after the last try, and `Stopped`."""
    for number in range(1, tries):
        try:
            return question()
        except Unreachable:
            pause(number, stopped)
    return question()


def pause(tries: int, stopped: threading.Event) -> None:
    """Before the next try. Raises `Stopped`."""
    if stopped.wait(min(FIRST_PAUSE_S * 2 ** (tries - 1), LONGEST_PAUSE_S)):
        raise Stopped
