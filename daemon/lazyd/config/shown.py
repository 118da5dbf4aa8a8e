"""A spec as it is shown to people and programs: in the words of the configuration, without secrets."""

from __future__ import annotations

from ..core.spec import ModelSpec, Tier
from . import keys


def shown(spec: ModelSpec) -> dict[str, object]:
    """What a TOML table (or ``Register``) would say for this spec, defaults filled in.

    The values of `env` are masked; `env_file` is named and never read here.
    """
    table: dict[str, object] = {}
    for key in keys.MODEL:
        if key.kind is None:
            continue
        value = getattr(spec, key.target)
        if _says_nothing(key, value):
            continue
        table[key.name] = key.kind.show(value.value if isinstance(value, Tier) else value)
    return table


def _says_nothing(key: keys.Key, value: object) -> bool:
    """Whether the key is not set and has no default: None means never for the two durations alone."""
    if value is None:
        return not key.target.endswith("_s")
    return key.default is None and value in ((), {})
