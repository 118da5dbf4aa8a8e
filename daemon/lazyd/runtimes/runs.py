"""The one method of runtimes that take and give named arrays: ``run({input: array}, outputs=None)``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import arrays

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from .arrays import Port

METHOD = "run"


class RunModel:
    """What loaded models with this one method have in common; `call` is their own."""

    inputs: Sequence[Port]
    """What it takes, in the order in which its file has them."""

    def methods(self) -> Sequence[str]:
        return (METHOD,)

    @property
    def warmup_method(self) -> str:
        """Called where a warm-up is configured without a method."""
        return METHOD

    def warmup_arguments(
        self,
        method: str,  # noqa: ARG002 - there is one
        args: list[Any],
        kwargs: dict[str, Any],
    ) -> tuple[list[Any], dict[str, Any]]:
        """Zeros where nothing else is given, one of what the first dimension counts.

        Raises `ValueError` if another length is not known.
        """
        if args or "inputs" in kwargs:
            return args, kwargs
        return [{port.name: zeros(port) for port in self.inputs}], kwargs


def arguments(args: Sequence[Any], kwargs: dict[str, Any], ports: Sequence[Port]) -> tuple[Any, Any]:
    """Inputs and outputs, however they are given. Raises `TypeError`, with what is expected."""
    by_name = [port.name for port in ports if port.name in kwargs]
    if by_name:
        object_ = "{" + ", ".join(f'"{name}": …' for name in by_name) + "}"
        raise TypeError(
            f"inputs are one argument, {object_}, not arguments by name (for lazyctl: '[{object_}]'); "
            f"the inputs are {arrays.signature(ports)}"
        )
    try:
        return _run(*args, **kwargs)
    except TypeError as error:
        raise TypeError(f"{str(error).lstrip('_')}; the inputs are {arrays.signature(ports)}") from None


def chosen(names: Any, known: Sequence[str]) -> Sequence[str]:
    """The outputs that are wanted: all, or those that are named. Raises `ValueError`."""
    if names is None:
        return known
    if not isinstance(names, (list, tuple)) or not names:
        raise ValueError(f"outputs is a list of names, not {names!r}; there are {', '.join(known)}")
    for name in names:
        if name not in known:
            raise ValueError(f"{name!r} is no output; there are {', '.join(known)}")
    return list(dict.fromkeys(names))


def signature(inputs: Iterable[Port], outputs: Iterable[Port]) -> str:
    """One line: ``run({x: float32[N,3,H,W]}) -> {y: float32[N]}``."""
    return f"{METHOD}({{{arrays.signature(inputs)}}}) -> {{{arrays.signature(outputs)}}}"


def zeros(port: Port) -> Any:
    """What a port takes, one of what the first dimension counts. Raises `ValueError` if another length is not known."""
    import numpy

    first, *others = port.shape or (1,)
    if port.dtype is None or port.shape is None or not all(isinstance(n, int) for n in others):
        raise ValueError(f"of {port} not all lengths are known: say in warmup.args what to call it with")
    shape = [first if isinstance(first, int) else 1, *others] if port.shape else []
    return numpy.zeros(shape, port.dtype)


def _run(inputs: Any, outputs: Any = None) -> tuple[Any, Any]:
    return inputs, outputs
