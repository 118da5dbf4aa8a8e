"""What a row of the table of keys is, and the tables inside tables that have rows of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from .kinds import Kind

EACH_GPU = "gpuN"
"""The name of the row for keys that have a GPU's name."""


@dataclass(frozen=True)
class Key:
    """One key of a table. `default` and `example` are TOML text."""

    name: str
    meaning: str
    kind: Kind | Group | Each | None = None
    field: str = ""
    """Its name in the struct of `core.spec`, where that is another."""
    default: str | None = None
    example: str | None = None
    """Shown where there is no default."""
    only: tuple[str, ...] = ()
    """The runtimes that know it; empty: all."""
    apart: bool = False
    """It cannot stand beside the other examples of its table."""

    @property
    def built(self) -> bool:
        return self.kind is not None

    @property
    def written(self) -> str:
        """As it stands in a file."""
        return "gpu0" if self.name == EACH_GPU else self.name

    @property
    def target(self) -> str:
        return self.field or self.name


@dataclass(frozen=True)
class Group:
    """A table inside a table, with keys of its own."""

    keys: tuple[Key, ...]
    make: Callable[[dict[str, Any]], Any]
    """Makes of the fields what a spec holds; raises `Wrong` for what one demands of another."""
    one_of: tuple[str, ...] = ()
    """Of these exactly one must stand."""
    words: str = "table, see below"

    def show(self, value: Any) -> object:
        table = show(self.keys, value)
        if self.one_of and not table.keys() & set(self.one_of):  # a value that is null, or an empty table
            last = next(key for key in self.keys if key.name == self.one_of[-1])
            table[last.name] = _held(value, last)
        return table


@dataclass(frozen=True)
class Each:
    """A table with keys that nobody knows before. Each value is read by itself: a path in it starts from its file."""

    item: Kind
    words: str = "table"

    def show(self, value: Any) -> object:
        return dict(value)


def show(keys: Iterable[Key], holder: object) -> dict[str, object]:
    """What a person would write for a struct (or a table), defaults filled in."""
    table: dict[str, object] = {}
    for key in keys:
        if key.kind is None:
            continue
        value = _held(holder, key)
        if not _says_nothing(key, value):
            table[key.name] = key.kind.show(value)
    return table


def _held(holder: object, key: Key) -> Any:
    return holder.get(key.target) if isinstance(holder, dict) else getattr(holder, key.target)


def _says_nothing(key: Key, value: object) -> bool:
    """Whether the key is not set and has no default: None means never for durations alone."""
    if value is None:
        return not key.target.endswith("_s")
    return key.default is None and value in ((), {})
