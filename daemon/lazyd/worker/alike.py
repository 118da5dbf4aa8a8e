"""Whether two answers say the same: numbers may differ a little, as they do between machines and precisions."""

from __future__ import annotations

import math
import sys
from typing import Any, Literal

from ..wire.values import Array

RELATIVE = 1e-3
ABSOLUTE = 1e-5
"""So far apart may two numbers be: this part of the larger one, or so much."""
_FLOATS: dict[str, Literal["f", "d"]] = {"<f4": "f", "<f8": "d"}


def alike(one: Any, other: Any) -> bool:
    """Compares values as they travel: numbers, texts, bytes, arrays, lists and dicts of these."""
    if is_number(one) and is_number(other):
        return near(one, other)
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(alike, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(alike(value, other[key]) for key, value in one.items())
    if isinstance(one, Array) and isinstance(other, Array):
        return arrays_alike(one, other)
    numpy = sys.modules.get("numpy")
    if numpy is not None and (isinstance(one, numpy.ndarray) or isinstance(other, numpy.ndarray)):
        return numpy_alike(numpy, one, other)
    return type(one) is type(other) and bool(one == other)


def is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def near(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=RELATIVE, abs_tol=ABSOLUTE) or (one != one and other != other)


def numpy_alike(numpy: Any, one: Any, other: Any) -> bool:
    """Of arrays of numbers that are not whole each may differ a little."""
    one, other = numpy.asarray(one), numpy.asarray(other)
    if one.shape != other.shape or one.dtype.kind != other.dtype.kind:
        return False
    if one.dtype.kind not in "fc":
        return bool(numpy.array_equal(one, other))
    return bool(numpy.allclose(one, other, rtol=RELATIVE, atol=ABSOLUTE, equal_nan=True))


def arrays_alike(one: Array, other: Array) -> bool:
    """The same without numpy."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    kind = _FLOATS.get(one.dtype)
    first, second = memoryview(one.data).cast("B"), memoryview(other.data).cast("B")
    if kind is None or sys.byteorder != "little":
        return first == second
    return all(map(near, first.cast(kind), second.cast(kind)))
