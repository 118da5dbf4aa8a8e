"""Options of a PyTorch model, checked without PyTorch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import option_tables
from .option_tables import Option, choice, whole_number

if TYPE_CHECKING:
    from collections.abc import Mapping

BYTES = {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8}
"""Of an element, by the types that weights may be given."""
OPTIONS = (
    Option(
        "dtype",
        choice(BYTES),
        "Weights are converted to it, and what comes in; callers send and get float32 all the same. Not for exported "
        "programs.",
    ),
    Option("num_threads", whole_number(1), "Threads that compute one operation."),
    Option("num_interop_threads", whole_number(1), "Threads that compute operations side by side."),
)
_UNSAID: dict[str, Any] = dict.fromkeys(option.name for option in OPTIONS)


@dataclass(frozen=True)
class Options:
    """None: as PyTorch has it."""

    dtype: str | None
    """All weights are converted to it, and what comes in; callers send and get float32 all the same."""
    num_threads: int | None
    """That compute one operation."""
    num_interop_threads: int | None
    """That compute operations side by side."""

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Options:
        """Raises `ValueError` for an option that is not known, or whose value is of a wrong kind."""
        return cls(**{**_UNSAID, **option_tables.read(given, OPTIONS, "torchscript")})

    @property
    def scale(self) -> float:
        """By how much the weights grow when they are converted, as they are float32 most often."""
        return 1.0 if self.dtype is None else BYTES[self.dtype] / BYTES["float32"]
