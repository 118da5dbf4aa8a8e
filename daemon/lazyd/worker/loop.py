"""A small event loop: file descriptors, times, and calls from other threads.

The host and the worker run one each, in their main thread. What may go wrong is caught where it
is understood; what a callback raises all the same is a mistake of ours, and ends the loop unless
`on_error` takes it.
"""

from __future__ import annotations

import collections
import contextlib
import heapq
import itertools
import selectors
import socket
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
    """Runs callbacks until `stop`. All methods but `soon` belong to the loop's own thread."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._timers: list[tuple[float, int, Timer]] = []
        self._order = itertools.count()
        self._soon: collections.deque[Callable[[], None]] = collections.deque()
        self.on_error: Callable[[Exception], None] | None = None
        self._running = True
        self._asleep = False
        self._bell, self._ringer = socket.socketpair()
        self._bell.setblocking(False)
        self._ringer.setblocking(False)
        self.watch(self._bell, read=self._hush)

    def watch(
        self, file: Any, *, read: Callable[[], None] | None = None, write: Callable[[], None] | None = None
    ) -> None:
        """From now on calls `read` and `write` when `file` is ready for them; with neither, forgets it."""
        events = (selectors.EVENT_READ if read else 0) | (selectors.EVENT_WRITE if write else 0)
        known = file in self._selector.get_map()
        if events and known:
            self._selector.modify(file, events, (read, write))
        elif events:
            self._selector.register(file, events, (read, write))
        elif known:
            self._selector.unregister(file)

    def at(self, when: float, callback: Callable[[], None]) -> Timer:
        """Calls back at a time of `time.monotonic`."""
        timer = Timer(when, callback)
        heapq.heappush(self._timers, (when, next(self._order), timer))
        return timer

    def after(self, delay_s: float, callback: Callable[[], None]) -> Timer:
        return self.at(time.monotonic() + delay_s, callback)

    def soon(self, callback: Callable[[], None]) -> None:
        """Calls back in the loop's thread, in the order of these calls. Any thread may ask."""
        self._soon.append(callback)
        if self._asleep:
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
        self._asleep = True  # set before looking at _soon, so that whoever adds after the look rings
        ready = self._selector.select(self._patience())
        self._asleep = False
        for key, events in ready:
            read, write = key.data
            if read and events & selectors.EVENT_READ and self._still(key):
                self._call(read)
            if write and events & selectors.EVENT_WRITE and self._still(key):
                self._call(write)
        for _ in range(len(self._soon)):
            self._call(self._soon.popleft())
        now = time.monotonic()
        while self._timers and self._timers[0][0] <= now:
            callback = heapq.heappop(self._timers)[2].callback
            if callback is not None:
                self._call(callback)

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

    def _patience(self) -> float | None:
        if self._soon:
            return 0
        while self._timers and self._timers[0][2].callback is None:
            heapq.heappop(self._timers)
        return max(0.0, self._timers[0][0] - time.monotonic()) if self._timers else None

    def _still(self, key: selectors.SelectorKey) -> bool:
        """Whether this watch is as it was: a callback before may have ended it."""
        now = self._selector.get_map().get(key.fd)
        return now is not None and now.data is key.data

    def _hush(self) -> None:
        with contextlib.suppress(BlockingIOError):
            self._bell.recv(4096)
