"""Files of TOML, read, laid over each other, and asked where a key comes from."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field

from ..core.spec import REGISTERED
from . import files, lines
from .files import Mark
from .problems import KeyPath, Problem

_AT_LINE = re.compile(r" \(at line (\d+), column (\d+)\)$")
_MAX_DEPTH = 64


@dataclass
class Source:
    """One file that could be read."""

    path: str
    text: str
    tables: dict[str, object]
    _lines: dict[KeyPath, int] | None = None

    def depth(self, path: KeyPath) -> int:
        """How much of the path is in this file."""
        table: object = self.tables
        for depth, key in enumerate(path):
            if not isinstance(table, dict) or key not in table:
                return depth
            table = table[key]
        return len(path)

    def line(self, path: KeyPath) -> int | None:
        if self._lines is None:
            self._lines = lines.index(self.text)
        for length in range(len(path), 0, -1):
            if path[:length] in self._lines:
                return self._lines[path[:length]]
        return None


@dataclass
class Sources:
    """All files of a configuration."""

    read: list[Source] = field(default_factory=list)
    marks: list[Mark | None] = field(default_factory=list)
    merged: dict[str, object] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    """Of files that could not be read."""
    registered: dict[str, dict[str, object]] = field(default_factory=dict)
    """Models that clients have registered: they stand in no file."""
    made_by: dict[str, KeyPath] = field(default_factory=dict)
    """Where the table stands that a model was made by whose file was found."""
    _of_model: dict[str, list[Source]] = field(default_factory=dict)

    def add(self, path: str) -> None:
        """Read one more file; its keys override those of the files before it."""
        try:
            contents, mark = files.read(path)
        except OSError as error:
            reason = error.strerror or str(error)
            self.problems.append(
                Problem(file=path, what=f"cannot be read: {reason}", remedy="name a file that lazyd's user may read")
            )
            return
        try:
            text = contents.decode("utf-8-sig")
            tables = tomllib.loads(text)
            _check_depth(tables, _MAX_DEPTH)
            self.merged = _overlaid(self.merged, tables)
        except UnicodeDecodeError as error:
            line = contents.count(b"\n", 0, error.start) + 1
            self.problems.append(Problem(file=path, line=line, what="not UTF-8", remedy="save the file as UTF-8"))
        except tomllib.TOMLDecodeError as error:
            self.problems.append(_not_toml(path, text, str(error)))
        except RecursionError:
            self.problems.append(Problem(file=path, what=f"nested more than {_MAX_DEPTH} deep", remedy="flatten it"))
        except ValueError as error:  # a number of thousands of digits
            self.problems.append(Problem(file=path, what=f"cannot be used: {error}", remedy="correct the value"))
        else:
            source = Source(path, text, tables)
            self.read.append(source)
            self.marks.append(mark)
            models = tables.get("models")
            for name in models if isinstance(models, dict) else ():
                self._of_model.setdefault(name, []).append(source)

    def register(self, tables: Mapping[str, dict[str, object]]) -> list[str]:
        """Put what clients have registered beside what was read. Returns names that the files have: theirs count."""
        models = self.merged.get("models", {})
        if not isinstance(models, dict):
            return []
        self.registered = {name: table for name, table in tables.items() if name not in models}
        self.merged = {**self.merged, "models": {**models, **self.registered}}
        return [name for name in tables if name in models]

    def origin(self, path: KeyPath) -> Source | None:
        """The file whose value of this key counts: the last that has it, or has most of its path."""
        candidates = self._of_model.get(path[1], self.read) if len(path) > 1 and path[0] == "models" else self.read
        if len(candidates) == 1:
            return candidates[0]
        return max(reversed(candidates), key=lambda source: source.depth(path), default=None)

    def locate(self, path: KeyPath) -> tuple[str, int | None]:
        """File and line of a key, for a message."""
        if self.is_registered(path):
            return REGISTERED, None
        if path[0] == "models" and len(path) > 1:
            path = (*self.made_by.get(path[1], path[:2]), *path[2:])
        source = self.origin(path)
        return (source.path, source.line(path)) if source else ("(no file)", None)

    def base(self, path: KeyPath) -> str:
        """The directory from which a relative path at this key starts; empty: there is none."""
        if self.is_registered(path):
            return ""
        source = self.origin(path)
        return os.path.dirname(source.path) if source else "/"

    def is_registered(self, path: KeyPath) -> bool:
        return path[0] == "models" and len(path) > 1 and path[1] in self.registered


def _overlaid(below: dict[str, object], above: dict[str, object]) -> dict[str, object]:
    """Key by key: tables are merged, anything else is replaced. Changes neither argument."""
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        merged[key] = _overlaid(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return merged


def _check_depth(value: object, left: int) -> None:
    if left == 0:
        raise RecursionError
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            _check_depth(item, left - 1)


def _not_toml(path: str, text: str, message: str) -> Problem:
    at = _AT_LINE.search(message)
    if at is None:
        message = message.removesuffix(" (at end of document)")
        last = text.rstrip().count("\n") + 1
        return Problem(file=path, line=last, what=f"not TOML: {message}", remedy="look at the end of the file")
    return Problem(
        file=path, line=int(at[1]), what=f"not TOML: {message[: at.start()]}", remedy=f"look near column {at[2]}"
    )
