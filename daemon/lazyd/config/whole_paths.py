"""A model's table with its paths written whole, so that it means the same wherever it is read."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Mapping
from typing import Any

from . import compounds, keys, kinds, recipes
from .problems import Wrong


def with_whole_paths(table: Mapping[str, Any], base: str) -> dict[str, Any]:
    """Relative paths start from the directory `base`. What is wrong is left as it is, for who checks it."""
    made = copy.deepcopy(dict(table))
    for key in keys.MODEL:
        kind: Any = key.kind
        if key.name in made and _is_path(kind):
            with contextlib.suppress(Wrong):
                whole = kind.read(made[key.name], base)
                made[key.name] = list(whole) if isinstance(whole, tuple) else whole
    warmup = made.get("warmup")
    for given in (warmup.get("args"), warmup.get("kwargs")) if isinstance(warmup, dict) else ():
        for found in recipes.find(given, ()):
            if isinstance(found.recipe.get("file"), str):
                with contextlib.suppress(Wrong):
                    found.recipe["file"] = kinds.Path().read(found.recipe["file"], base)
    return made


def _is_path(kind: object) -> bool:
    """Whether it is a path, or a list of them."""
    inner = kind.item if isinstance(kind, compounds.Strings) else kind
    return isinstance(inner, kinds.Path | kinds.Program)
