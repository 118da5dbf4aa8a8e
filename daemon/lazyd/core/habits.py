"""When a model has been asked for, and when it will be."""

from __future__ import annotations

import msgspec


class Window(msgspec.Struct, frozen=True):
    """Worth being hot, from `start_s` to `end_s` after the last arrival."""

    start_s: float
    end_s: float
    expected_s: float | None = None
    within_s: float = 0.0


class Habit(msgspec.Struct):
    """The arrivals of one model."""

    last: float = 0.0

    def arrived(self, now: float) -> None:
        self.last = now

    def windows(self, price_s: float, load_s: float) -> tuple[Window, ...] | None:  # noqa: ARG002
        """None: too little is known."""
        return None
