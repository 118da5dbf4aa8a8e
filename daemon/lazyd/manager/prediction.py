"""What loading a model will need, found out without loading it (the effect `Predict`).

The runtime looks at the model's files, in a thread: they may lie on a disk that is slow or gone.
A declared peak goes before its estimate, but a model whose file cannot be loaded is said to be
unloadable all the same, before a process is started for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

from lazyd.core.effects import Predict
from lazyd.core.events import Event, Predicted, Unpredictable
from lazyd.core.ledger import HOST
from lazyd.core.spec import ModelSpec

from .environment import as_told
from .tasks import Background

log = logging.getLogger("lazyd.prediction")

DECLARED = "declared"
FILE_SIZE = "file size"


class Predictor:
    """`spec_of` finds a model's spec, a member's being its family's; `tell` gets the answers."""

    def __init__(
        self, spec_of: Callable[[str], ModelSpec | None], tell: Callable[[Event], None], background: Background
    ) -> None:
        self._spec_of = spec_of
        self._tell = tell
        self._background = background

    def predict(self, effect: Predict) -> None:
        self._background.once(f"prediction of {effect.model}", self._predict(effect.model))

    async def _predict(self, model: str) -> None:
        spec = self._spec_of(model)
        if spec is None:
            self._tell(Unpredictable(model=model, reason="it is not configured any more"))
            return
        try:
            needed, source = await asyncio.to_thread(needs, spec)
        except (OSError, ValueError) as error:
            self._tell(Unpredictable(model=model, reason=reason_of(error)))
        except Exception as error:
            log.exception("the runtime %s could not estimate %s", spec.runtime, model)
            self._tell(Unpredictable(model=model, reason=f"its needs could not be estimated: {error!r}"))
        else:
            self._tell(Predicted(model=model, bytes_by_kind={HOST: needed}, source=source))


def needs(spec: ModelSpec) -> tuple[int, str]:
    """Bytes of RAM that a load needs, and who says so. Blocks.

    Raises:
        OSError: a file of the model is missing or cannot be read.
        ValueError: it is damaged, or no model of this runtime.
    """
    from lazyd.runtimes import runtime_named

    estimated = runtime_named(spec.runtime).estimate(as_told(spec))
    if spec.memory_bytes is not None:
        return spec.memory_bytes, DECLARED
    return estimated, FILE_SIZE


def describe(spec: ModelSpec) -> dict[str, Any]:
    """What the model's file says of itself; blocks. A file that says nothing is told as ``error``."""
    from lazyd.runtimes import runtime_named

    try:
        return runtime_named(spec.runtime).describe(as_told(spec))
    except (OSError, ValueError) as error:
        return {"error": reason_of(error)}


def reason_of(error: Exception) -> str:
    """One line, without the number that an OSError begins with."""
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.filename}: {error.strerror}"
    return " ".join(str(error).split())
