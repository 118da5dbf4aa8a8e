"""A configuration of which only a part changes: what clients register, what is found on the disk.

The files are not read for it: an edit that nobody has asked to be put in force stays out of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from ..core.spec import Config, ModelSpec
from . import aliases, references, services
from .problems import Problem, Report, quoted


def not_found(config: Config) -> dict[str, ModelSpec]:
    """The models that were written down or registered, and not made of a template."""
    return {key: spec for key, spec in config.models.items() if not spec.found_by}


def with_found(config: Config, found: Mapping[str, ModelSpec]) -> Config:
    """The same with what the templates find now."""
    return msgspec.structs.replace(config, models={**not_found(config), **found})


def with_models(config: Config, models: Mapping[str, ModelSpec | None]) -> Config:
    """The same with these models; None: without it."""
    all_models = {**config.models, **models}
    return msgspec.structs.replace(config, models={key: spec for key, spec in all_models.items() if spec is not None})


def named(config: Config) -> set[str]:
    """Every name by which a model or an alias names another."""
    by_models = (
        name
        for spec in (*config.models.values(), *config.templates)
        for reference in references.REFERENCES
        for name in reference.named(spec)
    )
    return {*by_models, *(name for _, name in _named(config))}


def problems(config: Config) -> list[Problem]:
    """What models demand of each other, and aliases of them: what a reload would check of all of them together."""
    known = aliases.Known([*config.models, *(template.name for template in config.templates if template.name)])
    report = Report(
        lambda path: (config.models[path[1]].source if path[0] == "models" else "the configuration in force", None)
    )
    for alias in (*config.aliases, *config.splits):
        if known.has(alias):
            report.wrong(("aliases", alias), "a model has this name", "give the alias, or the model, another one")
    for alias, name in _named(config):
        if name not in config.aliases and not known.has(name):
            report.wrong(("aliases", alias), f"no model {quoted(name)}", "let the alias name another one first")
    references.check(config.models, known, config.aliases, report)
    services.check(config.models, report)
    return report.problems


def _named(config: Config) -> Iterable[tuple[str, str]]:
    """Aliases, with every model that they name."""
    yield from config.aliases.items()
    for alias, split in config.splits.items():
        yield from ((alias, name) for name in split.weights)
        if split.shadow is not None:
            yield alias, split.shadow
