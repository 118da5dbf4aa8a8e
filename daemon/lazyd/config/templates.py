"""Tables of which many models are made: those of ``[discover]``, and models with ``${version}`` in their path."""

from __future__ import annotations

from ..core.spec import ModelSpec
from .given import kind_of
from .patterns import ANY_DEPTH, VERSION, is_layout, is_pattern, stem_and_ending
from .problems import KeyPath, Report, key_text

__all__ = ["as_model", "check_discover", "check_layout", "is_layout"]

_ONLY_MODELS = ("path", "version_policy")
"""Keys of a model that make no sense for the files of a pattern."""


def check_layout(path: KeyPath, spec: ModelSpec, report: Report, *, registered: bool) -> None:
    """What a path with versions in it demands, and what demands one."""
    if not is_layout(spec.path):
        if spec.version_policy is not None:
            remedy = f'write {VERSION} in its path, as "/srv/ocr/{VERSION}/det.onnx", or leave it out'
            report.wrong((*path, "version_policy"), "its path has no versions to choose from", remedy)
        return
    here = (*path, "path")
    if ":" in path[1]:
        report.wrong(here, f"{VERSION} stands in it, and a version in its name", "leave one of them out")
    elif "*" in path[1]:
        report.wrong(here, "a family has no version", f"leave {VERSION} out")
    elif "://" in str(spec.path):
        report.wrong(here, f"{VERSION} can be looked for on this machine only", "write one model a version")
    elif registered:
        report.wrong(here, f"{VERSION} can stand in a configuration file only", "register one model a version")


def check_discover(path: KeyPath, table: object, report: Report) -> bool:
    """Whether a template can be made of it, which then is a table."""
    pattern = path[1]
    if not isinstance(table, dict):
        report.wrong(path, f"expected a table, not {kind_of(table)}", f"write [{key_text(path)}] and the keys below it")
        return False
    if pattern.startswith(f"/{ANY_DEPTH}"):
        report.wrong(path, "would look through the whole machine", "begin with a directory, as /srv/models/**/*.gguf")
        return False
    if not is_pattern(pattern):
        report.wrong(path, "names one file", "describe it under [models], or write a pattern, as /srv/models/*.gguf")
        return False
    for key in _ONLY_MODELS:
        if key in table:
            report.wrong((*path, key), "the files are those of the pattern", "leave it out")
    from .found import RUNTIMES, runtime_of  # few configurations need it

    _, ending = stem_and_ending(pattern)
    if "runtime" not in table and ending and not is_pattern(ending) and runtime_of(pattern) is None:
        remedy = f"write runtime; known by their ending: {', '.join(RUNTIMES)}"
        report.wrong(path, f"what loads {ending} files is not known", remedy)
    return True


def as_model(pattern: str, table: dict[str, object]) -> dict[str, object]:
    """The table as that of a model whose path is the pattern."""
    from .found import runtime_of

    runtime = runtime_of(pattern)
    known = {} if runtime is None else {"runtime": runtime}
    return {**known, **{name: value for name, value in table.items() if name not in _ONLY_MODELS}, "path": pattern}
