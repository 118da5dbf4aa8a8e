"""A method of a model, as an object that can be called."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Send = Callable[[str, Sequence[Any], Mapping[str, Any]], Any]


class Method:
    """What ``model.complete`` is, before it is called."""

    def __init__(self, model: str, name: str, send: Send) -> None:
        """Raises AttributeError for private names: nobody means a model's method by ``__deepcopy__``."""
        if name.startswith("_"):
            raise AttributeError(f"the proxy of {model} has no attribute {name!r}")
        self._model = model
        self._name = name
        self._send = send

    def __repr__(self) -> str:
        return f"<method {self._name} of {self._model}>"

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return self._send(self._name, args, kwargs)
