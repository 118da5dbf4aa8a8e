"""Which zygotes are likely to be needed: what the host may start before anybody asks."""

from __future__ import annotations

from collections.abc import Hashable

from lazyd.core.spec import Config, ModelSpec, Tier


def likely(config: Config, pins: frozenset[str]) -> list[ModelSpec]:
    """One spec for each zygote that models could share, residents' and pinned models' first.

    No more than `max_zygotes`: a host with more of them would end the first for the last.
    """
    first = sorted(
        config.models.values(), key=lambda spec: not (spec.tier is Tier.RESIDENT or spec.pin or spec.key in pins)
    )
    found: dict[Hashable, ModelSpec] = {}
    for spec in first:
        found.setdefault(_zygote(spec), spec)
        if len(found) >= config.settings.max_zygotes:
            break
    return list(found.values())[: config.settings.max_zygotes]


def _zygote(spec: ModelSpec) -> Hashable:
    return spec.runtime, spec.python, spec.python_path, tuple(sorted(spec.env.items())), spec.env_file
