"""Virtual time: a heap of things that will happen, and processes written as generators.

A process yields a number of seconds to sleep, or a `Future` to wait for. It may be killed at
any time; its ``finally`` blocks then clean up after it, as a closed socket would.
"""

from __future__ import annotations

import heapq
import inspect
from collections.abc import Callable, Generator
from typing import Any

START = 1000.0
"""When a schedule begins."""

Script = Generator[Any, Any, Any]
"""What a process runs: yields seconds or futures."""


class Clock:
    """The only source of time. `now` moves when `run_next` is called, and never back."""

    __slots__ = ("_heap", "_serial", "now")

    def __init__(self, now: float) -> None:
        self.now = now
        self._heap: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._serial = 0

    def at(self, when: float, happen: Callable[..., None], *args: Any) -> None:
        """Lets something happen at `when`; things of one instant happen in the order in which they were asked for."""
        self._serial += 1
        heapq.heappush(self._heap, (when if when > self.now else self.now, self._serial, happen, args))

    def after(self, delay_s: float, happen: Callable[..., None], *args: Any) -> None:
        self.at(self.now + delay_s, happen, *args)

    def next_time(self) -> float:
        """When the next thing happens; infinity if nothing is left."""
        return self._heap[0][0] if self._heap else float("inf")

    def run_next(self) -> None:
        self.now, _, happen, args = heapq.heappop(self._heap)
        happen(*args)


class Future:
    """A value that is not there yet. One process may wait for it."""

    __slots__ = ("_clock", "_wake", "done", "value")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._wake: Callable[[Any], None] | None = None
        self.done = False
        self.value: Any = None

    def set(self, value: Any) -> None:
        """The first value counts. Who waits is woken by the clock, never from within."""
        if self.done:
            return
        self.done = True
        self.value = value
        if self._wake is not None:
            self._clock.after(0.0, self._wake, value)

    def then(self, wake: Callable[[Any], None]) -> None:
        if self.done:
            self._clock.after(0.0, wake, self.value)
        else:
            self._wake = wake


class Process:
    """A running script."""

    __slots__ = ("_clock", "_done", "_script", "over")

    def __init__(self, clock: Clock, script: Script, done: Callable[[Any], None] | None = None) -> None:
        self._clock = clock
        self._script = script
        self._done = done
        self.over = False
        clock.after(0.0, self._resume, None)

    def kill(self) -> None:
        if self.over:
            return
        self.over = True
        if inspect.getgeneratorstate(self._script) == inspect.GEN_RUNNING:
            self._clock.after(0.0, self._script.close)
        else:
            self._script.close()

    def _resume(self, value: Any) -> None:
        if self.over:
            return
        try:
            wanted = self._script.send(value)
        except StopIteration as end:
            self.over = True
            if self._done is not None:
                self._done(end.value)
            return
        if isinstance(wanted, Future):
            wanted.then(self._resume)
        else:
            self._clock.after(wanted, self._resume, None)
