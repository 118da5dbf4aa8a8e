"""What was found on the disk -> specs: of a pattern's files, and of the versions of a layout."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import msgspec

from ..core.names import version_order
from ..core.spec import REGISTERED, Config, ModelSpec
from . import whole
from .names import split_key
from .patterns import filled, is_layout, pattern, stem_and_ending
from .problems import Problem, Wrong, quoted
from .walking import Found, Scan, scan

RUNTIMES = {
    ".gguf": "llama_cpp",
    ".onnx": "onnx",
    ".pt": "torchscript",
    ".pt2": "torchscript",
    ".jit": "torchscript",
    ".pdmodel": "paddle",
    ".json": "paddle",
}
"""What loads a file, by its ending."""
NAMES_NOTHING = ("model", "inference")
"""Files that are called so in many directories: the directory's name is the model's."""
KEPT_BACK = 2
"""So many versions are configured where the latest is wanted: it, and the one to go back to."""
_FILLED = ("path", "env", "env_file", "python_path", "options")
"""Where ``${version}`` may stand."""
_ODD = re.compile(r"[^A-Za-z0-9_.-]+")


def look(templates: Iterable[ModelSpec], before: Config | None, closed: Iterable[str] = ()) -> Scan:
    """What the templates' patterns mean now. What was found `before` stays while it is there. Blocks on the disk."""
    known = {spec.path for spec in before.models.values() if spec.found_by and spec.path} if before is not None else ()
    of_paths = {template.path or "": is_layout(template.path) for template in templates}
    return scan([pattern(path, wild=not layout) for path, layout in of_paths.items()], frozenset(closed), known)


def specs(
    templates: Sequence[ModelSpec],
    seen: Scan,
    written: Mapping[str, ModelSpec],
    named: Collection[str] = (),
) -> tuple[dict[str, ModelSpec], list[Problem]]:
    """The models that were found, by key, and what is to be told. What is `written` down wins, by its key or path.

    What clients have registered wins by its key alone: many may describe one file, each in its own way. A version that
    is `named` by others stays as long as it is there, though it is no longer one of the latest.
    """
    taken = {spec.path for spec in written.values() if spec.source != REGISTERED}
    layouts = {template.name: template for template in templates if template.name}
    made: dict[str, ModelSpec] = {}
    warnings = [Problem(file=path, what=what, remedy=_LEFT_OUT) for path, what in seen.warnings.items()]
    by_pattern: dict[str, list[Found]] = {}
    for one in seen.found:
        by_pattern.setdefault(one.pattern.text, []).append(one)
    for template in templates:
        found = by_pattern.get(template.path or "", [])
        for spec in (
            _versions(template, found, named) if is_layout(template.path) else _files(template, found, warnings)
        ):
            other = made.get(spec.key) or layouts.get(spec.key)
            if spec.key in written or spec.path in taken:
                continue
            if other is not None:
                warnings.append(_clash(spec, other))
                continue
            taken.add(spec.path)
            made[spec.key] = spec
    return made, warnings


def _versions(template: ModelSpec, found: Sequence[Found], named: Collection[str]) -> Iterator[ModelSpec]:
    """The versions of a layout that its policy wants."""
    versions = {one.version for one in found}
    kept = {version for version in versions if f"{template.name}:{version}" in named}
    for version in chosen(versions, template.version_policy, kept):
        fields = {name: filled(getattr(template, name), version) for name in _FILLED}
        yield msgspec.structs.replace(template, version=version, found_by=template.path, **fields)


def chosen(versions: Iterable[str], policy: str | tuple[str, ...] | None, kept: Collection[str] = ()) -> list[str]:
    """Those of the versions that a policy wants, the lowest first; beside the latest, those that are `kept`."""
    ordered = sorted(versions, key=version_order)
    if policy == "all":
        return ordered
    if policy in (None, "latest"):
        return [version for version in ordered if version in kept or version in ordered[-KEPT_BACK:]]
    return [version for version in ordered if version in (policy or ())]


def _files(template: ModelSpec, found: Sequence[Found], warnings: list[Problem]) -> Iterator[ModelSpec]:
    """One model for each file of a pattern."""
    for one in found:
        runtime = template.runtime or runtime_of(one.path)
        if runtime is None:
            continue
        try:
            name, _ = split_key(name_of(one.path, one.pattern.root))
        except Wrong as wrong:
            what = f"makes no model: {wrong.faults[0].what}"
            warnings.append(Problem(file=one.path, what=what, remedy="describe it under [models]"))
            continue
        yield msgspec.structs.replace(template, name=name, runtime=runtime, path=one.path, found_by=template.path)


def runtime_of(path: str) -> str | None:
    """What loads a file, by its ending; None: nothing is known for it."""
    stem, ending = stem_and_ending(path)
    if ending == ".json" and stem != "inference":
        return None
    return RUNTIMES.get(ending)


def name_of(path: str, root: str) -> str:
    """The name that a file gives its model: its path below `root` without the ending, odd characters as ``-``.

    A file that is called ``model`` or ``inference`` gives its directory's. Of a model in several files the numbers
    are left out.
    """
    directory, file = os.path.split(os.path.relpath(path, root))
    split = whole.SPLIT.fullmatch(file)
    stem = split[1] if split else stem_and_ending(file)[0]
    parts = [part for part in directory.split("/") if part]
    if stem not in NAMES_NOTHING or not parts:
        parts.append(stem)
    return "/".join(filter(None, (_ODD.sub("-", part).strip("-.") for part in parts)))


def _clash(spec: ModelSpec, other: ModelSpec) -> Problem:
    what = f"its model would be called {quoted(spec.key)}, as that of {other.path} is"
    return Problem(file=spec.path or "", what=what, remedy="rename one, or describe it under [models]")


_LEFT_OUT = "it is left out until that is put right"
