"""What a method of a TorchScript module takes: read from the module's own text, and held against what is given."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_METHOD = re.compile(r"^  def (\w+)\((.*?)\) -> (.*?):$", re.MULTILINE | re.DOTALL)
_LONGEST = 16 * 1024
"""Characters of one method's arguments."""


class Parameter(NamedTuple):
    """One argument. `kind` is as TorchScript writes it: ``Tensor``, ``int``, ``Optional[Tensor]``."""

    name: str
    kind: str
    default: str | None = None

    def __str__(self) -> str:
        text = f"{self.name}: {self.kind}"
        return text if self.default is None else f"{text} = {self.default}"


class Signature(NamedTuple):
    """One method: ``forward(x: Tensor, sr: int) -> Tensor``."""

    method: str
    parameters: tuple[Parameter, ...]
    returns: str

    def __str__(self) -> str:
        return f"{self.method}({', '.join(map(str, self.parameters))}) -> {self.returns}"

    def bound(self, args: Sequence[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
        """The arguments by name, each looked at, in order. Those that were left out have defaults.

        Raises:
            ValueError: they do not fit; the line says which, and what is expected.
        """
        if len(args) > len(self.parameters):
            raise self.wrong(f"{len(args)} arguments are too many")
        bound = {parameter.name: value for parameter, value in zip(self.parameters, args)}
        known = {parameter.name for parameter in self.parameters}
        for name in kwargs:
            if name not in known:
                raise self.wrong(f"{name!r} is no argument")
            if name in bound:
                raise self.wrong(f"{name!r} is given twice")
        bound.update(kwargs)
        for parameter in self.parameters:
            if parameter.name in bound:
                self._look_at(parameter, bound[parameter.name])
            elif parameter.default is None:
                raise self.wrong(f"{parameter.name!r} is missing")
        return bound

    def wrong(self, what: str) -> ValueError:
        """An error that shows what is expected."""
        return ValueError(f"{what}; expected {self}")

    def given(self, bound: dict[str, Any]) -> str:
        """What a caller has sent, in one line: ``x: float64[1,512], sr: 16000``."""
        return ", ".join(f"{name}: {_shown(value)}" for name, value in bound.items()) or "nothing"

    @property
    def needs_arguments(self) -> bool:
        """It cannot be called with none."""
        return any(parameter.default is None for parameter in self.parameters)

    def _look_at(self, parameter: Parameter, value: Any) -> None:
        kind = without_optional(parameter.kind)
        if value is None and kind != parameter.kind:
            return
        fits = _FITS.get(kind)
        if fits is not None and not fits(value):
            raise self.wrong(f"{parameter.name!r} is {_called(value)}, not {_CALLED[kind]}")


def methods(text: str, class_name: str) -> dict[str, Signature]:
    """The methods of one class of a module's text (a file of ``code/`` in a TorchScript archive).

    What cannot be read is left out: such a method can be called all the same.
    """
    body = re.search(rf"^class {re.escape(class_name)}\(.*\):\n((?:(?:  .*)?\n)*)", text, re.MULTILINE)
    found = (_signature(*match.groups()) for match in _METHOD.finditer(body[1])) if body else ()
    return {signature.method: signature for signature in found if signature is not None}


def without_optional(kind: str) -> str:
    """``Tensor`` for ``Optional[Tensor]``."""
    return kind[len("Optional[") : -1] if kind.startswith("Optional[") else kind


def _signature(name: str, arguments: str, returns: str) -> Signature | None:
    if len(arguments) > _LONGEST:
        return None
    try:
        parsed = ast.parse(f"def _({arguments}): pass").body[0]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    assert isinstance(parsed, ast.FunctionDef)
    given = parsed.args.args[1:]  # the first is the module itself
    defaults: list[Any] = [None] * (len(given) - len(parsed.args.defaults)) + parsed.args.defaults
    parameters = [
        Parameter(each.arg, ast.unparse(each.annotation) if each.annotation else "Tensor", _written(default))
        for each, default in zip(given, defaults)
    ]
    return Signature(name, tuple(parameters), " ".join(returns.split()))


def _written(default: ast.expr | None) -> str | None:
    """A default as people read it: a constant of the archive has a number there, not a value."""
    if default is None:
        return None
    text = ast.unparse(default)
    return "…" if text.startswith("CONSTANTS.") else text


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_array(value: Any) -> bool:
    """An array, or what can be made one: a number, or lists of numbers."""
    return hasattr(value, "dtype") or isinstance(value, (int, float, list, tuple))


_FITS: dict[str, Callable[[Any], bool]] = {
    "Tensor": _is_array,
    "int": _is_whole,
    "float": _is_number,
    "bool": lambda value: isinstance(value, bool),
    "str": lambda value: isinstance(value, str),
}
_CALLED = {
    "Tensor": "an array",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "str": "a text",
}


def _shown(value: Any) -> str:
    if hasattr(value, "dtype"):
        return f"{value.dtype}[{','.join(map(str, value.shape))}]"
    return repr(value) if isinstance(value, (bool, int, float)) or value is None else _called(value)


def _called(value: Any) -> str:
    """What kind of thing a caller has sent."""
    if value is None:
        return "nothing"
    if hasattr(value, "dtype"):
        return f"an array {_shown(value)}"
    known = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}
    return known.get(type(value), f"a {type(value).__name__}")
