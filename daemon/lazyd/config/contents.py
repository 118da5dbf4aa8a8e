"""Whether models can be loaded as they are described: what their runtimes say of their options and files.

For who checks a configuration. The daemon does not look so closely at a start or a reload: that would read of every
model's file, and a file may come later. What is told here is what would make a load fail.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import msgspec

from ..core.spec import ModelSpec
from ..runtimes import Runtime, option_tables, runtime_named
from ..urls import is_url
from .problems import KeyPath, one_line
from .reachable import Tell
from .tables import MODEL

CONSEQUENCE = "as it is, no load of it succeeds"


def check(models: Iterable[ModelSpec], unreadable: Collection[str], tell: Tell) -> None:
    """Call ``tell(key, what, remedy)`` for each option and each file that a model's runtime refuses.

    Of models whose key is in `unreadable` something else is wrong, and their files are not looked at. Blocks.
    """
    for spec in models:
        if not spec.runtime:
            continue
        runtime = runtime_named(spec.runtime)
        wrong = _options(spec, runtime, tell)
        if spec.key not in unreadable and not is_url(spec.path):
            _files(spec, runtime, wrong, tell)


def _options(spec: ModelSpec, runtime: Runtime, tell: Tell) -> set[str]:
    """The names of those that are wrong."""
    table = runtime.options()
    wrong = set()
    for name, reason in () if table is None else option_tables.faults(spec.options, table, runtime.name):
        wrong.add(name)
        what, _, remedy = reason.partition("; ")
        if name not in MODEL:  # of which it has been told that it belongs to the model
            tell(("models", spec.key, "options", name), one_line(what), one_line(remedy or CONSEQUENCE))
    return wrong


def _files(spec: ModelSpec, runtime: Runtime, wrong: Collection[str], tell: Tell) -> None:
    described: dict[str, Any] = msgspec.to_builtins(spec)
    described["options"] = {name: value for name, value in spec.options.items() if name not in wrong}
    here: KeyPath = ("models", spec.key, *(("path",) if spec.path else ()))
    try:
        runtime.needs(described)
    except OSError as error:
        tell(here, f"{error.filename or spec.path} cannot be read: {error.strerror or error}", CONSEQUENCE)
    except ValueError as error:
        tell(here, one_line(" ".join(str(error).split())), CONSEQUENCE)
