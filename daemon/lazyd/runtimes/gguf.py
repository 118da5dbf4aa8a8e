"""Reads the header of a GGUF file: what a model says of itself, without any model library.

The format (versions 2 and 3, little-endian) is documented in ggml's ``docs/gguf.md``: magic, version,
counts, key-value pairs, a description of each tensor, then, aligned, the tensors' data. From the
descriptions follows where the file must end, so a download that was cut short is told before
anything is started for it.
"""

from __future__ import annotations

import functools
import math
import os
import re
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

_MAGIC = b"GGUF"
_MAX_ITEMS = 1 << 32
_LISTED = {"texts": 16, "numbers": 512}
"""Arrays longer than this (vocabularies) are given as their length; models have a number for each layer."""
_SCALARS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
_STRING, _ARRAY = 8, 9
_READS = (1 << 20, 1 << 24, 1 << 28)
"""Bytes of the file that are looked at, until the header ends within them."""
_SPLIT_NAME = re.compile(r"-(\d{5})-of-(\d{5})\.gguf$")

TENSOR_TYPES = {
    0: ("F32", 1, 4),
    1: ("F16", 1, 2),
    2: ("Q4_0", 32, 18),
    3: ("Q4_1", 32, 20),
    6: ("Q5_0", 32, 22),
    7: ("Q5_1", 32, 24),
    8: ("Q8_0", 32, 34),
    9: ("Q8_1", 32, 36),
    10: ("Q2_K", 256, 84),
    11: ("Q3_K", 256, 110),
    12: ("Q4_K", 256, 144),
    13: ("Q5_K", 256, 176),
    14: ("Q6_K", 256, 210),
    15: ("Q8_K", 256, 292),
    16: ("IQ2_XXS", 256, 66),
    17: ("IQ2_XS", 256, 74),
    18: ("IQ3_XXS", 256, 98),
    19: ("IQ1_S", 256, 50),
    20: ("IQ4_NL", 32, 18),
    21: ("IQ3_S", 256, 110),
    22: ("IQ2_S", 256, 82),
    23: ("IQ4_XS", 256, 136),
    24: ("I8", 1, 1),
    25: ("I16", 1, 2),
    26: ("I32", 1, 4),
    27: ("I64", 1, 8),
    28: ("F64", 1, 8),
    29: ("IQ1_M", 256, 56),
    30: ("BF16", 1, 2),
    34: ("TQ1_0", 256, 54),
    35: ("TQ2_0", 256, 66),
    39: ("MXFP4", 32, 17),
    40: ("NVFP4", 64, 36),
    41: ("Q1_0", 128, 18),
    42: ("Q2_0", 64, 18),
}
"""By ggml's number: name, elements of a block, bytes of a block."""


class Tensor(NamedTuple):
    """One tensor as it is described."""

    name: str
    kind: str
    """Of `TENSOR_TYPES`, or ``type 99``."""
    shape: tuple[int, ...]
    """The longest run of numbers first, so a matrix has (columns, rows)."""
    bytes: int


@dataclass(frozen=True)
class Header:
    """What a GGUF file says."""

    path: str
    file_bytes: int
    version: int
    metadata: dict[str, Any]
    """Keys as they stand in the file; of a long array only ``{"length": n}``."""
    tensors: tuple[Tensor, ...]
    needed_bytes: int
    """Where the last tensor ends: a shorter file is truncated."""

    @property
    def architecture(self) -> str:
        return str(self.metadata.get("general.architecture", "unknown"))

    @property
    def parameters(self) -> int:
        """Numbers in all tensors."""
        return sum(math.prod(tensor.shape) for tensor in self.tensors)

    @property
    def bytes_by_type(self) -> dict[str, int]:
        """How many bytes of tensors are of which type."""
        by_type: dict[str, int] = {}
        for tensor in self.tensors:
            by_type[tensor.kind] = by_type.get(tensor.kind, 0) + tensor.bytes
        return by_type

    def of_architecture(self, key: str, default: int = 0) -> int:
        """A number that the file states for its architecture, such as ``context_length``."""
        return max(self.by_layer(key, 1, default))

    def by_layer(self, key: str, layers: int, default: int = 0) -> list[int]:
        """The same for each of so many layers, for which a file may state one number or many."""
        value = self.metadata.get(f"{self.architecture}.{key}", default)
        numbers = value if isinstance(value, list) and value else [value]
        found = [int(number) if isinstance(number, (int, float)) else default for number in numbers]
        return found if len(found) >= layers else [max(found)] * layers


def read(path: str) -> Header:
    """The header of the file; read once, as long as the file does not change.

    Raises `OSError`, and `ValueError` with one clear line for what is no GGUF file or is cut short.
    """
    found = os.stat(path)
    return _read_once(path, found.st_size, found.st_mtime_ns)


@functools.lru_cache(maxsize=64)
def _read_once(path: str, size: int, _changed_ns: int) -> Header:
    with open(path, "rb") as file:
        header = read_from(path, file, size)
    if header.needed_bytes > size:
        missing = header.needed_bytes - size
        raise ValueError(f"{path} is truncated: {missing} of {header.needed_bytes} bytes are missing")
    return header


