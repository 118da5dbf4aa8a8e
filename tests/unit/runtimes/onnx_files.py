"""Writes small ONNX files, field by field, so that tests need no library for it."""

from __future__ import annotations

from pathlib import Path

FLOAT, INT64, STRING = 1, 7, 8


def varint(number: int) -> bytes:
    number &= (1 << 64) - 1
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def field(number: int, value: int | str | bytes) -> bytes:
    """A number, or what has a length."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def port(name: str, kind: int, shape: tuple[int | str | None, ...] | None) -> bytes:
    """``ValueInfoProto``."""
    tensor = field(1, kind)
    if shape is not None:
        dimensions = (b"" if n is None else field(1, n) if isinstance(n, int) else field(2, n) for n in shape)
        tensor += field(2, b"".join(field(1, dimension) for dimension in dimensions))
    return field(1, name) + field(2, field(1, tensor))


def node(operator: str, inputs: list[str], outputs: list[str], *attributes: bytes) -> bytes:
    """``NodeProto``."""
    named = b"".join(field(1, name) for name in inputs) + b"".join(field(2, name) for name in outputs)
    return named + field(4, operator) + b"".join(field(5, attribute) for attribute in attributes)


def weights(name: str, shape: tuple[int, ...], *, raw: bytes | None = None, **external: object) -> bytes:
    """``TensorProto`` of floats; `external` has location, offset, length."""
    tensor = b"".join(field(1, n) for n in shape) + field(2, FLOAT) + field(8, name)
    if raw is not None:
        return tensor + field(9, raw)
    entries = (field(13, field(1, key) + field(2, str(value))) for key, value in external.items())
    return tensor + b"".join(entries) + field(14, 1)


def graph(*parts: bytes) -> bytes:
    return field(2, "small") + b"".join(parts)


def model(graph: bytes, ir_version: int = 8, **metadata: str) -> bytes:
    """``ModelProto``."""
    entries = (field(14, field(1, key) + field(2, value)) for key, value in metadata.items())
    head = field(1, ir_version) + field(2, "by hand") + field(3, "1.0")
    return head + field(7, graph) + field(8, field(1, "") + field(2, 17)) + b"".join(entries)


def identity(kind: int = FLOAT, shape: tuple[int | str | None, ...] | None = ("N",), **metadata: str) -> bytes:
    """Answers y, which is x."""
    parts = (field(1, node("Identity", ["x"], ["y"])), field(11, port("x", kind, shape)))
    return model(graph(*parts, field(12, port("y", kind, shape))), 8, **metadata)


def sums(weight: bytes, *more: bytes) -> bytes:
    """Answers y, which is x + w, for two numbers; `weight` is w."""
    parts = (field(1, node("Add", ["x", "w"], ["y"])), field(5, weight), *more, field(11, port("x", FLOAT, (2,))))
    return model(graph(*parts, field(12, port("y", FLOAT, (2,)))))


def written(path: Path, data: bytes) -> str:
    path.write_bytes(data)
    return str(path)
