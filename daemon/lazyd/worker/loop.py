"""A small event loop: file descriptors, times, and calls from other threads.

The host and the worker run one each, in their main thread. One callback runs at a time: whoever runs
one has the turn. That is the loop's thread, unless it sleeps; then another thread may take the turn (`at_once`),
for to wake a thread takes longer than most callbacks do. What may go wrong is caught where it is understood;
what a callback raises all the same is a mistake of ours, and ends the loop unless `on_error` takes it.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import heapq
import itertools
import math
import selectors
import socket
import threading
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class Timer:
    """A call at a time of the monotonic clock; `cancel` may come at any moment."""

    def __init__(self, when: float, callback: Callable[[], None]) -> None:
        self.when = when
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class Loop:
    """Runs callbacks until `stop`. All methods but `soon`, `at_once` and `wake` belong to callbacks."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._timers: list[tuple[float, int, Timer]] = []
        self._order = itertools.count()
        self._soon: collections.deque[Callable[[], None]] = collections.deque()
        self.on_error: Callable[[Exception], None] | None = None
        self._running = True
        self._turn = threading.Lock()
        self._asleep = False
        self._wakes_at = math.inf
        self._bell, self._ringer = socket.socketpair()
        self._bell.setblocking(False)
        self._ringer.setblocking(False)
        self.watch(self._bell, read=self._hush)

    def watch(
        self, file: Any, *, read: Callable[[], None] | None = None, write: Callable[[], None] | None = None
    ) -> None:
        """From now on calls `read` and `write` when `file` is ready for them; with neither, forgets it. The same again
        costs nothing."""
        events = (selectors.EVENT_READ if read else 0) | (selectors.EVENT_WRITE if write else 0)
        known = self._selector.get_map().get(file)
        if known is None:
            if events:
                self._selector.register(file, events, (read, write))
        elif not events:
            self._selector.unregister(file)
        elif known.data != (read, write):
            self._selector.modify(file, events, (read, write))

    def at(self, when: float, callback: Callable[[], None]) -> Timer:
        """Calls back at a time of `time.monotonic`."""
        timer = Timer(when, callback)
        heapq.heappush(self._timers, (when, next(self._order), timer))
        return timer

    def after(self, delay_s: float, callback: Callable[[], None]) -> Timer:
        return self.at(time.monotonic() + delay_s, callback)

    def soon(self, callback: Callable[[], None]) -> None:
        """Calls back in the order of these calls. Any thread may ask, and a callback or signal handler too."""
        self._soon.append(callback)
        if self._asleep:
            self.wake()

    def at_once(self, callback: Callable[[], None]) -> None:
        """The same for another thread: if the loop sleeps, the calling thread does it, before this returns."""
        self._soon.append(callback)
        if self._turn.acquire(blocking=False):
            try:
                self._run_soon()
                is_due = self._next_time() < self._wakes_at
            except Exception as error:  # it ends the loop, and not whoever asked
                self._soon.appendleft(functools.partial(_raise, error))
                is_due = True
            finally:
                self._turn.release()
        else:
            is_due = True
        if is_due and self._asleep:
            self.wake()

    def wake(self) -> None:
        """Ends the wait that may be under way. Any thread may ask."""
        with contextlib.suppress(OSError):  # the bell is full: the loop is waking already
            self._ringer.send(b"!")

    @property
    def ringer(self) -> int:
        """A descriptor to write to in order to wake the loop, as for `signal.set_wakeup_fd`."""
        return self._ringer.fileno()

    def stop(self) -> None:
        self._running = False

    def run(self) -> None:
        """Runs until `stop`."""
        self._running = True
        while self._running:
            self.step()

    def step(self) -> None:
        """Waits for the next thing to do and does it."""
        with self._turn:
            self._asleep = True  # set before looking at _soon, so that whoever adds after the look rings
            self._wakes_at = self._next_time()
        ready = self._selector.select(_patience(self._wakes_at))
        with self._turn:
            self._asleep = False
            self._run_soon()
            self._run_ready(ready)
            self._run_timers()

    def close(self) -> None:
        self._selector.close()
        self._bell.close()
        self._ringer.close()

    def _call(self, callback: Callable[[], None]) -> None:
        try:
            callback()
        except Exception as error:
            if self.on_error is None:
                raise
            self.on_error(error)

    def _run_soon(self) -> None:
        for _ in range(len(self._soon)):
            self._call(self._soon.popleft())

    def _run_ready(self, ready: list[tuple[selectors.SelectorKey, int]]) -> None:
        for key, events in ready:
            read, write = key.data
            if read and events & selectors.EVENT_READ and self._still(key):
                self._call(read)
            if write and events & selectors.EVENT_WRITE and self._still(key):
                self._call(write)

    def _run_timers(self) -> None:
        now = time.monotonic()
        while self._timers and self._timers[0][0] <= now:
            callback = heapq.heappop(self._timers)[2].callback
            if callback is not None:
                self._call(callback)

    def _next_time(self) -> float:
        """When there is something to do, if nothing comes."""
        if self._soon:
            return -math.inf
        while self._timers and self._timers[0][2].callback is None:
            heapq.heappop(self._timers)
        return self._timers[0][0] if self._timers else math.inf

    def _still(self, key: selectors.SelectorKey) -> bool:
        """Whether this watch is as it was: a callback before may have ended it."""
        now = self._selector.get_map().get(key.fd)
        return now is not None and now.data is key.data

    def _hush(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._bell.recv(4096)


def _patience(until: float) -> float | None:
    return None if until == math.inf else max(0.0, until - time.monotonic())


def _raise(error: Exception) -> None:
    raise error
