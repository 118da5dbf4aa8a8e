"""Values in calls and answers: JSON, and what JSON cannot say.

| value         | data socket                                            | control socket            |
|---------------|--------------------------------------------------------|---------------------------|
| numpy array   | ``{"$array": 0, "dtype": "<f4", "shape": [1, 3]}``     | ``"$array"`` is base64    |
| bytes         | ``{"$bytes": 1}``                                      | ``"$bytes"`` is base64    |
| nan, inf      | ``{"$float": "nan"}``, ``"inf"``, ``"-inf"``           | the same                  |

The numbers count the buffers that follow the header. A dict of the user's that looks like one of
these travels as ``{"$dict": {…}}``. Tuples arrive as lists, keys as text. Never pickle: what
arrives here may come from another user.

Without numpy an array arrives as an `Array`, and an `Array` may be sent.
"""

from __future__ import annotations

import base64
import binascii
import math
import sys
from typing import TYPE_CHECKING, Any

from ..errors import BadFrame, NotSendable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Union

    Buffer = Union[bytes, bytearray, memoryview]
    """Raw bytes of one array or one bytes object."""

_PLAINLY: dict[type, Callable[[Any], Any]] = {
    str: str.__str__,  # `str()` of an enum's member is its name
    int: int,
    float: float,
    list: list,
    tuple: tuple,
    dict: dict,
    bytes: bytes,
}
"""Subclasses, as members of enums and named tuples are, travel as what they are based on."""
MARKS = frozenset({"$array", "$bytes", "$float", "$dict"})
_FLOATS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
_KINDS = "biufcmMSU"
"""The kinds of numpy types that are plain bytes: no objects, no records."""


class Array:
    """An array where there is no numpy: its bytes in C order, with numpy's words for their meaning."""

    def __init__(self, data: Buffer, dtype: str, shape: Sequence[int]) -> None:
        self.data = data
        self.dtype = dtype
        self.shape = tuple(shape)

    def __repr__(self) -> str:
        return f"Array({len(self.data)} bytes, dtype={self.dtype!r}, shape={self.shape})"


def pack(value: Any) -> tuple[Any, list[Buffer]]:
    """The form for data sockets: JSON, and the buffers it refers to.

    The buffers are the caller's own memory, not copies (an array that is not contiguous is
    copied). Raises `NotSendable`.
    """
    buffers: list[Buffer] = []

    def place(data: Buffer) -> int:
        buffers.append(data)
        return len(buffers) - 1

    return _lower(value, place), buffers


def unpack(value: Any, buffers: Sequence[Buffer]) -> Any:
    """The value that `pack` was given. Arrays are views of `buffers`. Raises `BadFrame`."""

    def take(reference: Any) -> Buffer:
        return _buffer(reference, buffers)

    return _lift(value, take)


def to_json(value: Any) -> Any:
    """The form for the control socket: JSON alone. Raises `NotSendable`."""
    return _lower(value, _to_base64)


def from_json(value: Any) -> Any:
    """The value that `to_json` was given. Raises `BadFrame`."""
    return _lift(value, _from_base64)


def to_buffers(value: Any) -> tuple[Any, list[Buffer]]:
    """From the control socket's form to that of data sockets, making no arrays. Raises `BadFrame`."""
    buffers: list[Buffer] = []

    def place(reference: Any) -> int:
        buffers.append(_from_base64(reference))
        return len(buffers) - 1

    return _replace(value, place), buffers


def to_base64(value: Any, buffers: Sequence[Buffer]) -> Any:
    """From the data sockets' form to that of the control socket. Raises `BadFrame`."""
    return _replace(value, lambda reference: _to_base64(_buffer(reference, buffers)))


def _lower(value: Any, place: Callable[[Buffer], Any]) -> Any:
    try:
        return _lowered(value, place)
    except RecursionError:
        raise NotSendable(reason="it contains itself, or is nested too deeply") from None


# The functions that call themselves are no closures: such a closure holds itself, and with it the
# buffers, until a collection, and a model that answers gigabytes makes so few objects that none comes.


def _lowered(value: Any, place: Callable[[Buffer], Any]) -> Any:
    kind = type(value)
    if value is None or kind is str or kind is int or kind is bool:
        return value
    if kind is float:
        return value if math.isfinite(value) else {"$float": repr(value)}
    if kind is list or kind is tuple:
        return [_lowered(item, place) for item in value]
    if kind is dict:
        plain = {_key(key): _lowered(item, place) for key, item in value.items()}
        return plain if MARKS.isdisjoint(plain) else {"$dict": plain}
    if kind is bytes or kind is bytearray or kind is memoryview:
        return {"$bytes": place(_flat(value))}
    if kind is Array:
        return {"$array": place(_flat(value.data)), "dtype": value.dtype, "shape": list(value.shape)}
    return _lowered_rare(value, place)


