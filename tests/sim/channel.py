"""One direction of a socket between two simulated processes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from .clock import Clock


class Channel:
    """Keeps order, takes time, and can be cut.

    While it is not `open` nobody reads: messages that arrive wait in it, as in a socket's buffer.
    """

    __slots__ = ("_arrived", "_clock", "_delay_s", "_deliver", "_generation", "_last", "_pending", "is_open")

    def __init__(self, clock: Clock, delay_s: Callable[[], float], deliver: Callable[[Any], None]) -> None:
        self._clock = clock
        self._delay_s = delay_s
        self._deliver = deliver
        self._pending: deque[Any] = deque()
        self._arrived = 0
        self._last = 0.0
        self._generation = 0
        self.is_open = True

    def send(self, message: Any) -> None:
        self._pending.append(message)
        self._last = max(self._last, self._clock.now + self._delay_s())
        self._clock.at(self._last, self._arrive, self._generation)

    def not_before(self, when: float) -> None:
        """What is sent from now on arrives after `when`."""
        self._last = max(self._last, when)

    @property
    def quiet_at(self) -> float:
        """When the last message sent so far will have arrived."""
        return self._last

    def _arrive(self, generation: int) -> None:
        if generation != self._generation or not self._pending:
            return
        if self.is_open:
            self._deliver(self._pending.popleft())
        else:
            self._arrived += 1

    def close(self) -> None:
        """Nobody reads for now."""
        self.is_open = False

    def open(self) -> None:
        """Somebody reads from now on, first what has arrived already."""
        self.is_open = True
        while self._arrived and self._pending:
            self._arrived -= 1
            self._deliver(self._pending.popleft())

    def read_dry(self) -> None:
        """Takes everything that was sent, without waiting for it to arrive."""
        self.read(len(self._pending))

    def read(self, count: int) -> None:
        """Takes the first messages, without waiting for them to arrive."""
        for _ in range(min(count, len(self._pending))):
            self._arrived = max(0, self._arrived - 1)
            self._deliver(self._pending.popleft())

    def cut(self, keep: int) -> list[Any]:
        """The sender is gone. The first `keep` messages still get through; returns those that were lost."""
        for _ in range(min(keep, len(self._pending))):
            self._deliver(self._pending.popleft())
        lost = list(self._pending)
        self._pending.clear()
        self._arrived = 0
        self._generation += 1
        return lost

    def __len__(self) -> int:
        return len(self._pending)
