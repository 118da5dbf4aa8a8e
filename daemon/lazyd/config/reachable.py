"""Whether the files that a configuration names are there and may be read."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator

from ..core.spec import Config, ModelSpec, Warmup
from ..urls import is_url
from .problems import KeyPath, nearest, quoted
from .recipes import find

_HINTS = 20
"""Beyond so many missing files a nearest name is not searched: a file system that is not
mounted must not cost a listing for each of 10,000 models."""

FILES = ("llama_cpp", "onnx", "torchscript")
"""Runtimes of which a model is a file, and no directory."""

Tell = Callable[[KeyPath, str, str], None]


def check(config: Config, tell: Tell) -> None:
    """Call ``tell(key, what, remedy)`` for each path that the user of this process cannot use."""
    look = _Look()
    for spec in config.models.values():
        for below, path, problem in look.at(spec):
            tell(("models", spec.key, *below), f"{quoted(path, 200)} {problem}", look.remedy(path))


class _Look:
    def __init__(self) -> None:
        self._hints = _HINTS

    def at(self, spec: ModelSpec) -> list[tuple[KeyPath, str, str]]:
        """Key, path and what is wrong with it."""
        looked: list[tuple[KeyPath, str, str | None]] = []
        if spec.path and not is_url(spec.path):
            looked.append((("path",), spec.path, _file(spec.path, directory=spec.runtime not in FILES)))
        if spec.env_file:
            looked.append((("env_file",), spec.env_file, _file(spec.env_file)))
        if spec.python:
            looked.append((("python",), spec.python, _program(spec.python)))
        if spec.command and "/" in spec.command[0]:
            looked.append((("command",), spec.command[0], _program(spec.command[0])))
        if spec.directory:
            looked.append((("directory",), spec.directory, _file(spec.directory, directory=True)))
        looked += [(("python_path",), path, _file(path, directory=True)) for path in spec.python_path]
        if spec.warmup:
            looked += [(below, path, _file(path)) for below, path in _recipes(spec.warmup)]
        return [(below, path, problem) for below, path, problem in looked if problem]

    def remedy(self, path: str) -> str:
        try:
            mode = os.stat(path).st_mode
            if stat.S_ISDIR(mode):
                return "name the file in it"
            return "let lazyd's user read it" if stat.S_ISREG(mode) else "name a file"
        except PermissionError:
            return "let lazyd's user into its directory"
        except OSError:
            pass
        self._hints -= 1
        if self._hints >= 0:
            try:
                near = nearest(os.path.basename(path), os.listdir(os.path.dirname(path)))
            except OSError:
                return "its directory is not there either, or not to be read"
            if near:
                return f"did you mean {near}?"
        return "put it there, or correct the path"


def _recipes(warmup: Warmup) -> Iterator[tuple[KeyPath, str]]:
    """The files that a warm-up's arguments are read from."""
    for name, value in (("args", warmup.args), ("kwargs", warmup.kwargs)):
        for found in find(value, ("warmup", name)):
            if "file" in found.recipe:
                yield (*found.below, "file"), found.recipe["file"]


def _file(path: str, *, directory: bool = False) -> str | None:
    try:
        mode = os.stat(path).st_mode
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    if stat.S_ISDIR(mode):
        return None if directory and _may(path, os.R_OK | os.X_OK) else "is a directory" if not directory else _DENIED
    if not stat.S_ISREG(mode):
        return "is not a file"
    return None if _may(path, os.R_OK) else _DENIED


def _program(path: str) -> str | None:
    problem = _file(path)
    return problem if problem else None if _may(path, os.X_OK) else "cannot be executed"


_DENIED = "cannot be read: Permission denied"


def _may(path: str, mode: int) -> bool:
    return os.access(path, mode, effective_ids=os.access in os.supports_effective_ids)
