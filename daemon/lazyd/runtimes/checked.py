"""Checks of a spec that runtimes have in common."""

from __future__ import annotations

import difflib
import os
import shutil
import stat
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

MIB = 1024 * 1024
_NOT_FILES = (
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def interpreter(spec: dict[str, Any]) -> None:
    """Raises `ValueError` if the model's own interpreter cannot be executed."""
    python = spec.get("python")
    if python and shutil.which(python) is None:
        raise ValueError(f"the interpreter {python} is missing or cannot be executed")


def file_size(path: str) -> int:
    """The size of a file that can be read. Raises `OSError`."""
    with open(path, "rb") as file:
        return os.fstat(file.fileno()).st_size


def model_file(path: str | None, runtime: str, what: str) -> int:
    """The size of a model's file, found without waiting for anything: a pipe is not opened.

    Raises:
        ValueError: it is no file, or none is named; the line says what is there, and that `what` is expected.
        OSError: it is missing, or may not be read.
    """
    if not path:
        raise ValueError(f"a model of {runtime} needs a path")
    found = os.stat(path)
    if not stat.S_ISREG(found.st_mode):
        there = next((name for is_it, name in _NOT_FILES if is_it(found.st_mode)), "something else")
        raise ValueError(f"{path} is {there}, not {what}")
    return file_size(path)


def known_options(options: Iterable[str], known: Iterable[str], what: str) -> None:
    """Raises `ValueError` for an option that the runtime's library does not have."""
    allowed = sorted(known)
    for option in options:
        if option not in allowed:
            others = f"it knows {', '.join(allowed)}" if allowed else "it has none at all"
            raise ValueError(f"{what} has no option {option!r}; {_meant(option, allowed) or others}")


def wrong(name: str, what: str, value: Any) -> ValueError:
    """The option `name` is not `what` it has to be."""
    return ValueError(f"the option {name} is {what}, not {value!r}")


def whole_number(name: str, value: Any, least: int | None = 0) -> int:
    """An option that is one. Raises `ValueError`."""
    if isinstance(value, bool) or not isinstance(value, int) or (least is not None and value < least):
        raise wrong(name, "a whole number" if least is None else f"a whole number, {least} or more", value)
    return value


def number(name: str, value: Any) -> float:
    """An option that is one. Raises `ValueError`."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise wrong(name, "a number", value)
    return value


def switch(name: str, value: Any) -> bool:
    """An option that is on or off. Raises `ValueError`."""
    if not isinstance(value, bool):
        raise wrong(name, "true or false", value)
    return value


def text(name: str, value: Any) -> str:
    """An option that is one. Raises `ValueError`."""
    if not isinstance(value, str):
        raise wrong(name, "a text in quotes", value)
    return value


def choice(name: str, value: Any, choices: Iterable[str]) -> str:
    """An option that is one of these words. Raises `ValueError`."""
    if value not in (known := tuple(choices)):
        meant = _meant(value, known) if isinstance(value, str) else None
        raise ValueError(
            f"the option {name} is one of {', '.join(known)}, not {value!r}" + (f"; {meant}" if meant else "")
        )
    return str(value)


def a_list(name: str, value: Any) -> list[Any]:
    """An option that is one. Raises `ValueError`."""
    if not isinstance(value, (list, tuple)):
        raise wrong(name, "a list", value)
    return list(value)


def a_table(name: str, value: Any) -> dict[str, Any]:
    """An option that is one. Raises `ValueError`."""
    if not isinstance(value, dict):
        raise wrong(name, "a table", value)
    return value


def _meant(word: str, known: Iterable[str]) -> str | None:
    near = difflib.get_close_matches(word, list(known), n=1)
    return f"did you mean {near[0]}?" if near else None


def trust(spec: dict[str, Any], what: str) -> None:
    """Raises `ValueError` unless the model's author is trusted: ``trust = true`` is written down for this model."""
    if not spec.get("trust"):
        raise ValueError(
            f"{spec.get('path')} is {what}: whoever loads it runs what its author wrote. "
            f"If you trust that, say trust = true in [models.{spec['name']}]"
        )
