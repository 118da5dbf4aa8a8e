"""What a program is told when a fallback has answered in a model's place.

With ``meta=True`` the answer says so. Who asked for the bare result gets a Python warning: once for each place in the
program and model, as is Python's custom, and turned off or into an exception with `warnings`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from .answer import Answer

OURS = __name__.partition(".")[0]


def result_of(model: str, answer: Answer) -> Any:
    """The bare result, with a warning if a fallback gave it."""
    if answer.degraded is not None:
        warn(model)
    return answer.result


def tell_degraded(model: str, why: str, on_degraded: Callable[[str], object] | None) -> None:
    """Before the first piece of an answer in pieces: whoever wants to know is told why, else a warning is given."""
    if on_degraded is None:
        warn(model)
    else:
        on_degraded(why)


def warn(model: str) -> None:
    """The text is the same each time, so that Python can tell what it has shown already."""
    import sys
    import warnings

    from ..errors import Degraded

    frame, level = sys._getframe(), 1  # up to the program that uses this package
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == OURS:
        frame, level = frame.f_back, level + 1
    text = f"{model} was not ready, and its fallback has answered; call(..., meta=True) says why"
    warnings.warn(text, Degraded, stacklevel=level)