def context_length(path: str) -> int | None:
    """The context that the model was made for. It stands near the beginning, so this is quick.

    Raises `OSError`; for a file that is damaged the answer is None.
    """
    with open(path, "rb") as file:
        data = file.read(_READS[0])
    try:
        for key, value in _Cursor(path, data, len(data)).pairs():
            if key.endswith(".context_length") and isinstance(value, int):
                return value
    except (ValueError, struct.error, IndexError):
        pass
    return None


def read_from(path: str, file: BinaryIO, size: int) -> Header:
    """Reads as much as the header turns out to have. (A mapped file that shrinks would end the process.)"""
    data = b""
    for amount in _READS:
        data += file.read(amount - len(data))
        try:
            return _Cursor(path, data, size).header()
        except (struct.error, IndexError):
            if len(data) < amount:
                raise ValueError(f"{path} is truncated: its {size} bytes end within the header") from None
    raise ValueError(f"{path} is damaged: its header does not end")


def parts(path: str) -> list[str]:
    """All files of a model whose first is `path`: ``…-00001-of-00003.gguf`` has two more."""
    match = _SPLIT_NAME.search(path)
    if match is None:
        return [path]
    stem, count = path[: match.start()], int(match[2])
    return [f"{stem}-{number:05d}-of-{count:05d}.gguf" for number in range(1, count + 1)]


class _Cursor:
    """Walks through the beginning of a file."""

    def __init__(self, path: str, data: bytes, file_bytes: int) -> None:
        self.path = path
        self.data = data
        self.file_bytes = file_bytes
        self.place = 0
        self.version = 0
        self.tensors = 0

    def pairs(self) -> Iterator[tuple[str, Any]]:
        """Key by key what stands before the tensors."""
        if self.data[:4] != _MAGIC:
            raise ValueError(f"{self.path} is not a GGUF file: it begins with {self.data[:4]!r}")
        self.place = 4
        self.version = self.take("<I")
        if self.version not in (2, 3):
            raise ValueError(f"{self.path} is of GGUF version {self.version}; 2 and 3 are understood")
        self.tensors, count = self.take("<Q"), self.take("<Q")
        if max(self.tensors, count) > _MAX_ITEMS:
            raise ValueError(f"{self.path} is damaged: its header counts {self.tensors} tensors and {count} keys")
        for _ in range(count):
            yield self.text(), self.value(self.take("<I"))

    def header(self) -> Header:
        metadata = dict(self.pairs())
        tensors, ends = self.describe_tensors(self.tensors)
        alignment = metadata.get("general.alignment", 32)
        start = self.place + -self.place % alignment if isinstance(alignment, int) and alignment > 0 else self.place
        return Header(
            path=self.path,
            file_bytes=self.file_bytes,
            version=self.version,
            metadata=metadata,
            tensors=tuple(tensors),
            needed_bytes=start + ends,
        )

    def describe_tensors(self, count: int) -> tuple[list[Tensor], int]:
        """All of them, and where the data of the last one ends, counted from where the data begins."""
        tensors, ends = [], 0
        for _ in range(count):
            name = self.text()
            shape = tuple(self.take("<Q") for _ in range(self.take("<I")))
            kind, offset = self.take("<I"), self.take("<Q")
            called, block, block_bytes = TENSOR_TYPES.get(kind, (f"type {kind}", 1, 0))
            size = -(-math.prod(shape) // block) * block_bytes
            tensors.append(Tensor(name, called, shape, size))
            ends = max(ends, offset + size)
        return tensors, ends

    def take(self, form: str) -> Any:
        (value,) = struct.unpack_from(form, self.data, self.place)
        self.place += struct.calcsize(form)
        return value

    def text(self) -> str:
        length = self.take("<Q")
        self.skip(length)
        return self.data[self.place - length : self.place].decode("utf-8", "replace")

    def skip(self, count: int) -> None:
        self.place += count
        if self.place > len(self.data):
            raise IndexError

    def value(self, kind: int) -> Any:
        if kind == _STRING:
            return self.text()
        if kind == _ARRAY:
            return self.array()
        if kind not in _SCALARS:
            raise ValueError(f"{self.path} is damaged: it has a value of kind {kind}")
        return self.take(_SCALARS[kind])

    def array(self) -> Any:
        kind, length = self.take("<I"), self.take("<Q")
        if length <= _LISTED["numbers" if kind in _SCALARS else "texts"]:
            return [self.value(kind) for _ in range(length)]
        if kind in _SCALARS:
            self.skip(length * struct.calcsize(_SCALARS[kind]))
        elif kind == _STRING:
            self.skip_texts(length)
        else:
            raise ValueError(f"{self.path} is damaged: it has an array of kind {kind}")
        return {"length": length}

    def skip_texts(self, count: int) -> None:
        """A vocabulary has hundreds of thousands: this is the loop that takes the time."""
        data, place, unpack = self.data, self.place, struct.Struct("<Q").unpack_from
        for _ in range(count):
            place += 8 + unpack(data, place)[0]
        self.place = place
        self.skip(0)
