"""On which line a key of a TOML file stands. Only asked when something is wrong with it."""

from __future__ import annotations

import tomllib

from .problems import KeyPath

_LONGEST_VALUE = 300
"""Lines of one value; beyond that the search gives up, since it tries the value anew with each line."""


def index(text: str) -> dict[KeyPath, int]:
    """Line numbers from 1 by key, for tables, keys and the keys of inline tables.

    A statement of TOML is the shortest run of lines that is valid by itself, so no grammar
    is needed here: lines are gathered until tomllib accepts them.
    """
    lines: dict[KeyPath, int] = {}
    table: KeyPath = ()
    statement: list[str] = []
    for number, line in enumerate(text.split("\n"), 1):
        if not statement and line.strip()[:1] in ("", "#"):
            continue
        statement.append(line)
        if len(statement) > _LONGEST_VALUE:
            break
        if len(statement) > 1 and not any(mark in line for mark in ("]", '"""', "'''")):
            continue
        try:
            parsed = tomllib.loads("\n".join(statement))
        except tomllib.TOMLDecodeError:
            continue
        first = number - len(statement) + 1
        if statement[0].lstrip().startswith("["):
            table = _header(parsed)
            _note(lines, table, first)
        else:
            _note_all(lines, table, parsed, first)
        statement = []
    return lines


def _header(parsed: dict[str, object]) -> KeyPath:
    path: KeyPath = ()
    inner: object = parsed
    while inner and isinstance(inner, dict):
        key, inner = next(iter(inner.items()))
        path = (*path, key)
    return path


def _note_all(lines: dict[KeyPath, int], table: KeyPath, parsed: dict[str, object], line: int) -> None:
    for key, value in parsed.items():
        path = (*table, key)
        _note(lines, path, line)
        if isinstance(value, dict):
            _note_all(lines, path, value, line)


def _note(lines: dict[KeyPath, int], path: KeyPath, line: int) -> None:
    for length in range(len(path), 0, -1):
        if lines.setdefault(path[:length], line) != line:
            break
