"""Files of Paddle made by hand, without Paddle."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

FLOAT32, INT64 = 5, 3


def number(value: int) -> bytes:
    """A varint."""
    value &= 0xFFFFFFFFFFFFFFFF
    data = b""
    while value > 0x7F:
        data += bytes([value & 0x7F | 0x80])
        value >>= 7
    return data + bytes([value])


def field(key: int, value: int | bytes | str) -> bytes:
    if isinstance(value, int):
        return number(key << 3) + number(value)
    data = value.encode() if isinstance(value, str) else value
    return number(key << 3 | 2) + number(len(data)) + data


def tensor(dtype: int, *shape: int) -> bytes:
    return field(1, dtype) + b"".join(field(2, length) for length in shape)


def variable(name: str, dtype: int, *shape: int) -> bytes:
    kind = field(1, 7) + field(3, field(1, tensor(dtype, *shape)))
    return field(3, field(1, name) + field(2, kind))


def operation(kind: str, read: str = "", written: str = "", column: int = 0) -> bytes:
    ends = [(1, "X", read), (2, "Out", written)]
    data = b"".join(field(key, field(1, name) + field(2, argument)) for key, name, argument in ends if argument)
    attribute = field(1, "col") + field(2, 0) + field(3, column)
    return field(4, data + field(3, kind) + field(4, attribute))


def program() -> bytes:
    """Two inputs, fed in another order than they are declared in, and one output."""
    block = [
        field(1, 0),
        field(2, -1),
        variable("image", FLOAT32, -1, 3, 48, -1),
        variable("size", INT64, -1, 2),
        variable("answer", FLOAT32, -1, 10),
        operation("feed", "feed", "size", 1),
        operation("feed", "feed", "image", 0),
        operation("conv2d", "image", "answer"),
        operation("fetch", "answer", "fetch", 0),
    ]
    return field(1, b"".join(block)) + field(4, field(1, 0))


def parameters(*tensors: tuple[int, ...]) -> bytes:
    """Tensors of float32 of these shapes."""
    data = b""
    for shape in tensors:
        described = tensor(FLOAT32, *shape)
        count = 1
        for length in shape:
            count *= length
        data += struct.pack("<IQIi", 0, 0, 0, len(described)) + described + bytes(4 * count)
    return data


def program_as_json() -> bytes:
    def port(kind: str, name: str, dtype: str, shape: list[int]) -> dict[str, Any]:
        attributes = [{"N": "name", "AT": {"#": "0.a_str", "D": name}}]
        return {
            "#": kind,
            "A": attributes,
            "O": [{"%": 1, "TT": {"#": "0.t_dtensor", "D": [{"#": dtype}, shape, "NCHW"]}}],
        }

    operations = [
        {"#": "p", "A": [0, 1, 1, "w"], "O": {"%": 1}},
        port("1.data", "x", "0.t_f32", [-1, 4]),
        {"#": "1.matmul", "A": [], "O": []},
        port("1.fetch", "fetch_name_0", "0.t_f32", [-1, 3]),
    ]
    regions = [{"#": "region_0", "blocks": [{"#": "block_0", "ops": operations}]}]
    return json.dumps({"base_code": {"magic": "pir", "version": 4}, "program": {"regions": regions}}).encode()


def model(folder: Path, name: str = "inference", ending: str = ".pdmodel") -> Path:
    """A model with 1000 numbers. Its program."""
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.pdiparams").write_bytes(parameters((10, 90), (100,)))
    path = folder / f"{name}{ending}"
    path.write_bytes(program_as_json() if ending == ".json" else program())
    return path
