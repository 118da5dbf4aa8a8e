"""Configurations to compare with, and what can be compared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from lazyd.core.names import resolve
from lazyd.core.spec import Config, ModelSpec, Prewarm, PrewarmWhen

from .facts import Use


def without_learning(config: Config) -> Config:
    """The same, but idle times are as they are given and nothing is loaded because it was learned. Schedules stay."""

    def fixed(spec: ModelSpec) -> ModelSpec:
        is_learned = spec.prewarm.when is PrewarmWhen.LEARNED
        return msgspec.structs.replace(spec, prewarm=Prewarm(when=PrewarmWhen.OFF)) if is_learned else spec

    models = {key: fixed(spec) for key, spec in config.models.items()}
    return msgspec.structs.replace(config, models=models)


def of_all(uses: Iterable[Use]) -> Config:
    """One with a model for each that was used, and everything as it is by default."""
    models: dict[str, ModelSpec] = {}
    for use in uses:
        if use.model not in models:
            name, _, version = use.model.partition(":")
            models[use.model] = ModelSpec(name=name, version=version, runtime="python")
    return Config(models=models)


def unknown(uses: Iterable[Use], config: Config) -> Mapping[str, int]:
    """How many uses there are of each model that a configuration does not have."""
    known: dict[str, bool] = {}
    counted: dict[str, int] = {}
    for use in uses:
        if use.model not in known:
            known[use.model] = resolve(use.model, config.models, config.aliases) is not None
        if not known[use.model]:
            counted[use.model] = counted.get(use.model, 0) + 1
    return counted
