"""Recipes of arguments: a table that stands for an array, a file's contents or a long text.

| a table with | stands for | other keys |
|---|---|---|
| `shape` | an array; a list of shapes is used in turn, one a call | `dtype`, `fill` |
| `file` | an array (``.npy``), a text (``.txt``) or a value (``.json``) | |
| `tokens` | a text of at least so many tokens, ``"max_seq_len"``: of as many as the model takes | `text` |

Other tables, and lists, are searched for recipes. What is checked here stays as it was written,
but for paths, which become absolute; arrays and texts are made where the model is.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from .compounds import json_faults
from .given import described, short
from .kinds import Path
from .problems import Fault, KeyPath, Wrong, choose, nearest, quoted
from .quantities import show_size

MAX_BYTES = 2**30
"""Of all arrays of one warm-up together."""
MAX_DIMENSIONS = 32
MAX_SHAPES = 100
MAX_TOKENS = 10_000_000
AS_MANY_AS_IT_TAKES = "max_seq_len"
FILLS = ("zeros", "ones", "random")
ENDINGS = (".npy", ".txt", ".json")

DTYPES = {
    "bool": 1,
    "int8": 1,
    "int16": 2,
    "int32": 4,
    "int64": 8,
    "uint8": 1,
    "uint16": 2,
    "uint32": 4,
    "uint64": 8,
    "float16": 2,
    "float32": 4,
    "float64": 8,
    "complex64": 8,
    "complex128": 16,
}
"""Bytes of an element, by numpy's name."""
DEFAULT_DTYPE = "float32"
_LARGEST = {"float16": 65504.0, "float32": 3.4028234663852886e38, "complex64": 3.4028234663852886e38}


class Found(NamedTuple):
    """A recipe, and where in the value it stands."""

    below: KeyPath
    recipe: dict[str, Any]


def read(value: object, base: str) -> Any:
    """The value with the paths of its recipes made absolute. Raises `Wrong` with all that is wrong."""
    faults = json_faults(value)
    if faults:
        raise Wrong(*faults)
    for found in find(value):
        faults += _faults(found)
    if faults:
        raise Wrong(*faults)
    return _absolute(value, base)


def find(value: object, below: KeyPath = ()) -> Iterator[Found]:
    """All recipes in a value."""
    if is_recipe(value):
        assert isinstance(value, dict)
        yield Found(below, value)
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from find(item, (*below, name))
    elif isinstance(value, list | tuple):
        for number, item in enumerate(value):
            yield from find(item, (*below, str(number)))


def is_recipe(value: object) -> bool:
    return isinstance(value, dict) and any(name in value for name in _CHECKS)


def size_bytes(value: object) -> int:
    """Of all arrays that a value's recipes make, each shape once. The recipes must be right."""
    return sum(
        math.prod(shape) * DTYPES[found.recipe.get("dtype", DEFAULT_DTYPE)]
        for found in find(value)
        if "shape" in found.recipe
        for shape in shapes(found.recipe["shape"])
    )


def shapes(written: list[Any]) -> list[list[int]]:
    """A shape, or a list of shapes, as a list of shapes."""
    return written if isinstance(written[0], list) else [written]


def _faults(found: Found) -> Iterator[Fault]:
    recipe = found.recipe
    kind = next(name for name in _CHECKS if name in recipe)
    others, check = _CHECKS[kind]
    valid = (kind, *others)
    for name in recipe:
        if name not in valid:
            near = None if name in _CHECKS else nearest(name, valid)
            remedy = f"did you mean {near}?" if near else f"valid: {', '.join(valid)}"
            yield Fault(f"unknown key beside {kind}", remedy, (*found.below, name))
    for fault in check(recipe):
        yield fault._replace(below=(*found.below, *fault.below))


def _array_faults(recipe: dict[str, Any]) -> Iterator[Fault]:
    dtype = recipe.get("dtype", DEFAULT_DTYPE)
    known = isinstance(dtype, str) and dtype in DTYPES
    if not known:
        remedy = choose(dtype, DTYPES) if isinstance(dtype, str) else 'write it as "float32"'
        yield Fault(f"{short(dtype) if isinstance(dtype, str) else described(dtype)} is no dtype", remedy, ("dtype",))
    wrong = list(_shape_faults(recipe["shape"]))
    yield from wrong
    if known and not wrong:
        size = size_bytes({"shape": recipe["shape"], "dtype": dtype})
        if size > MAX_BYTES:
            what = f"arrays of {_rounded(size)}"
            yield Fault(what, f"make them smaller: at most {show_size(MAX_BYTES)} in all", ("shape",))
    if known and "fill" in recipe and (fault := _fill_fault(recipe["fill"], dtype)):
        yield fault


