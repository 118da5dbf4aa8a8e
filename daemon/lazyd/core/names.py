"""Which model a name means.

A name is looked up as it stands, then as an alias, then as a name whose version was left out
(the highest version answers), then as a member of a family.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .spec import ModelSpec

MAX_NAME = 100
"""Characters of a member's name: it comes from outside, and becomes the name of a log file."""

MAX_COMPARED = 200

MARK = "#"
"""Stands before the number of a replica in its name, ``x#2`` or ``x#2:1``. No model that people name has it."""

MAX_ALIASES = 8
"""An alias may name an alias, but not for ever."""


def split(name: str) -> tuple[str, str]:
    """``name:version`` -> (name, version); the version may be empty."""
    head, _, version = name.partition(":")
    return head, version


def replica_key(key: str, number: int) -> str:
    """The name of a model's worker of that number, see `replicas`; the first has the model's own."""
    name, version = split(key)
    marked = name if number == 1 else f"{name}{MARK}{number}"
    return f"{marked}:{version}" if version else marked


def model_key(key: str) -> str:
    """The model that a replica is one of: ``x:1`` of ``x#2:1``."""
    if MARK not in key:
        return key
    name, version = split(key)
    name = name.partition(MARK)[0]
    return f"{name}:{version}" if version else name


def version_order(version: str) -> tuple[tuple[int, int, str], ...]:
    """Sorts versions as people count: 10 after 9, v10 too. One that begins with a word is below all that begin with a
    number: a directory ``old`` beside ``1`` and ``2`` is not the newest. Further on words follow numbers."""
    parts = re.findall(r"\d+|[^\d.\-_]+", re.sub(r"^[vV](?=\d)", "", version))
    order = [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts]
    if order and not parts[0].isdecimal():
        order[0] = (-1, 0, parts[0])
    return tuple(order)


def member_part(pattern: str, name: str) -> str | None:
    """The part of `name` that the ``*`` of a family's pattern matches, or None."""
    head, _, tail = pattern.partition("*")
    part = name[len(head) : len(name) - len(tail)]
    matches = name == head + part + tail and part and len(name) <= MAX_NAME and part.isprintable()
    return part if matches and MARK not in part else None


def end_of(name: str, named: Mapping[str, str], specs: Mapping[str, ModelSpec]) -> str:
    """What a name leads to at last: an alias may name an alias, or a name without a version."""
    for _ in range(MAX_ALIASES):
        if name in specs or name not in named:
            break
        name = named[name]
    return name


def resolve(name: str, specs: Mapping[str, ModelSpec], aliases: Mapping[str, str]) -> tuple[str, ModelSpec] | None:
    """The full key of the model that `name` means, and its spec (a member's is its family's)."""
    name = end_of(name, aliases, specs)
    spec = specs.get(name)
    if spec is not None:
        return None if spec.is_family else (name, spec)
    head, version = split(name)
    if not version:
        versions = [spec for spec in specs.values() if spec.name == name and not spec.is_family]
        if versions:
            newest = max(versions, key=lambda spec: version_order(spec.version))
            return newest.key, newest
    for spec in specs.values():
        if spec.is_family and spec.version == version and member_part(spec.name, head):
            return name, spec
    return None


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most like `name`, to be shown with `ModelNotFound`.

    Comparing takes 20 us a name, and whoever repeats a wrong name may not hold up all others: of many
    names only those that begin alike are compared, and of these not more than `MAX_COMPARED`.
    """
    import difflib  # only who misspells a name needs it

    names = list(known)
    if len(names) > MAX_COMPARED:
        names = [other for other in names if other[:2] == name[:2]][:MAX_COMPARED]
    close = difflib.get_close_matches(name, names, n=1)
    return close[0] if close else None
