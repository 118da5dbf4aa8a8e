"""The answer of a model, as ``--json`` prints it, and as people read it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lazyd.wire.values import Array, to_json

from .units import size

if TYPE_CHECKING:
    from lazyd.client import Answer


def call_reply(answer: Answer) -> dict[str, Any]:
    """The answer as the method ``Call`` of the control socket would give it (io.lazyd.varlink)."""
    reply = {"result": to_json(answer.result), "coldStart": answer.cold_start, "waitedSec": answer.waited_s}
    return reply if answer.degraded is None else {**reply, "degraded": answer.degraded}


FEW = 64
"""So many numbers are read."""
_CODES = {"f4": "f", "f8": "d", "i1": "b", "i2": "h", "i4": "i", "i8": "q", "u1": "B", "u2": "H", "u4": "I", "u8": "Q"}
"""By numpy's name for a type, without the order of its bytes."""


def for_people(value: Any) -> Any:
    """The same with small arrays as lists of numbers, and of large ones what they are."""
    if isinstance(value, dict):
        return {name: for_people(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [for_people(inner) for inner in value]
    if isinstance(value, Array):
        numbers, dtype, length = _numbers(value), value.dtype, len(value.data)
    elif hasattr(value, "dtype") and hasattr(value, "tolist"):
        numbers, dtype, length = (value.tolist() if value.size <= FEW else None), str(value.dtype), value.nbytes
    else:
        return to_json(value)
    if numbers is not None:
        return to_json(_rounded(numbers))
    shape = ",".join(map(str, value.shape))
    return f"{dtype}[{shape}]: {size(length)}, which --json or a pipe has whole"


def _numbers(array: Array) -> Any:
    """Lists of lists of its numbers; None: there are too many, or lazyctl does not know such."""
    code = _CODES.get(array.dtype.lstrip("<|="))
    flat = memoryview(array.data).cast("B")
    if code is None or flat.nbytes > FEW * int(array.dtype[-1]):
        return None
    numbers: Any = flat.cast(code).tolist()  # type: ignore[call-overload]
    for length in reversed(array.shape[1:]):
        numbers = [numbers[at : at + length] for at in range(0, len(numbers), length)] if length else []
    return numbers if array.shape else numbers[0]


def _rounded(numbers: Any) -> Any:
    """Of a number of four bytes seven digits are true, and fewer are read."""
    if isinstance(numbers, list):
        return [_rounded(number) for number in numbers]
    return float(f"{numbers:.6g}") if isinstance(numbers, float) else numbers
