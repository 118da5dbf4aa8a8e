"""The accepted configuration, kept in the state directory in a form that reads quickly.

Two uses: a start with unchanged files reads this instead of them (no TOML for 10,000
models), and a start with wrong files serves what was accepted last. It is a copy and never
the truth: what cannot be read, was written by another schema or is damaged counts as absent.

The file is a CRC-32 (4 bytes, little-endian) and one msgpack array, `_Stored`.
"""

from __future__ import annotations

import zlib

import msgspec

from ..core.spec import Config, Fallback, ModelSpec, Prewarm, Settings, Split, Warmup
from ..places import accepted_config
from .files import Mark
from .problems import Problem

SCHEMA = 1
"""Raised whenever a field of `core.spec` changes its meaning under the same name."""
FIELDS = tuple(
    f"{struct.__name__}.{field}"
    for struct in (Config, Settings, Split, ModelSpec, Warmup, Prewarm, Fallback)
    for field in struct.__struct_fields__
)
"""What this lazyd can read. A field that has gone would be dropped without a word, a new one would have its default
although the files may say something of it."""


class _Stored(msgspec.Struct, frozen=True, array_like=True):
    schema: int
    fields: tuple[str, ...]
    version: str
    """Of the lazyd that wrote it: another one may have other defaults and other rules."""
    marks: tuple[Mark, ...] | None
    warnings: tuple[Problem, ...]
    config: msgspec.Raw


class Kept:
    """What the file holds, decoded no further than is asked for."""

    def __init__(self, stored: _Stored) -> None:
        self._stored = stored

    @property
    def warnings(self) -> tuple[Problem, ...]:
        return self._stored.warnings

    @property
    def had_files(self) -> bool:
        """What is registered has a mark, too, but no inode."""
        return self._stored.marks is None or any(mark.inode for mark in self._stored.marks)

    def written_from(self, marks: tuple[Mark, ...] | None, version: str) -> bool:
        """Whether this lazyd made it from just these files in just this state."""
        is_ours = self._stored.version == version and self._stored.fields == FIELDS
        return is_ours and marks is not None and self._stored.marks == marks

    def config(self) -> Config | None:
        try:
            return _CONFIG.decode(self._stored.config)
        except msgspec.MsgspecError:
            return None


_CONFIG = msgspec.msgpack.Decoder(Config)
_STORED = msgspec.msgpack.Decoder(_Stored)


def read(state_dir: str) -> Kept | None:
    """None where there is none that can be used."""
    try:
        with open(accepted_config(state_dir), "rb") as file:
            contents = file.read()
        if zlib.crc32(memoryview(contents)[4:]) != int.from_bytes(contents[:4], "little"):
            return None
        stored = _STORED.decode(memoryview(contents)[4:])
    except (OSError, msgspec.MsgspecError):
        return None
    readable = stored.schema == SCHEMA and set(stored.fields) <= set(FIELDS)
    return Kept(stored) if readable else None


def write(
    state_dir: str, version: str, config: Config, marks: tuple[Mark, ...] | None, warnings: tuple[Problem, ...]
) -> None:
    """Replace the file as a whole, or leave it as it was. Raises OSError.

    Readable by its owner alone: it holds the values of `env`.
    """
    from .. import durable  # a start only reads

    encode = msgspec.msgpack.encode
    body = encode(_Stored(SCHEMA, FIELDS, version, marks, warnings, msgspec.Raw(encode(config))))
    durable.replace(accepted_config(state_dir), zlib.crc32(body).to_bytes(4, "little"), body)
