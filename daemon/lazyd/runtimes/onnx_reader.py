"""Reads what an ONNX file says of itself from the protocol buffer that it is: ``ModelProto`` of ``onnx.proto``.

The numbers of fields are from there. Weights are counted and not read. A damaged file costs no more than a large
model: so many fields are looked at, and so many bytes of names kept.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from . import protobuf
from .arrays import TEXT, Port
from .protobuf import BYTES, Damaged, Field, Message

if TYPE_CHECKING:
    from collections.abc import Iterator

_Value = TypeVar("_Value")

MOST_FIELDS = 1_000_000
MOST_TEXT = 1 << 26
DEEPEST = 16
"""So many graphs may be within each other."""
MOST_WHOLE = 4096
"""Entries that are kept of any list: inputs, opsets, metadata, files, dimensions."""

TYPES = {
    1: ("float32", 32),
    2: ("uint8", 8),
    3: ("int8", 8),
    4: ("uint16", 16),
    5: ("int16", 16),
    6: ("int32", 32),
    7: ("int64", 64),
    8: (TEXT, 0),
    9: ("bool", 8),
    10: ("float16", 16),
    11: ("float64", 64),
    12: ("uint32", 32),
    13: ("uint64", 64),
    14: ("complex64", 64),
    15: ("complex128", 128),
    16: ("bfloat16", 16),
    17: ("float8e4m3fn", 8),
    18: ("float8e4m3fnuz", 8),
    19: ("float8e5m2", 8),
    20: ("float8e5m2fnuz", 8),
    21: ("uint4", 4),
    22: ("int4", 4),
    23: ("float4e2m1", 4),
}
"""By ``TensorProto.DataType``: its name, and bits of an element."""
_WEIGHTS = frozenset({4, 5, 6, 7, 9, 10, 11})
"""Fields of ``TensorProto`` that hold elements."""
_EXTERNAL = 1
"""``TensorProto.DataLocation``: the weights are in a file of their own."""


@dataclass
class Head:
    """What a file says."""

    ir_version: int = 0
    producer: str = ""
    opsets: dict[str, int] = field(default_factory=dict)
    """Versions of sets of operators, by domain; ``ai.onnx`` is ONNX's own."""
    metadata: dict[str, str] = field(default_factory=dict)
    graph: str = ""
    inputs: list[Port] = field(default_factory=list)
    outputs: list[Port] = field(default_factory=list)
    nodes: int = 0
    parameters: int = 0
    """Numbers in all weights."""
    bytes_by_type: dict[str, int] = field(default_factory=dict)
    """Of the weights, wherever they are."""
    external: dict[str, int] = field(default_factory=dict)
    """Files beside it, by their names as they stand in the model, and how long they must be at least."""

    @property
    def weight_bytes(self) -> int:
        return sum(self.bytes_by_type.values())


