"""Options of a PyTorch model, checked without PyTorch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from . import checked

if TYPE_CHECKING:
    from collections.abc import Mapping

BYTES = {"float16": 2, "bfloat16": 2, "float32": 4, "float64": 8}
"""Of an element, by the types that weights may be given."""
KNOWN = ("dtype", "num_threads", "num_interop_threads")


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
        checked.known_options(given, KNOWN, "torchscript")
        return cls(
            dtype=checked.choice("dtype", given["dtype"], BYTES) if "dtype" in given else None,
            num_threads=_threads(given, "num_threads"),
            num_interop_threads=_threads(given, "num_interop_threads"),
        )

    @property
    def scale(self) -> float:
        """By how much the weights grow when they are converted, as they are float32 most often."""
        return 1.0 if self.dtype is None else BYTES[self.dtype] / BYTES["float32"]


def _threads(given: Mapping[str, Any], name: str) -> int | None:
    return checked.whole_number(name, given[name], 1) if name in given else None