def _lowered_rare(value: Any, place: Callable[[Buffer], Any]) -> Any:
    numpy = sys.modules.get("numpy")  # not imported: nothing can be an array
    if numpy is not None:
        if isinstance(value, numpy.ndarray):
            return _lower_array(numpy, value, place)
        if isinstance(value, numpy.generic):
            plain = value.item()
            if type(plain) in (bool, int, float, str, bytes):
                return _lowered(plain, place)
            return _lower_array(numpy, numpy.asarray(value), place)  # complex, dates
    for kind, plainly in _PLAINLY.items():
        if isinstance(value, kind):
            return _lowered(plainly(value), place)
    raise NotSendable(reason=f"{type(value).__module__}.{type(value).__qualname__} is not of a known kind")


def _key(key: Any) -> str:
    if isinstance(key, str):
        return str.__str__(key)
    if isinstance(key, (int, float)) and not isinstance(key, bool):
        return str(key)
    raise NotSendable(reason=f"{key!r} cannot be a key; keys are text")


def _flat(data: Buffer) -> Buffer:
    if not isinstance(data, memoryview):
        return data
    return data.cast("B") if data.contiguous and data.nbytes else bytes(data)


def _lower_array(numpy: Any, array: Any, place: Callable[[Buffer], Any]) -> dict[str, Any]:
    if array.dtype.kind not in _KINDS:
        raise NotSendable(reason=f"an array of type {array.dtype} is not plain numbers or text")
    shape = list(array.shape)
    flat = numpy.ascontiguousarray(array).reshape(-1)
    data = flat.view(numpy.uint8).data if flat.nbytes else b""
    return {"$array": place(data), "dtype": array.dtype.str, "shape": shape}


def _lift(value: Any, take: Callable[[Any], Buffer]) -> Any:
    try:
        return _lifted(value, take)
    except RecursionError:
        raise BadFrame(reason="a value is nested too deeply") from None


def _lifted(value: Any, take: Callable[[Any], Buffer]) -> Any:
    if type(value) is list:
        return [_lifted(item, take) for item in value]
    if type(value) is not dict:
        return value
    if "$array" in value:
        return _array(take(value["$array"]), value.get("dtype"), value.get("shape"))
    if "$bytes" in value:
        return bytes(take(value["$bytes"]))
    if "$float" in value:
        return _float(value["$float"])
    if "$dict" in value:
        value = value["$dict"]
        if type(value) is not dict:
            raise BadFrame(reason="a $dict is not an object")
    return {key: _lifted(item, take) for key, item in value.items()}


def _float(name: Any) -> float:
    if type(name) is not str or name not in _FLOATS:
        raise BadFrame(reason=f"{name!r} is no $float")
    return _FLOATS[name]


def _array(data: Buffer, dtype: Any, shape: Any) -> Any:
    if type(shape) is not list or not all(type(size) is int and size >= 0 for size in shape):
        raise BadFrame(reason=f"{shape!r} is not the shape of an array")
    if type(dtype) is not str:
        raise BadFrame(reason=f"{dtype!r} is not the type of an array")
    try:
        import numpy
    except ImportError:
        return Array(data, dtype, shape)
    try:
        kind = numpy.dtype(dtype)
    except (TypeError, ValueError):
        raise BadFrame(reason=f"{dtype!r} is not the type of an array") from None
    if kind.kind not in _KINDS or not kind.itemsize or math.prod(shape) * kind.itemsize != len(data):
        raise BadFrame(reason=f"{len(data)} bytes are not an array {shape} of {dtype}")
    if not len(data):
        return numpy.empty(shape, kind)
    return numpy.frombuffer(data, kind).reshape(shape)


def _replace(value: Any, swap: Callable[[Any], Any]) -> Any:
    try:
        return _replaced(value, swap)
    except RecursionError:
        raise BadFrame(reason="a value is nested too deeply") from None


def _replaced(value: Any, swap: Callable[[Any], Any]) -> Any:
    if type(value) is list:
        return [_replaced(item, swap) for item in value]
    if type(value) is not dict:
        return value
    for mark in ("$array", "$bytes"):
        if mark in value:
            return {**value, mark: swap(value[mark])}
    if type(value.get("$dict")) is dict:
        return {"$dict": {key: _replaced(item, swap) for key, item in value["$dict"].items()}}
    return {key: _replaced(item, swap) for key, item in value.items()}


def _buffer(reference: Any, buffers: Sequence[Buffer]) -> Buffer:
    if type(reference) is not int or not 0 <= reference < len(buffers):
        raise BadFrame(reason=f"there is no buffer {reference!r}")
    return buffers[reference]


def _to_base64(data: Buffer) -> str:
    return binascii.b2a_base64(data, newline=False).decode()


def _from_base64(text: Any) -> bytearray:
    try:
        return bytearray(base64.b64decode(text, validate=True))  # else what is damaged is skipped
    except (TypeError, ValueError) as error:
        raise BadFrame(reason=f"bytes that are not base64 ({error})") from None
