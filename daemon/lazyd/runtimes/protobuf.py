"""Reads the fields of a protocol buffer in a file, without its schema and without its library.

The wire format is that of protobuf's documentation ("Encoding"). Fields that nobody asks for are skipped, not
read: weights may be gigabytes. A field cannot reach beyond the message that it is in, so a damaged length is
told as what it is, and no more is read than is there.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
"""How a field is written."""
_FIXED = {FIXED64: 8, FIXED32: 4}
MOST_TEXT = 1 << 20
"""Bytes of a text, at most."""


class Damaged(ValueError):
    """It is no protocol buffer. Its text says why, and is the end of a sentence."""


class Field(NamedTuple):
    """One field, where the file stands now."""

    number: int
    kind: int
    value: int
    """Of a number its value; of anything else how many bytes follow, which are skipped unless they are read."""


class Message:
    """The fields of one message, from where `file` stands until `end`. They are read in order, and once."""

    def __init__(self, file: BinaryIO, end: int) -> None:
        self._file, self._end = file, end

    def __iter__(self) -> Iterator[Field]:
        """Raises `Damaged`."""
        while self._file.tell() < self._end:
            tag = self._varint()
            number, kind = tag >> 3, tag & 7
            if not number:
                raise Damaged("a field has the number 0")
            if kind == VARINT:
                yield Field(number, kind, self._varint())
                continue
            if kind != BYTES and kind not in _FIXED:
                raise Damaged(f"a field is of kind {kind}")
            size = self._varint() if kind == BYTES else _FIXED[kind]
            after = self._file.tell() + size
            if after > self._end:
                raise Damaged("a field is longer than what it is in")
            yield Field(number, kind, size)
            self._file.seek(after)

    def inside(self, field: Field) -> Message:
        """The message that a field holds. Raises `Damaged` if the field is a number."""
        if field.kind != BYTES:
            raise Damaged(f"field {field.number} holds no message")
        return Message(self._file, self._file.tell() + field.value)

    def text(self, field: Field) -> str:
        """The text that a field holds."""
        if field.kind != BYTES or field.value > MOST_TEXT:
            raise Damaged(f"field {field.number} holds no text")
        return self._file.read(field.value).decode("utf-8", "replace")

    def numbers(self, field: Field) -> list[int]:
        """One signed number, or many that are packed into one field."""
        if field.kind == VARINT:
            return [signed(field.value)]
        if field.kind != BYTES or field.value > MOST_TEXT:
            raise Damaged(f"field {field.number} holds no numbers")
        packed = Message(self._file, self._file.tell() + field.value)
        found = []
        while self._file.tell() < packed._end:
            found.append(signed(packed._varint()))
        return found

    def _varint(self) -> int:
        value = shift = 0
        while shift < 70:
            byte = self._file.read(1)
            if not byte or self._file.tell() > self._end:
                raise Damaged("it ends in the middle of a number")
            value |= (byte[0] & 0x7F) << shift
            if byte[0] < 0x80:
                return value & 0xFFFFFFFFFFFFFFFF
            shift += 7
        raise Damaged("a number has more than 64 bits")


def signed(value: int) -> int:
    """A number that was written as 64 bits without a sign."""
    return int(struct.unpack("<q", struct.pack("<Q", value))[0])
