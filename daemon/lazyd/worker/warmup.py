"""The calls of one warm-up: made one at a time, in the thread of their model, and their outputs looked at."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..runtimes import CallCancelled, texts
from . import outputs, recipes
from .calls import one_line

if TYPE_CHECKING:
    from ..runtimes import Cancellation, LoadedModel

ASYNC, ON_DEMAND = "async", "on-demand"


class WarmupFailed(Exception):
    """A call has failed, or its output is not as expected. Its text is for people."""

    def __str__(self) -> str:
        return str(self.args[0])


class Order:
    """Which warm-up the manager wants with a load: none, if `mode` is empty and the model brings none."""

    def __init__(self, mode: str = "", table: dict[str, Any] | None = None, warmed_by: tuple[str, ...] = ()) -> None:
        self.mode = mode
        self.table = table or {}
        self.warmed_by = warmed_by

    @classmethod
    def of(cls, message: dict[str, Any]) -> Order:
        """As the manager tells it."""
        return cls(message.get("warmup") or "", message.get("table"), tuple(message.get("warmed_by") or ()))

    def is_known(self, runtime: str) -> bool:
        """None is made: one of this version of the runtime has been made before."""
        return self.mode == ON_DEMAND and runtime in self.warmed_by

    def plan(self, model: LoadedModel) -> Warmup | None:
        """Its calls; None: there are none. Raises `WarmupFailed` if it cannot be made at all."""
        if self.mode:
            return Warmup(model, self.table)
        return Warmup(model, {}) if getattr(model, "warms_itself", False) else None


class Warmup:
    """`table` is as in the configuration (`lazyd.core.spec.Warmup`), defaults left out."""

    def __init__(self, model: LoadedModel, table: dict[str, Any]) -> None:
        self._model = model
        self._table = table
        own: str | None = getattr(model, "warmup_method", None)
        method = table.get("method") or own
        if method is None:
            raise WarmupFailed("warm-up: it has no warmup(), and no warmup.method says what to call")
        if method != own and method not in model.methods():
            raise WarmupFailed(f"warm-up: it has no method {method} (warmup.method)")
        self._method: str = method
        self.calls: int = table.get("calls", 1)
        self.made = 0
        self.spent_s = 0.0

    @property
    def is_over(self) -> bool:
        return self.made >= self.calls

    def call(self, cancelled: Cancellation) -> None:
        """Makes the next call. Raises `WarmupFailed`; `CallCancelled` and `LoadAborted` go through."""
        began = time.monotonic()
        try:
            args, kwargs = self._arguments()
            output = self._output(
                self._model.call(self._method, args, kwargs, stream=False, cancelled=cancelled), cancelled
            )
        except Exception as error:
            raise WarmupFailed(f"warm-up: {one_line(error)} {self._which()}") from error
        finally:
            self.spent_s += time.monotonic() - began
        wrong = outputs.problem(self._table.get("expect") or {}, output)
        if wrong is not None:
            raise WarmupFailed(f"warm-up: output {wrong} {self._which()}")
        self.made += 1

    def _which(self) -> str:
        return f"(call {self.made + 1} of {self.calls})"

    def _arguments(self) -> tuple[list[Any], dict[str, Any]]:
        text_of: Any = getattr(self._model, "text_of", texts.repeated)
        args: list[Any] = recipes.made(list(self._table.get("args") or ()), self.made, text_of)
        kwargs: dict[str, Any] = recipes.made(self._table.get("kwargs") or {}, self.made, text_of)
        complete = getattr(self._model, "warmup_arguments", None)
        return complete(self._method, args, kwargs) if complete is not None else (args, kwargs)

    def _output(self, result: Any, cancelled: Cancellation) -> Any:
        """What is looked at: all pieces of a stream, and of an answer what the runtime says is its output."""
        if isinstance(result, Iterator):
            pieces = []
            for piece in result:
                if cancelled():
                    raise CallCancelled
                pieces.append(piece)
            result = pieces
        said = getattr(self._model, "output_of", None)
        return said(self._method, result) if said is not None else result
