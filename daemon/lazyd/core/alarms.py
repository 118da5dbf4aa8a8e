"""Timers by next deadline: at most one alarm per key, the earliest first.

A key is a tuple whose first item names the rule that runs when the alarm is due. Alarms are
lazy: a rule looks at the facts when it runs, and sets the alarm again if they have moved on.
So the hot path, on which a model is merely used once more, sets nothing.
"""

from __future__ import annotations

import heapq
from typing import Any

Key = tuple[Any, ...]


class Alarms:
    def __init__(self) -> None:
        self._when: dict[Key, float] = {}
        self._heap: list[tuple[float, int, Key]] = []
        self._serial = 0

    def __len__(self) -> int:
        return len(self._when)

    def __contains__(self, key: Key) -> bool:
        return key in self._when

    def set(self, key: Key, when: float) -> None:
        """Replaces an alarm of the same key."""
        if self._when.get(key) == when:
            return
        self._when[key] = when
        self._serial += 1
        heapq.heappush(self._heap, (when, self._serial, key))
        if len(self._heap) > 64 + 4 * len(self._when):
            self._rebuild()

    def set_by(self, key: Key, when: float) -> None:
        """Sets an alarm unless one of the same key is due as early."""
        if self._when.get(key, float("inf")) > when:
            self.set(key, when)

    def clear(self, key: Key) -> None:
        self._when.pop(key, None)

    def next(self) -> float | None:
        """When the earliest alarm is due."""
        heap = self._heap
        while heap and self._when.get(heap[0][2]) != heap[0][0]:
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def due(self, now: float) -> list[Key]:
        """Takes out all alarms due at `now`, the earliest first."""
        keys: list[Key] = []
        while (when := self.next()) is not None and when <= now:
            key = heapq.heappop(self._heap)[2]
            del self._when[key]
            keys.append(key)
        return keys

    def _rebuild(self) -> None:
        alive = [(when, n, key) for when, n, key in self._heap if self._when.get(key) == when]
        self._heap = alive
        heapq.heapify(alive)
