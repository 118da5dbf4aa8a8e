"""What a call answers when the caller wants to know more than the result."""

from __future__ import annotations

from typing import Any, NamedTuple


class Answer(NamedTuple):
    """The result of a call, and how it came about."""

    result: Any
    degraded: str | None
    """Why another model, or a fixed value, stood in; None: nothing did."""
    cold_start: bool
    """The model had to be loaded for this call."""
    waited_s: float
    """Seconds until the model was ready; 0.0 on a connection that was open already."""


class Piece(NamedTuple):
    """One of the results of a call, or the end of a stream."""

    value: Any
    more: bool
    """Another one follows."""
    empty: bool = False
    """A stream has ended, and this is no piece of it."""
