"""What must be true of an output of a warm-up (``[models.x.warmup.expect]``).

An output is an array, a text, bytes, a number, or a list or a table of these. `finite` and `shape` are about all
arrays in it, and a list of numbers is one; `not_empty` is about each entry of a table, and about a list
as a whole; `contains` is about any text in it.
"""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING, Any

from ..wire.values import Array

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_PACKED = {"f2": "e", "f4": "f", "f8": "d", "c8": "f", "c16": "d"}
"""How `struct` reads the elements of an `Array`, by what its type is spelled with after the byte order."""


def problem(expect: dict[str, Any], output: Any) -> str | None:
    """What is wrong with an output, to follow the word ``output``; None: nothing."""
    if expect.get("not_empty") and _is_empty(output):
        return "is empty"
    if expect.get("finite") and not _is_finite(output):
        return "is not finite"
    wanted = expect.get("shape")
    if wanted is not None:
        found = [_shape(array) for array in _arrays(output)]
        wrong = next((shape for shape in found if not _fits(shape, wanted)), None)
        if not found:
            return f"is a {type(output).__name__}, not an array of shape {list(wanted)}"
        if wrong is not None:
            return f"has the shape {wrong}, not {list(wanted)}"
    text = expect.get("contains")
    if text is not None and not any(text in said for said in _texts(output)):
        return f"does not contain {text!r}"
    return None


def _is_empty(value: Any) -> bool:
    if value is None:
        return True
    if isinstance(value, str):
        return not value.strip()
    if isinstance(value, dict):
        return not value or any(_is_empty(item) for item in value.values())
    if _is_array(value):
        return 0 in value.shape
    if isinstance(value, (list, tuple)):
        return all(_is_empty(item) for item in value)
    return isinstance(value, (bytes, bytearray)) and not value


def _is_finite(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, complex):
        return math.isfinite(value.real) and math.isfinite(value.imag)
    if isinstance(value, dict):
        return all(_is_finite(item) for item in value.values())
    if isinstance(value, (list, tuple)):
        return all(_is_finite(item) for item in value)
    return _is_finite_array(value) if _is_array(value) else True


def _is_finite_array(array: Any) -> bool:
    if isinstance(array, Array):
        code = _PACKED.get(array.dtype[1:])
        return code is None or all(
            math.isfinite(n) for (n,) in struct.iter_unpack(f"{array.dtype[0]}{code}", array.data)
        )
    if array.dtype.kind not in "fc":
        return True
    import numpy

    return bool(numpy.isfinite(array).all())


def _arrays(value: Any) -> Iterator[Any]:
    """All arrays in a value; a list that begins with a number, or with such a list, is one."""
    if _is_array(value) or (isinstance(value, (list, tuple)) and _is_numeric(value)):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _arrays(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _arrays(item)


def _is_numeric(value: Sequence[Any]) -> bool:
    first = value[0] if value else None
    if isinstance(first, (list, tuple)):
        return _is_numeric(first)
    return isinstance(first, (int, float, complex))


def _shape(value: Any) -> list[int]:
    if not isinstance(value, (list, tuple)):
        return list(getattr(value, "shape", ()))
    return [len(value), *(_shape(value[0]) if value else ())]


def _fits(shape: Sequence[int], wanted: Sequence[int]) -> bool:
    return len(shape) == len(wanted) and all(n in (-1, length) for length, n in zip(shape, wanted))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, (bytes, bytearray)):
        yield value.decode("utf-8", "replace")
    elif isinstance(value, dict):
        for item in value.values():
            yield from _texts(item)
    elif isinstance(value, (list, tuple)):
        if value and all(isinstance(item, str) for item in value):
            yield "".join(value)  # the pieces of a stream
        for item in value:
            yield from _texts(item)


def _is_array(value: Any) -> bool:
    return hasattr(value, "shape") and hasattr(value, "dtype")
