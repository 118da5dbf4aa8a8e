"""The two files of a Paddle model: its program, and its parameters beside it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

from . import checked

if TYPE_CHECKING:
    from collections.abc import Mapping

PROGRAMS = (".json", ".pdmodel")
"""How programs' names end; what Paddle 3 writes is first, where a directory has both."""
PARAMETERS = ".pdiparams"
_USUAL = "inference"
_ANY_JSON = ".json"
"""Also of many files that are no programs."""
WHAT = "a program of Paddle"


class Files(NamedTuple):
    """Where they are."""

    program: str
    parameters: str


def find(spec: Mapping[str, Any]) -> Files:
    """Of a model whose ``path`` is a program, or the directory that it is in.

    Raises:
        OSError: a file is missing.
        ValueError: there is no program, or none of several is meant; or a file is none.
    """
    path = spec.get("path")
    if not path:
        raise ValueError("a paddle model needs a path")
    program = _in_directory(path) if os.path.isdir(path) else str(path)
    checked.model_file(program, "paddle", WHAT)
    stem, ending = os.path.splitext(program)
    if ending not in PROGRAMS:
        raise ValueError(f"{program} is not {WHAT}: its name does not end in {' or '.join(PROGRAMS)}")
    named = spec.get("options", {}).get("params", os.path.basename(stem) + PARAMETERS)
    parameters = os.path.join(os.path.dirname(program), checked.text("params", named))
    if not os.path.exists(parameters):
        raise ValueError(f"{parameters} is missing: the parameters of {program}; the option params names another file")
    checked.model_file(parameters, "paddle", "a file of parameters of Paddle")
    return Files(program, parameters)


def _in_directory(path: str) -> str:
    """The program in it: the one that has the usual name, or that has parameters beside it; else the only one."""
    names = set(os.listdir(path))
    found = sorted(name for name in names if name.endswith(PROGRAMS))
    usual = [_USUAL + ending for ending in PROGRAMS if _USUAL + ending in found]
    whole = [name for name in found if os.path.splitext(name)[0] + PARAMETERS in names]
    found = whole or [name for name in found if not name.endswith(_ANY_JSON)] or found
    if usual or len(found) == 1:
        return os.path.join(path, (usual or found)[0])
    if not found:
        below = sorted(name for name in names if _has_program(os.path.join(path, name)))
        advice = f"; {', '.join(below)} below it {'has' if len(below) == 1 else 'have'} one" if below else ""
        raise ValueError(f"{path} has no program of Paddle: no file whose name ends in {' or '.join(PROGRAMS)}{advice}")
    raise ValueError(f"{path} has several programs ({', '.join(found)}): name one as the path")


def _has_program(path: str) -> bool:
    try:
        return any(_USUAL + ending in os.listdir(path) for ending in PROGRAMS)
    except OSError:
        return False
