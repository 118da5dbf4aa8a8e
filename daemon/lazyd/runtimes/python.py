"""The runtime ``python``: whatever a factory of the user's returns.

The factory, ``module:attribute``, gets the options as keyword arguments; a family's gets the part
of the name that ``*`` stands for before them. Clients may call every public method of what it
returns; a generator streams. If the object has a ``warmup()`` it is called before the object
counts as ready, and ``close()`` before it goes. If it has both ``park()`` and ``unpark()`` it can
give back the memory of its GPU and stay: lazyd calls the one when no call is in flight, and the
other before the next call. An object that raises in one of them is closed.
"""

from __future__ import annotations

import importlib
import operator
import platform
from typing import TYPE_CHECKING, Any

from . import checked, needs, out_of_memory, texts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from . import Cancellation, Progress

_OURS = frozenset({"warmup", "park", "unpark", "close"})
"""Methods that lazyd calls, not clients."""


class Instance:
    """What a factory has returned."""

    def __init__(self, instance: Any, factory: str) -> None:
        self._instance = instance
        self._methods = frozenset(
            name
            for name in dir(instance)
            if not name.startswith("_") and name not in _OURS and callable(getattr(instance, name, None))
        )
        if not self._methods:
            raise ValueError(f"{factory} returned a {type(instance).__name__}, which has no public methods")

    def methods(self) -> Sequence[str]:
        return sorted(self._methods)

    def call(
        self,
        method: str,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        *,
        stream: bool,  # noqa: ARG002 - a generator is one, whether it is read piece by piece or not
        cancelled: Cancellation,  # noqa: ARG002 - a generator is stopped between pieces
    ) -> Any:
        return getattr(self._instance, method)(*args, **kwargs)

    @property
    def warms_itself(self) -> bool:
        """It has a `warmup`, which is called if nothing is configured."""
        return callable(getattr(self._instance, "warmup", None))

    @property
    def warmup_method(self) -> str | None:
        return "warmup" if self.warms_itself else None

    def text_of(self, text: str, tokens: int | str) -> str:
        """So many words; as many as the object takes, if it says so by `max_seq_len`."""
        if isinstance(tokens, int):
            return texts.repeated(text, tokens)
        most = getattr(self._instance, "max_seq_len", None)
        if type(most) is not int:
            raise ValueError("the object does not say how long a text it takes: it has no number max_seq_len")
        return texts.repeated(text, most)

    @property
    def parks(self) -> bool:
        return all(callable(getattr(self._instance, name, None)) for name in ("park", "unpark"))

    def park(self) -> None:
        self._instance.park()

    def unpark(self) -> None:
        self._instance.unpark()

    def close(self) -> None:
        close = getattr(self._instance, "close", None)
        if callable(close):
            close()


class PythonRuntime:
    """Calls factories."""

    name = "python"
    imports: Sequence[str] = ()
    dry_run = None
    OUT_OF_MEMORY = out_of_memory.signs()

    def options(self) -> None:
        """The factory takes them."""

    def final_env(self, spec: dict[str, Any]) -> dict[str, str]:  # noqa: ARG002
        # The user's code may import onnxruntime, whose telemetry thread does not survive being forked.
        return {"ORT_DISABLE_TELEMETRY": "1"}

    def describe(self, spec: dict[str, Any]) -> dict[str, Any]:
        module, attribute = _split(spec)
        return {"module": module, "attribute": attribute}

    def files(self, spec: dict[str, Any]) -> list[str]:
        return [spec["path"]] if spec.get("path") else []

    def needs(self, spec: dict[str, Any]) -> dict[str, Any]:
        _split(spec)
        checked.interpreter(spec)
        return needs.unknown(spec)

    def out_of_memory(self, error: BaseException) -> bool:
        return out_of_memory.is_in(error, self.OUT_OF_MEMORY)

    def version(self) -> str:
        return platform.python_version()

    def load(self, spec: dict[str, Any], member: str | None, progress: Progress) -> Instance:
        module, attribute = _split(spec)
        progress("importing", None)
        factory = operator.attrgetter(attribute)(importlib.import_module(module))
        factory = getattr(factory, "lazyd_loader", factory)  # what lazyd.lazy wraps, as this is that daemon's model
        progress("loading", None)
        name = () if member is None else (member,)
        return Instance(factory(*name, **spec.get("options", {})), spec["factory"])


def _split(spec: dict[str, Any]) -> tuple[str, str]:
    factory = spec.get("factory") or ""
    module, colon, attribute = factory.partition(":")
    if not (module and colon and attribute):
        raise ValueError(f"the factory {factory!r} is not of the form module:attribute")
    return module, attribute


RUNTIME = PythonRuntime()
