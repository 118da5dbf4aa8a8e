"""What keys mean: all that there are, and those that stand in files, with where each value comes from.

All words are those of the tables of keys and of the runtimes' tables of options. Secrets are masked.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from ..runtimes import option_tables, runtime_named
from ..urls import is_url, masked
from . import keys, registered
from .compounds import GPU, MASK, Environment
from .files import Files
from .problems import KeyPath, key_text
from .rows import EACH_GPU, Group, Key
from .sources import Sources

NAME = "NAME"
"""Stands for a model's."""
OPTIONS = "options"
_AT_TOP = {"daemon": keys.DAEMON, "budget": keys.BUDGET, "fetch": keys.FETCH}
_UNKNOWN = "Not known, or not here: see 'lazyctl config check'."


class Explained(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """One key."""

    table: str
    """As TOML writes it, without brackets."""
    key: str
    kind: str = ""
    """Of what values: ``duration, or "never"``."""
    meaning: str
    default: str | None = None
    """As one would write it; None: there is none, or the runtime's library has its own."""
    example: str | None = None
    runtimes: tuple[str, ...] = ()
    """That have it; empty: all, or it is no model's."""
    value: str | None = None
    """As it stands in a file, in one line; None: this is of no file."""
    file: str | None = None
    line: int | None = None


def every() -> list[Explained]:
    """All keys that there are, and all options of all runtimes, table by table."""
    found = [row for name, table in _AT_TOP.items() for row in _rows((name,), table)]
    found += _rows(("models", NAME), keys.MODEL)
    for runtime in keys.BUILT_RUNTIMES:
        found += [_of_option(("models", NAME, OPTIONS), option, runtime) for option in _options(runtime) or ()]
    found.append(Explained(table="discover", key="PATTERN", kind="table, with keys of a model", meaning=keys.DISCOVER))
    found.append(Explained(table="aliases", key=NAME, kind="string, or table", meaning=keys.ALIAS))
    return found


def named(words: str) -> list[Explained]:
    """The keys that somebody means by ``idle_timeout``, ``daemon.idle_timeout``, ``onnx.providers`` or
    ``models.gemma.options.n_ctx``, and all that is in a table that is named, as by ``warmup`` or ``onnx``."""
    wanted = tuple(words.replace('"', "").strip("[]").split("."))
    every_row = every()
    by_key = [row for row in every_row if any(_ends(path, wanted) for path in _paths(row))]
    tables = [row for row in every_row if any(_ends(path[:-1], wanted) for path in _paths(row))]
    return list({(row.table, row.key, row.runtimes): row for row in (*by_key, *tables)}.values())


def nearest(words: str) -> str | None:
    """The key, runtime or table that was probably meant."""
    known = {part for row in every() for path in _paths(row) for part in path} - {NAME}
    found = difflib.get_close_matches(words.rpartition(".")[2], sorted(known), n=1)
    return found[0] if found else None


def of_files(files: Files, state_dir: str | None = None) -> list[Explained]:
    """Every key that stands in the files, the value that counts where several have it. What cannot be read is left out:
    a check tells of it. With a `state_dir` also what clients have registered. Blocks on the disk."""
    sources = Sources()
    for path in files.paths:
        sources.add(path)
    if state_dir is not None:
        sources.register(registered.known(state_dir, repair=False).tables)
    return list(_Files(sources).all())


class _Files:
    """Walks through what stands in them, table by table."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources

    def all(self) -> Iterator[Explained]:
        for name, table in self._sources.merged.items():
            if not isinstance(table, dict):
                yield self._row((), name, table)
            elif name in _AT_TOP:
                yield from self._table((name,), table, _AT_TOP[name], "")
            elif name in ("models", "discover"):
                for key, inner in table.items():
                    if isinstance(inner, dict):
                        yield from self._table((name, key), inner, keys.MODEL, _runtime(inner))
                    else:
                        yield self._row((name,), key, inner)
            else:
                known = Explained(table="", key="", kind="string, or table", meaning=keys.ALIAS)
                for key, value in table.items():
                    yield self._row((name,), key, value, known if name == "aliases" else None)

    def _table(
        self, path: KeyPath, table: Mapping[str, Any], known: tuple[Key, ...], runtime: str
    ) -> Iterator[Explained]:
        """Its values, then the tables in it."""
        by_name = {key.name: key for key in known}
        inside = []
        for name, value in table.items():
            key = by_name.get(EACH_GPU if path[0] == "budget" and GPU.fullmatch(name) else name)
            if isinstance(value, dict) and ((key is not None and isinstance(key.kind, Group)) or name == OPTIONS):
                inside.append((name, value, key))
            else:
                yield self._row(path, name, value, _of_key(path, key) if key is not None else None)
        for name, value, key in inside:
            if key is not None and isinstance(key.kind, Group):
                yield from self._table((*path, name), value, key.kind.keys, runtime)
            else:
                yield from self._options((*path, name), value, runtime)

    def _options(self, path: KeyPath, table: Mapping[str, Any], runtime: str) -> Iterator[Explained]:
        known = {option.name: option for option in _options(runtime) or ()}
        meaning = keys.OF_THE_FACTORY if runtime == "python" else _UNKNOWN
        its_own = Explained(table="", key="", meaning=meaning, runtimes=(runtime,) if runtime else ())
        for name, value in table.items():
            told = _of_option(path, known[name], runtime) if name in known else its_own
            yield self._row(path, name, value, told)

    def _row(self, path: KeyPath, name: str, value: Any, known: Explained | None = None) -> Explained:
        known = known or Explained(table="", key="", meaning=_UNKNOWN)
        file, line = self._sources.locate((*path, name))
        value = dict.fromkeys(value, MASK) if _is_secret(path, name, value) else value
        return msgspec.structs.replace(
            known, table=key_text(path), key=name, value=written(value), file=file, line=line
        )


def written(value: Any) -> str:
    """As TOML writes it, in one line; of URLs without what is secret in them."""
    if isinstance(value, str):
        return json.dumps(masked(value) if is_url(value) else value, ensure_ascii=False)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key_text((name,))} = {written(inner)}" for name, inner in value.items()) + "}"
    return "[" + ", ".join(map(written, value)) + "]" if isinstance(value, list) else str(value)


def _rows(path: KeyPath, table: tuple[Key, ...]) -> Iterator[Explained]:
    """Of a table, and of the tables in it."""
    yield from (_of_key(path, key) for key in table)
    for key in table:
        if isinstance(key.kind, Group):
            yield from _rows((*path, key.name), key.kind.keys)


def _of_key(path: KeyPath, key: Key) -> Explained:
    return Explained(
        table=key_text(path),
        key=key.name,
        kind=key.kind.words if key.kind is not None else "",
        meaning=key.meaning,
        default=key.default,
        example=key.example,
        runtimes=key.only,
    )


def _of_option(path: KeyPath, option: option_tables.Option, runtime: str) -> Explained:
    return Explained(
        table=key_text(path),
        key=option.name,
        kind=option.kind.words,
        meaning=option.meaning,
        default=option.default,
        runtimes=(runtime,),
    )


def _options(runtime: str) -> tuple[option_tables.Option, ...] | None:
    table = runtime_named(runtime).options() if runtime in keys.BUILT_RUNTIMES else ()
    return None if table is None else tuple(table)


def _runtime(table: Mapping[str, Any]) -> str:
    runtime = table.get("runtime", "")
    return runtime if isinstance(runtime, str) else ""


def _paths(row: Explained) -> list[KeyPath]:
    """The ways to name it: an option also by its runtime."""
    path = (*row.table.split("."), row.key)
    return [path, (*row.runtimes, row.key)] if path[2:3] == (OPTIONS,) else [path]


def _ends(path: KeyPath, wanted: KeyPath) -> bool:
    """Whether `wanted` are the last parts of the path; after the first any name is as good as NAME."""
    last = path[-len(wanted) :]
    return (
        last[:1] == wanted[:1]
        and len(last) == len(wanted)
        and all(part in (meant, NAME) for part, meant in zip(last, wanted, strict=True))
    )


def _is_secret(path: KeyPath, name: str, value: Any) -> bool:
    """Variables of a process: their values are never shown."""
    key = next((key for key in keys.MODEL if key.name == name), None)
    return (
        path[0:1] != ("daemon",) and isinstance(value, dict) and key is not None and isinstance(key.kind, Environment)
    )
