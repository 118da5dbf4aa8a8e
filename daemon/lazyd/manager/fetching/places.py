"""Where what a model's URL names will be found: it follows from the URL alone, and so stands in the spec."""

from __future__ import annotations

import os

import msgspec

from lazyd import places, urls
from lazyd.core.spec import Config, ModelSpec


def placed(config: Config, state: str) -> Config:
    """The same, where each spec says where what its URL names will be."""
    root = places.fetched_dir(state)
    found = {key: _placed(spec, root) for key, spec in config.models.items() if urls.is_url(spec.path)}
    return msgspec.structs.replace(config, models={**config.models, **found}) if found else config


def _placed(spec: ModelSpec, root: str) -> ModelSpec:
    assert spec.path is not None
    folder = os.path.join(root, "models", urls.key_of(spec.path, spec.sha256))
    whole = urls.is_folder(spec.path)
    return msgspec.structs.replace(spec, fetched=folder if whole else os.path.join(folder, urls.name_of(spec.path)))


def key_of(spec: ModelSpec) -> str | None:
    """Under which name what its URL names is kept; None: it has none."""
    return urls.key_of(spec.path, spec.sha256) if spec.path is not None and urls.is_url(spec.path) else None
