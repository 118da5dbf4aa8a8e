"""What a Paddle model says of itself, without Paddle: what goes in and comes out, and whether its parameters are whole.

- ``.pdmodel`` is a protocol buffer (``framework.proto``: ProgramDesc), ``.json`` the program as Paddle 3 writes it
- ``.pdiparams`` is one tensor after the other: a head, its type and shape as a protocol buffer, its numbers
"""

from __future__ import annotations

import json
import math
import os
import struct
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from .arrays import Port
from .paddle_files import WHAT
from .protobuf import BYTES, Damaged, Message

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .paddle_files import Files

_MOST_JSON = 256 << 20
_TYPES = {
    0: ("bool", 1),
    1: ("int16", 2),
    2: ("int32", 4),
    3: ("int64", 8),
    4: ("float16", 2),
    5: ("float32", 4),
    6: ("float64", 8),
    20: ("uint8", 1),
    21: ("int8", 1),
    22: ("bfloat16", 2),
    23: ("complex64", 8),
    24: ("complex128", 16),
    32: ("float8_e4m3fn", 1),
    33: ("float8_e5m2", 1),
}
"""By ``VarType.Type``: its name, and bytes of an element."""
_JSON_TYPES = {
    "0.t_bool": "bool",
    "0.t_i8": "int8",
    "0.t_ui8": "uint8",
    "0.t_i16": "int16",
    "0.t_i32": "int32",
    "0.t_i64": "int64",
    "0.t_f16": "float16",
    "0.t_bf16": "bfloat16",
    "0.t_f32": "float32",
    "0.t_f64": "float64",
    "0.t_c64": "complex64",
    "0.t_c128": "complex128",
}
_TENSOR = struct.Struct("<IQ")
"""Of a tensor in the file of parameters: version, and levels of detail, of which there are none."""
_DESCRIBED = struct.Struct("<Ii")
"""Version, bytes of the description."""
_LONGEST_DESCRIPTION = 4096


class _Program(NamedTuple):
    """What one file says."""

    format: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    operations: int


class Head(NamedTuple):
    """What the two files say."""

    format: str
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    operations: int
    program_bytes: int
    parameter_bytes: int
    parameters: int
    """Numbers in all tensors."""


def read(files: Files) -> Head:
    """Raises `OSError`, and `ValueError` with one clear line for what is no such model, or is cut short."""
    size = os.path.getsize(files.program)
    with open(files.program, "rb") as file:
        is_json = file.read(1) == b"{"
        file.seek(0)
        if is_json != files.program.endswith(".json"):
            raise ValueError(f"{files.program} is not {WHAT}, or has another one's name")
        try:
            program = _json(file, size) if is_json else _protobuf(file, size)
        except (KeyError, IndexError, TypeError, AttributeError, ValueError, RecursionError) as error:
            why = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
            raise ValueError(f"{files.program} is not {WHAT}, or is truncated: {why}") from None
    numbers = _whole(files.parameters)
    return Head(*program, size, os.path.getsize(files.parameters), numbers)


def _protobuf(file: BinaryIO, size: int) -> _Program:
    """The first block has the variables and what is fed and fetched."""
    program = Message(file, size)
    for field in program:
        if field.number == 1:
            return _block(program.inside(field))
    raise Damaged("it has no block")


def _block(block: Message) -> _Program:
    variables: dict[str, Port] = {}
    fed: list[tuple[int, str]] = []
    fetched: list[tuple[int, str]] = []
    operations = 0
    for field in block:
        if field.number == 3:
            port = _variable(block.inside(field))
            variables[port.name] = port
        elif field.number == 4:
            operations += 1
            kind, column, read, written = _operation(block.inside(field))
            if kind == "feed":
                fed += ((column, name) for name in written)
            elif kind == "fetch":
                fetched += ((column, name) for name in read)
    if not fetched:
        raise Damaged("nothing comes out of it")
    inputs, outputs = (tuple(variables[name] for _, name in sorted(ends)) for ends in (fed, fetched))
    return _Program("Paddle program (protobuf)", inputs, outputs, operations - len(fed) - len(fetched))


def _variable(message: Message) -> Port:
    name, dtype, shape = "", None, None
    for field in message:
        if field.number == 1:
            name = message.text(field)
        elif field.number == 2:
            for path in _down(message.inside(field), (3, 1)):
                dtype, shape = _tensor(path)
    return Port(name, dtype, shape)


