"""What a model takes and gives as named arrays: how it is described, and how what a caller gave is made to fit.

An array must have the type that the model takes: nothing is converted behind the caller's back. Numbers, texts
and lists of them have no such type, so they become what the model takes, if that loses nothing:

| given                | becomes                                                              |
|----------------------|----------------------------------------------------------------------|
| truth values         | bool                                                                 |
| whole numbers        | any type of numbers that holds them exactly                          |
| numbers with a point | any type of floats or complex numbers, rounded as the type does      |
| texts                | str                                                                  |
| an array             | itself: same type and shape; only its order in memory may be changed |

numpy is imported by `fitted` and `fit` alone. Python 3.9 and later.
"""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

TEXT = "str"
"""The type of arrays of text: of any length, where numpy has a type for each length."""
_LONGEST_NAME = 12
"""Of a dimension, as people read it: exporters write such as ``p2o.DynamicDimension.0``, which says nothing."""
_SAYS_SOMETHING = re.compile(rf"[A-Za-z_]\w{{,{_LONGEST_NAME - 1}}}", re.ASCII)
_INTO = {"b": "b", "i": "iufc", "u": "iufc", "f": "fc", "c": "c"}
"""By the kind (as numpy has it) of numbers in a list: the kinds of arrays that they may become."""
_PLAIN = (*_INTO, "U", "S")
_CALLED = {
    "b": "truth values",
    "i": "whole numbers",
    "u": "whole numbers",
    "f": "numbers with a point",
    "c": "complex numbers",
}


class Port(NamedTuple):
    """One array that goes in, or comes out."""

    name: str
    dtype: str | None = None
    """numpy's name for it, or `TEXT`; None: any, or no array at all."""
    shape: tuple[int | str | None, ...] | None = None
    """A dimension is a length, a name, or None for any length; None: of any number of dimensions."""

    def __str__(self) -> str:
        """``x: float32[N,3,?]``."""
        return self.name if self.dtype is None and self.shape is None else f"{self.name}: {self.kind}"

    @property
    def kind(self) -> str:
        return _kind(self.dtype, self.shape)


def described(ports: Iterable[Port]) -> list[dict[str, Any]]:
    """As metadata tells it, in the order of the model."""
    return [
        {"name": port.name, "dtype": port.dtype, "shape": None if port.shape is None else list(port.shape)}
        for port in ports
    ]


def signature(ports: Iterable[Port]) -> str:
    """One line: ``x: float32[N,3,H,W], sr: int64[]``."""
    return ", ".join(map(str, ports)) or "nothing"


def fitted(given: Mapping[str, Any], ports: Sequence[Port]) -> dict[str, Any]:
    """Arrays by the names of all `ports`.

    Raises:
        ValueError: names are missing or unknown, or values do not fit; it says all that is wrong, and what is taken.
    """
    if not hasattr(given, "keys"):
        raise ValueError(f"inputs are given by name, not as {_said(given)}; expected {signature(ports)}")
    wrong = list(_wrong_names(given, ports))
    arrays = {}
    for port in ports:
        if port.name in given:
            try:
                arrays[port.name] = fit(given[port.name], port)
            except ValueError as error:
                wrong.append(str(error))
    if wrong:
        told = "; ".join(wrong)
        raise ValueError(
            told if all(str(port.kind) in told for port in ports) else f"{told}; expected {signature(ports)}"
        )
    return arrays


def fit(value: Any, port: Port) -> Any:
    """One value as an array, contiguous and in the machine's order of bytes. Raises `ValueError`."""
    import numpy

    if isinstance(value, numpy.ndarray):
        _match_type(value, port)
        array = value.astype(value.dtype.newbyteorder("="), order="C", copy=False)
        array = _decoded(array, port) if array.dtype.kind == "S" and port.dtype == TEXT else array
    else:
        array = _from_plain(value, port)
    if port.shape is not None and not _fits(array.shape, port.shape):
        found = _kind(_type(array), array.shape)
        raise ValueError(f"{port.name!r} is {found}, not {port.kind}")
    return array


def _wrong_names(given: Mapping[str, Any], ports: Sequence[Port]) -> Iterable[str]:
    known = [port.name for port in ports]
    missing = [name for name in known if name not in given]
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(str(name), missing, n=1, cutoff=0.5)
            yield f"{name!r} is no input" + (f", did you mean {near[0]!r}?" if near else "")
    if missing:
        yield f"{', '.join(map(repr, missing))} {'is' if len(missing) == 1 else 'are'} missing"


def _match_type(array: Any, port: Port) -> None:
    found = _type(array)
    if port.dtype is not None and found != port.dtype:
        advice = "" if TEXT in (found, port.dtype) else f"; convert it, as by .astype({port.dtype!r})"
        raise ValueError(f"{port.name!r} is {_kind(found, array.shape)}, not {port.kind}{advice}")


def _from_plain(value: Any, port: Port) -> Any:
    """Of a number, a text, or lists of these."""
    import numpy

    try:
        array = numpy.array(value)
    except (ValueError, TypeError, OverflowError):  # rows of different lengths, most often
        array = numpy.array(None)
    if array.dtype.kind not in _PLAIN:
        raise ValueError(f"{port.name!r} is {_said(value)} that is no array of numbers or texts, not {port.kind}")
    if array.dtype.kind == "S":
        array = _decoded(array, port)
    if port.dtype is None or _type(array) == port.dtype:
        return array
    try:
        kind = numpy.dtype(port.dtype)
    except TypeError:
        raise ValueError(f"{port.name!r} takes {port.dtype}, which numpy does not have") from None
    if array.size and kind.kind not in _INTO.get(array.dtype.kind, ""):
        raise ValueError(f"{port.name!r} holds {_CALLED.get(array.dtype.kind, 'texts')}, not {port.kind}")
    with numpy.errstate(all="ignore"):
        made = array.astype(kind)
    if _loses(array, made):
        raise ValueError(f"{port.name!r} has numbers that {port.dtype} does not hold")
    return made


def _loses(array: Any, made: Any) -> bool:
    """Whole numbers must stay what they were, others finite."""
    import numpy

    if array.dtype.kind in "iu":
        with numpy.errstate(all="ignore"):
            back = made.real.astype(array.dtype)
        return bool(((back != array) | ((made.real < 0) != (array < 0))).any())
    return bool((numpy.isfinite(array) & ~numpy.isfinite(made)).any())


def _decoded(array: Any, port: Port) -> Any:
    """Texts of bytes."""
    import numpy

    try:
        return numpy.char.decode(array, "utf-8")
    except UnicodeDecodeError:
        raise ValueError(f"{port.name!r} has bytes that are not UTF-8") from None


def _type(array: Any) -> str:
    return TEXT if array.dtype.kind in "US" else str(array.dtype.name)


def _fits(shape: Sequence[int], wanted: Sequence[int | str | None]) -> bool:
    return len(shape) == len(wanted) and all(
        length == least or not isinstance(least, int) for length, least in zip(shape, wanted)
    )


def _kind(dtype: str | None, shape: Sequence[int | str | None] | None) -> str:
    dimensions = "…" if shape is None else ",".join(map(_length, shape))
    return f"{dtype or 'any'}[{dimensions}]"


def _length(dimension: int | str | None) -> str:
    """Of one dimension: its length, or its name where that is a word."""
    unnamed = dimension is None or (isinstance(dimension, str) and not _SAYS_SOMETHING.fullmatch(dimension))
    return "?" if unnamed else str(dimension)


def _said(value: Any) -> str:
    """What kind of thing somebody gave."""
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"
