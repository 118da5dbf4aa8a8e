"""What differs between two configurations, for the answer of Reload."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from ..core.spec import Config, ModelSpec


class Changes(NamedTuple):
    """Keys of models, sorted."""

    added: tuple[str, ...]
    changed: tuple[str, ...]
    removed: tuple[str, ...]


def diff(old: Config, new: Config) -> Changes:
    """Which models a new configuration adds, changes and removes. Moving one between files changes nothing."""
    return Changes(
        added=tuple(sorted(new.models.keys() - old.models.keys())),
        changed=tuple(
            sorted(key for key in old.models.keys() & new.models.keys() if differ(old.models[key], new.models[key]))
        ),
        removed=tuple(sorted(old.models.keys() - new.models.keys())),
    )


def differ(old: ModelSpec, new: ModelSpec) -> bool:
    """Whether two specs say different things of the model, wherever they stand and its files are."""
    same = {name: getattr(new, name) for name in ("source", "found_by", "fetched")}
    return old != new and msgspec.structs.replace(old, **same) != new
