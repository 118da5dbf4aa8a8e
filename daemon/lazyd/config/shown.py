"""A spec as it is shown to people and programs: in the words of the configuration, without secrets."""

from __future__ import annotations

from ..core.spec import ModelSpec
from . import keys, rows


def shown(spec: ModelSpec) -> dict[str, object]:
    """What a TOML table (or ``Register``) would say for this spec, defaults filled in.

    The values of `env` are masked; `env_file` is named and never read here.
    """
    return rows.show(keys.MODEL, spec)
