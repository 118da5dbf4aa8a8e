"""The models that clients have registered: a file in the state directory, replaced as a whole.

It is the only place where they are written down, so it carries a checksum, and a damaged one is kept aside.
"""

from __future__ import annotations

import contextlib
import os
import time
import zlib
from typing import Any

import msgspec

from ..core.spec import REGISTERED, Config, ModelSpec
from ..places import registered_file
from .files import Mark
from .problems import Problem

Tables = dict[str, dict[str, Any]]
"""What clients have described, by the key of the model."""


class _Stored(msgspec.Struct, frozen=True):
    crc32: int
    """Of `models` as it stands there."""
    models: msgspec.Raw


class Registered(msgspec.Struct, frozen=True):
    """What the file holds. `mark` tells it from any other contents."""

    mark: Mark
    tables: Tables = {}
    problem: Problem | None = None
    """It was damaged."""


def mark(state: str) -> Mark | None:
    """The mark of the file as it is now, quickly. None: it cannot be read."""
    try:
        return _mark(state, _contents(state) or b"")
    except OSError:
        return None


def read(state: str, accepted: Config | None = None, *, repair: bool = True) -> Registered:
    """What clients have registered. A damaged file is set aside; what was accepted last stands in for it.

    Raises OSError where there is a file, and it cannot be read.
    """
    contents = _contents(state)
    if contents is None:
        return Registered(mark=_mark(state, b""))
    try:
        stored = msgspec.json.decode(contents, type=_Stored)
        if zlib.crc32(stored.models) != stored.crc32:
            raise ValueError("its checksum is wrong")
        return Registered(mark=_mark(state, contents), tables=msgspec.json.decode(stored.models, type=Tables))
    except ValueError as error:  # msgspec's errors are such
        return _damaged(state, str(error), accepted, repair=repair)


def known(state: str, last: Config | None = None, *, repair: bool = True) -> Registered:
    """As `read`; where the file cannot be read that is told, and what was accepted last stands in for it. Blocks."""
    try:
        return read(state, last, repair=repair)
    except OSError as error:
        path = registered_file(state)
        problem = Problem(file=path, what=f"cannot be read: {error.strerror}", remedy="let lazyd's user read it")
        tables = of(last) if last is not None else {}
        return Registered(mark=Mark(path, -1, -1, 0, 0, 0), tables=tables, problem=problem)


def write(state: str, tables: Tables) -> Mark:
    """Replace the file; after it returns, what it holds outlives a power cut. Raises OSError.

    Readable by its owner alone: it holds the values of `env`.
    """
    from .. import durable  # a start only reads

    models = msgspec.Raw(msgspec.json.encode(tables))
    contents = msgspec.json.encode(_Stored(zlib.crc32(models), models))
    durable.replace(registered_file(state), contents)
    return _mark(state, contents)


def of(config: Config) -> Tables:
    """What clients have registered of an accepted configuration, as they would write it."""
    from .shown import shown

    specs = {key: spec for key, spec in config.models.items() if spec.source == REGISTERED}
    return {key: {**shown(spec), **_secret(spec)} for key, spec in specs.items()}


def _secret(spec: ModelSpec) -> dict[str, object]:
    """What people are not shown of a spec."""
    return {name: value for name, value in (("env", spec.env), ("path", spec.path)) if value}


def _contents(state: str) -> bytes | None:
    """None: there is no such file, as nothing was registered yet."""
    try:
        with open(registered_file(state), "rb") as file:
            return file.read()
    except FileNotFoundError:
        return None


def _mark(state: str, contents: bytes) -> Mark:
    """A checksum, not a time: only lazyd writes there, and may do so twice within one tick of the clock."""
    return Mark(registered_file(state), 0, 0, len(contents), zlib.crc32(contents), 0)


def _damaged(state: str, why: str, accepted: Config | None, *, repair: bool) -> Registered:
    path = registered_file(state)
    tables = of(accepted) if accepted is not None else {}
    aside = f"{path}.damaged-{time.time_ns() // 10**9}"
    if repair:
        with contextlib.suppress(OSError):
            os.rename(path, aside)
            write(state, tables)
    lost = "what was accepted last stands in for it" if accepted else "what clients have registered is lost"
    problem = Problem(
        file=path,
        what=f"damaged ({why}){f', and set aside as {os.path.basename(aside)}' if repair else ''}: {lost}",
        remedy="register again what 'lazyctl status' does not show",
    )
    return Registered(mark=_mark(state, _contents(state) or b""), tables=tables, problem=problem)
