"""What llama.cpp says is wrong, in the worker's log and at hand for an error's reason."""

from __future__ import annotations

import collections
import ctypes
import os
from typing import TYPE_CHECKING, Any

import llama_cpp.llama_cpp as api

if TYPE_CHECKING:
    from collections.abc import Callable

_ERROR, _CONTINUED = 4, 5
"""Of ggml's levels (``ggml.h``)."""


class ErrorLog:
    """Passes errors on to standard error, and keeps the last ones."""

    def __init__(self) -> None:
        # The library silences descriptor 2 itself while it loads.
        self._fd = os.dup(2)
        self._kept: collections.deque[str] = collections.deque(maxlen=20)
        self._is_error = False
        self.is_muted: Callable[[], bool] = lambda: False
        """A computation that is stopped on purpose is an error to llama.cpp, but to nobody else."""
        self._callback = api.llama_log_callback(self._heard)

    def attach(self) -> None:
        """From now on llama.cpp speaks to this log, which must live as long as the process."""
        api.llama_log_set(self._callback, ctypes.c_void_p(0))

    def first(self) -> str | None:
        """The oldest error that is kept, without the name of the function that it comes from."""
        for line in self._kept:
            text = line.split(": ", 1)[-1].strip()
            if text:
                return text
        return None

    def _heard(self, level: int, text: bytes, _: Any) -> None:
        if level != _CONTINUED:
            self._is_error = level == _ERROR
        if self._is_error and text and not self.is_muted():
            os.write(self._fd, text)
            self._kept.extend(text.decode("utf-8", "replace").splitlines())
