"""Patterns of paths: ``/srv/models/**/*.gguf``, and ``/srv/ocr/${version}/det.onnx``.

A pattern is read one name of the path at a time. What stands before the first name that is not plain text is its
root. ``*``, ``?`` and ``[…]`` match within a name, never a dot at its beginning; ``**`` by itself matches any
directories, or none; ``${version}`` matches a version, the same wherever it stands.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

VERSION = "${version}"
ANY_DEPTH = "**"
_VERSION = r"[A-Za-z0-9_][A-Za-z0-9_.+-]*"
_WILD = re.compile(r"[*?\[]")


@dataclass(frozen=True)
class Step:
    """One name of a path."""

    text: str
    regex: re.Pattern[str] | None
    """What the name has to match; None: any directory, at any depth."""

    @property
    def is_plain(self) -> bool:
        return self.regex is not None and VERSION not in self.text and not _WILD.search(self.text)


@dataclass(frozen=True)
class Pattern:
    """`root` is a directory, `steps` are the names below it."""

    text: str
    root: str
    steps: tuple[Step, ...]


def pattern(text: str, *, wild: bool = True) -> Pattern:
    """Reads a whole path that is a pattern. `wild` false: ``*`` and its like are plain text, as in a file's name."""
    names = [name for name in text.split("/") if name]
    first = next((n for n, name in enumerate(names) if VERSION in name or (wild and _WILD.search(name))), len(names))
    first = min(first, len(names) - 1)
    steps = tuple(_step(name, wild) for name in names[first:])
    return Pattern(text=text, root="/" + "/".join(names[:first]), steps=steps)


def is_layout(path: str | None) -> bool:
    """Whether a model's path is of several versions."""
    return path is not None and VERSION in path


def is_pattern(path: str) -> bool:
    """Whether it matches more than one name."""
    return _WILD.search(path) is not None


def filled(value: object, version: str) -> object:
    """The value with the version in its texts, however deep."""
    if isinstance(value, str):
        return value.replace(VERSION, version)
    if isinstance(value, dict):
        return {key: filled(item, version) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(filled(item, version) for item in value)
    return value


def with_version(steps: tuple[Step, ...], version: str) -> tuple[Step, ...]:
    """The steps left when the version is known."""
    return tuple(_plain(step.text.replace(VERSION, version)) if VERSION in step.text else step for step in steps)


def _step(name: str, wild: bool) -> Step:
    if wild and name == ANY_DEPTH:
        return Step(name, None)
    if not wild or not _WILD.search(name):
        return Step(name, re.compile(_versioned(re.escape(name)), re.DOTALL))
    import fnmatch  # few configurations need it

    visible = "" if name.startswith(".") else r"(?!\.)"
    return Step(name, re.compile(visible + fnmatch.translate(name), re.DOTALL))


def _plain(name: str) -> Step:
    return Step(name, re.compile(re.escape(name), re.DOTALL))


def _versioned(escaped: str) -> str:
    """The first ``${version}`` of a name captures it, any other has to be equal."""
    first, *rest = escaped.split(re.escape(VERSION))
    if not rest:
        return first
    return f"{first}(?P<version>{_VERSION}){'(?P=version)'.join(rest)}"


def stem_and_ending(path: str) -> tuple[str, str]:
    """``/srv/gemma.Q4.gguf`` -> (``gemma.Q4``, ``.gguf``)."""
    return os.path.splitext(os.path.basename(path))