def _down(message: Message, numbers: tuple[int, ...]) -> Iterator[Message]:
    """The messages that a chain of fields leads to."""
    if not numbers:
        yield message
        return
    for field in message:
        if field.number == numbers[0] and field.kind == BYTES:
            yield from _down(message.inside(field), numbers[1:])


def _tensor(message: Message) -> tuple[str | None, tuple[int | None, ...]]:
    number, lengths = _described(message)
    return _TYPES.get(number, (None, 0))[0], tuple(None if n < 0 else n for n in lengths)


def _described(message: Message) -> tuple[int, list[int]]:
    """Of a tensor: its type, and its shape."""
    number, lengths = -1, []
    for field in message:
        if field.number == 1:
            number = field.value
        elif field.number == 2:
            lengths += message.numbers(field)
    return number, lengths


def _operation(message: Message) -> tuple[str, int, list[str], list[str]]:
    """Kind, column, what it reads and writes; of others than feed and fetch nobody asks for more than the kind."""
    kind, column = "", 0
    ends: dict[int, list[str]] = {1: [], 2: []}
    for field in message:
        if field.number in ends:
            inside = message.inside(field)
            ends[field.number] += [inside.text(each) for each in inside if each.number == 2]
        elif field.number == 3:
            kind = message.text(field)
        elif field.number == 4:
            column = _column(message.inside(field), column)
    return kind, column, ends[1], ends[2]


def _column(attribute: Message, before: int) -> int:
    name, value = "", before
    for field in attribute:
        if field.number == 1:
            name = attribute.text(field)
        elif field.number == 3 and not field.kind:
            value = field.value
    return value if name == "col" else before


def _json(file: BinaryIO, size: int) -> _Program:
    if size > _MOST_JSON:
        raise ValueError(f"{size} bytes are too many to look at")
    whole = json.loads(file.read())
    if whole["base_code"]["magic"] != "pir":
        raise ValueError("it does not begin as one")
    operations = whole["program"]["regions"][0]["blocks"][0]["ops"]
    inputs = tuple(_json_port(each) for each in operations if each["#"] == "1.data")
    outputs = tuple(_json_port(each) for each in operations if each["#"] == "1.fetch")
    if not outputs:
        raise ValueError("nothing comes out of it")
    other = sum(each["#"] not in ("p", "1.data", "1.fetch") for each in operations)
    return _Program(f"Paddle program (JSON, version {whole['base_code'].get('version')})", inputs, outputs, other)


def _json_port(operation: dict[str, Any]) -> Port:
    name = next(each["AT"]["D"] for each in operation["A"] if each["N"] == "name")
    dtype, lengths, *_ = operation["O"][0]["TT"]["D"] if isinstance(operation["O"], list) else operation["O"]["TT"]["D"]
    return Port(str(name), _JSON_TYPES.get(dtype["#"]), tuple(None if n < 0 else int(n) for n in lengths))


def _whole(path: str) -> int:
    """How many numbers a file of parameters has. Raises `ValueError` if it is truncated, or is no such file."""
    size, numbers = os.path.getsize(path), 0
    try:
        with open(path, "rb") as file:
            while file.tell() < size:
                numbers += _skip_tensor(file, size)
    except (struct.error, Damaged, OverflowError) as error:
        raise ValueError(f"{path} has no parameters of Paddle, or is truncated: {error}") from None
    return numbers


def _skip_tensor(file: BinaryIO, size: int) -> int:
    """Goes to the end of a tensor; how many numbers it has."""
    version, levels = _TENSOR.unpack(file.read(_TENSOR.size))
    second, length = _DESCRIBED.unpack(file.read(_DESCRIBED.size))
    if version or levels or second or not 0 < length <= _LONGEST_DESCRIPTION:
        raise Damaged("a tensor does not begin as one")
    end = file.tell() + length
    if end > size:
        raise Damaged("it ends in the middle of a tensor")
    number, lengths = _described(Message(file, end))
    if number not in _TYPES or any(n < 0 for n in lengths):
        raise Damaged(f"a tensor is of type {number} and shape {lengths[:8]}")
    count = math.prod(lengths)
    after = end + count * _TYPES[number][1]
    if after > size:
        raise Damaged("it ends in the middle of a tensor")
    file.seek(after)
    return count