class Reader:
    """Fills a head, message by message. What is in graphs of nodes counts like what is in the model's own."""

    def __init__(self, model: Message) -> None:
        self._model = model
        self._fields_left, self._text_left = MOST_FIELDS, MOST_TEXT
        self._weights: set[str] = set()
        self.head = Head()
        self.has_graph = False

    def _fields(self, message: Message) -> Iterator[Field]:
        for found in message:
            self._spend(1)
            yield found

    def _spend(self, fields: int) -> None:
        self._fields_left -= fields
        if self._fields_left < 0:
            raise Damaged(f"it has more than {MOST_FIELDS} fields")

    def _text(self, message: Message, found: Field) -> str:
        """One that is too long to be kept is told as its length."""
        if found.kind == BYTES and found.value > protobuf.MOST_TEXT:
            return f"({found.value} bytes)"
        self._text_left -= found.value if found.kind == BYTES else 0
        if self._text_left < 0:
            raise Damaged(f"it has more than {MOST_TEXT} bytes of names")
        return message.text(found)

    def model(self) -> None:
        head, model = self.head, self._model
        producer = ["", ""]
        for found in self._fields(model):
            if found.number == 1:
                head.ir_version = found.value
            elif found.number in (2, 3):
                producer[found.number - 2] = self._text(model, found)
            elif found.number == 7:
                self.has_graph = True
                self._graph(model.inside(found), 0)
            elif found.number == 8:
                self._opset(model.inside(found))
            elif found.number == 14:
                key, value = self._texts(model.inside(found))
                _keep(head.metadata, key, value)
            elif found.number == 25:
                self._function(model.inside(found))
        head.producer = " ".join(filter(None, producer))
        # Before version 4 of the format weights were named among the inputs; they may be given, and need not.
        head.inputs = [port for port in head.inputs if port.name not in self._weights]

    def _opset(self, message: Message) -> None:
        domain, version = "", 0
        for found in self._fields(message):
            if found.number == 1:
                domain = self._text(message, found)
            elif found.number == 2:
                version = found.value
        _keep(self.head.opsets, domain or "ai.onnx", version)

    def _texts(self, message: Message) -> tuple[str, str]:
        """A pair of texts."""
        texts = {1: "", 2: ""}
        for found in self._fields(message):
            if found.number in texts:
                texts[found.number] = self._text(message, found)
        return texts[1], texts[2]

    def _function(self, message: Message) -> None:
        for found in self._fields(message):
            if found.number == 7:
                self._node(message.inside(found), 1)

    def _graph(self, message: Message, depth: int) -> None:
        if depth > DEEPEST:
            raise Damaged(f"more than {DEEPEST} graphs are within each other")
        head = self.head
        for found in self._fields(message):
            if found.number == 1:
                head.nodes += 1
                self._node(message.inside(found), depth)
            elif found.number == 5:
                name = self._tensor(message.inside(found))
                if depth == 0:
                    self._weights.add(name)
            elif found.number == 15:
                self._sparse(message.inside(found))
            elif depth == 0 and found.number == 2:
                head.graph = self._text(message, found)
            elif depth == 0 and found.number in (11, 12):
                ports = head.inputs if found.number == 11 else head.outputs
                ports.append(self._port(message.inside(found)))

    def _node(self, message: Message, depth: int) -> None:
        for found in self._fields(message):
            if found.number == 5 and found.value:
                self._attribute(message.inside(found), depth)

    def _attribute(self, message: Message, depth: int) -> None:
        for found in self._fields(message):
            if found.number in (5, 10):
                self._tensor(message.inside(found))
            elif found.number in (6, 11):
                self._graph(message.inside(found), depth + 1)

    def _sparse(self, message: Message) -> None:
        for found in self._fields(message):
            if found.number in (1, 2):
                self._tensor(message.inside(found))

    def _tensor(self, message: Message) -> str:
        """Counts its weights. Its name."""
        name, kind, stored, is_external = "", 0, 0, False
        dimensions: list[int] = []
        where: dict[str, str] = {}
        for found in self._fields(message):
            if found.number == 1:
                self._spend(found.value if found.kind == BYTES else 1)
                dimensions += message.numbers(found)
            elif found.number == 2:
                kind = found.value
            elif found.number == 8:
                name = self._text(message, found)
            elif found.number in _WEIGHTS:
                stored += max(1, found.value) if found.kind == BYTES else 1
            elif found.number == 13:
                key, value = self._texts(message.inside(found))
                _keep(where, key, value)
            elif found.number == 14:
                is_external = found.value == _EXTERNAL
        if len(dimensions) > MOST_WHOLE or any(length < 0 for length in dimensions):
            raise Damaged(f"the weights {name!r} have no possible shape")
        elements = math.prod(dimensions)
        if is_external:
            stored = self._elsewhere(where, elements, kind)
        if elements > 2 * stored:  # four bits are the least that one takes
            raise Damaged(f"of the weights {name!r} not all are there")
        self._count(elements, kind, stored)
        return name

    def _elsewhere(self, where: dict[str, str], elements: int, kind: int) -> int:
        """Weights in a file of their own: how many bytes of it."""
        _, bits = TYPES.get(kind, ("", 0))
        length = _number(where, "length", elements * bits // 8)
        name, end = where.get("location", ""), _number(where, "offset", 0) + length
        _keep(self.head.external, name, max(self.head.external.get(name, 0), end))
        return length

    def _count(self, elements: int, kind: int, stored: int) -> None:
        called, bits = TYPES.get(kind, (f"type {kind}", 0))
        by_type = self.head.bytes_by_type
        _keep(by_type, called, by_type.get(called, 0) + (-(-elements * bits // 8) or stored))
        self.head.parameters += elements

    def _port(self, message: Message) -> Port:
        port = Port("")
        for found in self._fields(message):
            if found.number == 1:
                port = port._replace(name=self._text(message, found))
            elif found.number == 2:
                port = self._typed(port, message.inside(found))
        return port

    def _typed(self, port: Port, message: Message) -> Port:
        """Only tensors are arrays; a list or a table of them, as classifiers answer, has no type here."""
        for found in self._fields(message):
            if found.number != 1:
                continue
            tensor = message.inside(found)
            for part in self._fields(tensor):
                if part.number == 1:
                    port = port._replace(dtype=TYPES.get(part.value, (f"type {part.value}", 0))[0])
                elif part.number == 2:
                    port = port._replace(shape=tuple(self._shape(tensor.inside(part))))
        return port

    def _shape(self, message: Message) -> Iterator[int | str | None]:
        for found in self._fields(message):
            if found.number == 1:
                yield self._dimension(message.inside(found))

    def _dimension(self, message: Message) -> int | str | None:
        """Writers put down a length that nobody knows as -1, 0 or ``?``, too."""
        length: int | str | None = None
        for found in self._fields(message):
            if found.number == 1:
                value = protobuf.signed(found.value)
                length = value if value > 0 else None
            elif found.number == 2:
                name = self._text(message, found)
                length = name if name not in ("", "?") else None
        return length


def _keep(table: dict[str, _Value], key: str, value: _Value) -> None:
    """A table that does not end is damage, and costs no memory."""
    if len(table) >= MOST_WHOLE and key not in table:
        raise Damaged(f"it has more than {MOST_WHOLE} entries of one kind")
    table[key] = value


def _number(where: dict[str, str], key: str, default: int) -> int:
    text = where.get(key)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise Damaged(f"weights in a file of their own have the {key} {text[:20]!r}")
    return int(text)
