"""One table of a file, read by the keys that it may have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from . import keys
from .compounds import GPU
from .given import kind_of
from .keys import EACH_GPU, Each, Group, Key
from .kinds import Kind
from .problems import Fault, KeyPath, Report, Wrong, key_text, nearest
from .sources import Sources

DAEMON = {key.name: key for key in keys.DAEMON}
BUDGET = {key.name: key for key in keys.BUDGET}
FETCH = {key.name: key for key in keys.FETCH}
MODEL = {key.name: key for key in keys.MODEL}
_GROUPS = {key.name: {row.name for row in key.kind.keys} for key in keys.MODEL if isinstance(key.kind, Group)}
"""The keys of the tables inside a model's."""


class Table:
    """Reads one table by the keys that it may have."""

    def __init__(self, known: Mapping[str, Key], sources: Sources, report: Report) -> None:
        self._known = known
        self._sources = sources
        self._report = report

    def read(self, path: KeyPath, table: Mapping[str, object]) -> dict[str, Any]:
        """What a struct of `core.spec` takes: its fields and their values."""
        fields: dict[str, Any] = {}
        for name, value in table.items():
            here = (*path, name)
            key = self._key(name)
            if key is None:
                self._unknown(here, value)
            elif key.kind is None:
                self._report.wrong(here, "not built yet", "leave it out")
            else:
                try:
                    field = name if key.name == EACH_GPU else key.target
                    fields[field] = self._value(here, key.kind, value)
                except Wrong as wrong:
                    for fault in wrong.faults:
                        self._report.wrong((*here, *fault.below), fault.what, fault.remedy)
        return fields

    def _value(self, here: KeyPath, kind: Kind | Group | Each, value: object) -> Any:
        """Raises `Wrong`, without a fault where all have been reported."""
        if not isinstance(kind, Group | Each):
            return kind.read(value, self._sources.base(here))
        if not isinstance(value, dict):
            remedy = f"write [{key_text(here)}] on a line of its own and the keys below it"
            raise Wrong(Fault(f"expected a table, not {kind_of(value)}", remedy))
        return self._group(here, kind, value) if isinstance(kind, Group) else self._each(here, kind, value)

    def _group(self, here: KeyPath, group: Group, table: Mapping[str, object]) -> Any:
        before = len(self._report.problems)
        fields = Table({key.name: key for key in group.keys}, self._sources, self._report).read(here, table)
        if len(self._report.problems) > before or self._sources.problems:
            raise Wrong  # what is missing may stand in a file that could not be read
        _check_one_of(group, table)
        return group.make(fields)

    def _each(self, here: KeyPath, each: Each, table: Mapping[str, object]) -> dict[str, Any]:
        faults: list[Fault] = []
        values: dict[str, Any] = {}
        for name, value in table.items():
            try:
                values[name] = each.item.read(value, self._sources.base((*here, name)))
            except Wrong as wrong:
                faults += [fault._replace(below=(name, *fault.below)) for fault in wrong.faults]
        if faults:
            raise Wrong(*faults)
        return values

    def _key(self, name: str) -> Key | None:
        """The name of a GPU leads to the row that stands for all of them, whose own name nobody writes."""
        return None if name == EACH_GPU else self._known.get(EACH_GPU if GPU.fullmatch(name) else name)

    def _unknown(self, path: KeyPath, value: object) -> None:
        name = path[-1]
        valid = [key.name for key in self._known.values() if key.built]
        near = nearest(name, self._known)
        if path[0] == "models" and is_model(value):
            remedy = f'a name with a dot is quoted: [models."{path[1]}.{name}"]'
        elif elsewhere := _elsewhere(name, path):
            remedy = f"it belongs to {elsewhere}"
        elif near == EACH_GPU:
            remedy = "GPUs are called gpu0, gpu1, …: 'lazyctl status' lists them"
        elif len(path) <= 3 and (group := _group_of(name)):
            remedy = f"it belongs to {_below(path, group)}"
        elif near:
            remedy = f"did you mean {near}?"
        elif len(path) > 3:
            remedy = _list(valid)
        elif path[0] == "models":
            remedy = f"if it is for the runtime, put it under [{key_text((*path[:2], 'options'))}]; {_list(valid)}"
        else:
            remedy = _list(valid)
        self._report.wrong(path, "unknown key", remedy)


def is_model(value: object) -> bool:
    """Whether it looks like a model's table, and so stands in another by mistake: ``[models.qwen2.5]``."""
    return isinstance(value, dict) and "runtime" in value


def _elsewhere(name: str, path: KeyPath) -> str | None:
    """The table that has a key of this name. `path` is where it stands now."""
    if len(path) > 3:  # in a table inside a model's
        group = _group_of(name)
        return _below(path, group) if group else f"[{key_text(path[:2])}]" if name in MODEL else None
    places = (
        ("daemon", "[daemon]", DAEMON),
        ("budget", "[budget]", BUDGET),
        ("fetch", "[fetch]", FETCH),
        ("models", "[models.NAME]", MODEL),
    )
    return next((shown for place, shown, known in places if place != path[0] and name in known), None)


def _group_of(name: str) -> str | None:
    """The table inside a model's that has a key of this name."""
    return next((group for group, known in _GROUPS.items() if name in known), None)


def _below(path: KeyPath, group: str) -> str:
    return f"[{key_text((*path[:2], group))}]" if path[0] == "models" else f"[models.NAME.{group}]"


def _check_one_of(group: Group, table: Mapping[str, object]) -> None:
    """Raises `Wrong` unless exactly one of them stands there."""
    given = [name for name in group.one_of if name in table]
    either = " or ".join(group.one_of)
    if len(given) > 1:
        raise Wrong(Fault(f"{' and '.join(given)} stand together", f"write {either}, not both", (given[-1],)))
    if group.one_of and not given:
        raise Wrong(Fault(f"missing: {either}", "say what answers"))


def _list(names: Iterable[str]) -> str:
    return f"valid: {', '.join(names)}"
