"""Arguments of a warm-up: a table that stands for an array, a file's contents or a long text is made that.

| a table with | becomes |
|---|---|
| `shape` (`dtype`, `fill`) | an array; of a list of shapes the calls take one after the other |
| `file` | an array (``.npy``), a text (``.txt``) or a value (``.json``) |
| `tokens` (`text`) | a text of about so many tokens; ``max_seq_len``: of as many as the model takes |

Where there is no numpy an array is one of `wire.values`. `fill` is ``zeros``, ``ones``, a number, or ``random``:
from 0 to 1, whole numbers from 0 to 127, the same in every warm-up. `lazyd.config.recipes` has checked what can be
checked without the model.
"""

from __future__ import annotations

import json
import math
import random
import struct
from functools import partial
from typing import TYPE_CHECKING, Any

from ..wire.values import Array

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import ModuleType
    from typing import Union

    TextOf = Callable[[str, Union[int, str]], str]
    """A text that repeats some words until it has so many tokens."""

MOST_RANDOM = 127
"""Every dtype of whole numbers can hold it."""
CODES = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "uint8": "B",
    "uint16": "H",
    "uint32": "I",
    "uint64": "Q",
    "float16": "e",
    "float32": "f",
    "float64": "d",
    "complex64": "f",
    "complex128": "d",
}
"""How `struct` packs an element, or half of one that is complex."""
AT_ONCE = 65536
"""So many elements are packed at once."""


def made(value: Any, call: int, text_of: TextOf) -> Any:
    """The value for a call (from 0), with what its recipes stand for. Raises `OSError`, `ValueError`."""
    return Maker(call, text_of).made(value)


class Maker:
    """Makes the arguments of one call."""

    def __init__(self, call: int, text_of: TextOf) -> None:
        self._call = call
        self._text_of = text_of
        self._numpy = _numpy()
        self._random: Any = None

    def made(self, value: Any) -> Any:
        if isinstance(value, dict):
            if "shape" in value:
                return self._array(value)
            if "file" in value:
                return self._contents(value["file"])
            if "tokens" in value:
                return self._text_of(value.get("text", "a"), value["tokens"])
            return {name: self.made(item) for name, item in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.made(item) for item in value]
        return value

    def _array(self, recipe: dict[str, Any]) -> Any:
        shape, dtype, fill = recipe["shape"], recipe.get("dtype", "float32"), recipe.get("fill", "zeros")
        if shape and isinstance(shape[0], (list, tuple)):
            shape = shape[self._call % len(shape)]
        if dtype not in CODES:
            raise ValueError(f"{dtype!r} is no dtype")
        if self._numpy is not None:
            return self._numpy_array(shape, dtype, fill)
        return Array(self._packed(math.prod(shape), dtype, fill), _spelled(dtype), shape)

    def _numpy_array(self, shape: Sequence[int], dtype: str, fill: Any) -> Any:
        numpy: Any = self._numpy
        if fill != "random":
            return numpy.full(shape, _number(fill), dtype)
        self._random = self._random or numpy.random.default_rng(self._call)
        if numpy.dtype(dtype).kind in "iub":
            most = 1 if dtype == "bool" else MOST_RANDOM
            return self._random.integers(0, most, shape, endpoint=True).astype(dtype)
        if dtype.startswith("complex"):
            return (self._random.random(shape) + 1j * self._random.random(shape)).astype(dtype)
        return self._random.random(shape).astype(dtype)

    def _packed(self, count: int, dtype: str, fill: Any) -> bytes:
        """Elements as bytes, where there is no numpy."""
        is_complex, code = dtype.startswith("complex"), CODES[dtype]
        is_whole = code not in "efd"
        if fill != "random":
            number = _number(fill)
            one = struct.pack(f"<{code}", int(number) if is_whole else number)
            return (one + bytes(len(one)) * is_complex) * count
        self._random = self._random or random.Random(self._call)
        most = 1 if dtype == "bool" else MOST_RANDOM
        draw = partial(self._random.randint, 0, most) if is_whole else self._random.random
        left, parts = count * (1 + is_complex), []
        while left:
            n = min(left, AT_ONCE)
            parts.append(struct.pack(f"<{n}{code}", *(draw() for _ in range(n))))
            left -= n
        return b"".join(parts)

    def _contents(self, path: str) -> Any:
        if path.endswith(".npy"):
            if self._numpy is None:
                raise ValueError(f"{path} cannot be read: there is no numpy here")
            return self._numpy.load(path, allow_pickle=False)
        with open(path, encoding="utf-8") as file:
            return json.load(file) if path.endswith(".json") else file.read()


def _number(fill: Any) -> Any:
    if isinstance(fill, (int, float)):
        return fill
    try:
        return {"zeros": 0, "ones": 1}[fill]
    except (KeyError, TypeError):
        raise ValueError(f"{fill!r} is no fill") from None


def _spelled(dtype: str) -> str:
    """As numpy spells it in full: ``<f4``."""
    size = struct.calcsize(f"<{CODES[dtype]}") * (2 if dtype.startswith("complex") else 1)
    return f"{'|' if size == 1 else '<'}{dtype[0]}{size}"


def _numpy() -> ModuleType | None:
    try:
        import numpy
    except ImportError:
        return None
    return numpy