def _shape_faults(written: object) -> Iterator[Fault]:
    if not isinstance(written, list):
        what = f"expected a list of whole numbers, not {described(written)}"
        yield Fault(what, "write it as [1, 3, 640, 640]", ("shape",))
    elif not written:
        yield Fault("an empty shape", "write a single number as it is, as sr = 16000", ("shape",))
    elif not any(isinstance(item, list) for item in written):
        yield from _one_shape(written, "")
    elif len(written) > MAX_SHAPES:
        yield Fault(f"{len(written)} shapes", f"write at most {MAX_SHAPES}", ("shape",))
    else:
        for number, shape in enumerate(written, 1):
            where = f"shape {number}: "
            if isinstance(shape, list) and shape:
                yield from _one_shape(shape, where)
            else:
                yield Fault(f"{where}expected a list of whole numbers", "write [[1, 3, 32, 32], …]", ("shape",))


def _one_shape(shape: list[Any], where: str) -> Iterator[Fault]:
    if len(shape) > MAX_DIMENSIONS:
        yield Fault(f"{where}{len(shape)} dimensions", f"write at most {MAX_DIMENSIONS}", ("shape",))
    for length in shape:
        if not isinstance(length, int) or isinstance(length, bool) or length < 1:
            yield Fault(f"{where}{described(length)} is no length", "write whole numbers of 1 or more", ("shape",))
            return


def _fill_fault(fill: object, dtype: str) -> Fault | None:
    if isinstance(fill, str):
        if fill in FILLS:
            return None
        return Fault(f"{quoted(fill)} is no fill", choose(fill, (*FILLS, "a number")), ("fill",))
    if not isinstance(fill, int | float) or (isinstance(fill, bool) and dtype != "bool"):
        return Fault(f"{described(fill)} is no fill", f"write {', '.join(FILLS)} or a number", ("fill",))
    if _fits(fill, dtype):
        return None
    return Fault(f"{short(fill)} does not fit into {dtype}", "write a number that does, or another dtype", ("fill",))


def _fits(fill: float, dtype: str) -> bool:
    if dtype == "bool":
        return fill in (0, 1)
    if dtype.startswith(("int", "uint")):
        bits = 8 * DTYPES[dtype]
        least, most = (0, 2**bits - 1) if dtype.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        return fill == int(fill) and least <= fill <= most
    return abs(fill) <= _LARGEST.get(dtype, math.inf)


def _file_faults(recipe: dict[str, Any]) -> Iterator[Fault]:
    try:
        path = Path().read(recipe["file"], "/")
    except Wrong as wrong:
        yield from (fault._replace(below=("file",)) for fault in wrong.faults)
        return
    if os.path.splitext(path)[1] not in ENDINGS:
        yield Fault(f"{quoted(path)} is not read", f"name a file that ends in {', '.join(ENDINGS)}", ("file",))


def _text_faults(recipe: dict[str, Any]) -> Iterator[Fault]:
    tokens = recipe["tokens"]
    remedy = f"write 1 to {MAX_TOKENS}, or {quoted(AS_MANY_AS_IT_TAKES)}"
    if isinstance(tokens, bool) or not isinstance(tokens, int | str):
        yield Fault(f"expected a number of tokens, not {described(tokens)}", remedy, ("tokens",))
    elif tokens != AS_MANY_AS_IT_TAKES and (isinstance(tokens, str) or not 1 <= tokens <= MAX_TOKENS):
        yield Fault(f"{short(tokens)} is no number of tokens", remedy, ("tokens",))
    text = recipe.get("text", "a")
    if not isinstance(text, str) or not text.strip():
        yield Fault("expected words to repeat", 'write text = "word"', ("text",))


_CHECKS: dict[str, tuple[tuple[str, ...], Callable[[dict[str, Any]], Iterable[Fault]]]] = {
    "shape": (("dtype", "fill"), _array_faults),
    "file": ((), _file_faults),
    "tokens": (("text",), _text_faults),
}
"""What makes a table a recipe: its other keys, and what checks it. The first that stands there counts."""


def _absolute(value: Any, base: str) -> Any:
    if is_recipe(value):
        return {**value, "file": Path().read(value["file"], base)} if "file" in value else dict(value)
    if isinstance(value, dict):
        return {name: _absolute(item, base) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_absolute(item, base) for item in value]
    return value


def _rounded(size: int) -> str:
    return f"{size / 2**30:.1f}GiB" if size < 2**50 else "more than a pebibyte"
