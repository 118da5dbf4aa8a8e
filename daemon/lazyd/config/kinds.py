"""The kinds of single values that a key can have: how each is read, shown again, and called in words.

`read` takes what TOML (or JSON) gave and answers what a spec holds; it raises `Wrong` with
every fault of the value at once. `base` is the directory that relative paths start from.
`show` is the way back: what a person would write for the value.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from ..urls import EXTRAS, is_url, masked, scheme
from .given import described, short, string
from .problems import Fault, Wrong, choose, quoted
from .quantities import (
    parse_duration,
    parse_factor,
    parse_fraction,
    parse_size,
    show_duration,
    show_factor,
    show_fraction,
    show_size,
)

_ATTRIBUTE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)
_SHA256 = re.compile(r"[0-9a-f]{64}")


class Kind(Protocol):
    @property
    def words(self) -> str:
        """What it is, as documentation says it."""

    def read(self, value: object, base: str, /) -> Any: ...

    def show(self, value: Any) -> object: ...


class Plain:
    """Shown as it is held."""

    def show(self, value: Any) -> object:
        return value


@dataclass(frozen=True)
class Duration:
    never: bool = False
    """``"never"`` is accepted, and held as None."""
    nothing: bool = True
    """``"0s"`` makes sense."""

    @property
    def words(self) -> str:
        return 'duration, or "never"' if self.never else "duration"

    def read(self, value: object, _base: str) -> float | None:
        text = string(value, "a duration in quotes with its unit", '"10min"')
        if text != "never":
            seconds = parse_duration(text)
            if seconds or self.nothing:
                return seconds
            raise Wrong(Fault("no time at all", 'write a duration above "0s"'))
        if self.never:
            return None
        raise Wrong(Fault('"never" makes no sense here', 'write a duration, as "10min"'))

    def show(self, value: float | None) -> object:
        return "never" if value is None else show_duration(value)


@dataclass(frozen=True)
class Size:
    words: str = "size"
    nothing: bool = False
    """``"0B"`` makes sense."""

    def read(self, value: object, _base: str) -> int:
        size = parse_size(string(value, "a size in quotes with its unit", '"700MiB"'))
        return size if self.nothing else _positive(size)

    def show(self, value: int) -> object:
        return show_size(value)


@dataclass(frozen=True)
class Fraction:
    words: str = "percentage"

    def read(self, value: object, _base: str) -> float:
        return parse_fraction(string(value, "a percentage in quotes", '"80%"'))

    def show(self, value: float) -> object:
        return show_fraction(value)


@dataclass(frozen=True)
class SizeOrFraction:
    """A float is a fraction, an int is bytes."""

    words: str = "size or percentage"

    def read(self, value: object, _base: str) -> float | int:
        text = string(value, "a size or a percentage in quotes", '"20GiB" or "80%"')
        return parse_fraction(text) if text.rstrip().endswith("%") else _positive(parse_size(text))

    def show(self, value: float | int) -> object:
        return show_fraction(value) if isinstance(value, float) else show_size(value)


@dataclass(frozen=True)
class Bool(Plain):
    words: str = "true or false"

    def read(self, value: object, _base: str) -> bool:
        if isinstance(value, bool):
            return value
        raise Wrong(Fault(f"expected true or false, not {described(value)}", "write true or false, without quotes"))


@dataclass(frozen=True)
class Count(Plain):
    least: int
    most: int

    @property
    def words(self) -> str:
        return f"whole number, {self.least} to {self.most}"

    def read(self, value: object, _base: str) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            raise Wrong(
                Fault(f"expected a whole number, not {described(value)}", f"write one, as {max(self.least, 0) or 4}")
            )
        if not self.least <= value <= self.most:
            raise Wrong(Fault(f"{short(value)} is out of range", f"write {self.least} to {self.most}"))
        return value


@dataclass(frozen=True)
class Factor:
    """How many times as much, above once: ``"3x"``."""

    words: str = "factor, as 3x"

    def read(self, value: object, _base: str) -> float:
        return parse_factor(string(value, "a factor in quotes", '"3x"'))

    def show(self, value: float) -> object:
        return show_factor(value)


@dataclass(frozen=True)
class Part(Plain):
    """A part of a whole. Without a unit too: it has none."""

    words: str = "number from 0 to 1, or percentage"

    def read(self, value: object, _base: str) -> float:
        if isinstance(value, str):
            return parse_fraction(value)
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise Wrong(Fault(f"expected a number from 0 to 1, not {described(value)}", "write it as 0.2"))
        if not 0 <= value <= 1:
            what = short(value) if math.isfinite(value) else str(value)
            raise Wrong(Fault(f"{what} is out of range", "write 0 to 1"))
        return float(value)


@dataclass(frozen=True)
class Text(Plain):
    """A string that is not empty."""

    what: str = "a text"
    example: str = '"word"'
    words: str = "string"

    def read(self, value: object, _base: str) -> str:
        text = string(value, f"{self.what} in quotes", self.example)
        if text.strip():
            return text
        raise Wrong(Fault(f"{quoted(text)} is not {self.what}", f"write it as {self.example}"))


@dataclass(frozen=True)
class OneOf(Plain):
    words_allowed: tuple[str, ...]
    made: Callable[[str], str] = str
    """An enum of these words."""

    @property
    def words(self) -> str:
        return " | ".join(self.words_allowed)

    def read(self, value: object, _base: str) -> str:
        text = string(value, f"one of {', '.join(self.words_allowed)}", quoted(self.words_allowed[0]))
        if text not in self.words_allowed:
            raise Wrong(Fault(f"{quoted(text)} is not known", choose(text, self.words_allowed)))
        return self.made(text)

    def show(self, value: str) -> object:
        return str(value)


@dataclass(frozen=True)
class Path(Plain):
    """Relative ones start from the directory of the file that has them, ``~/`` from home."""

    words: str = "path"
    urls: bool = False
    """It may be a URL."""

    def read(self, value: object, base: str) -> str:
        text = string(value, "a path in quotes", '"/var/lib/lazyd/models/gemma.gguf"')
        if not text or "\0" in text:
            raise Wrong(Fault(f"{quoted(text)} is not a path", "write the path of a file"))
        if is_url(text) and self.urls:
            return _url(text)
        if is_url(text):
            raise Wrong(Fault(f"{quoted(masked(text))} is not a path", "write the path of a file on this machine"))
        full = os.path.expanduser(text)
        if full.startswith("~"):
            raise Wrong(Fault(f"{quoted(text)} names an unknown home", "write the whole path"))
        if not base and not full.startswith("/"):
            raise Wrong(Fault(f"{quoted(text)} starts from no directory", "write the whole path"))
        return os.path.normpath(os.path.join(base, full))

    def show(self, value: str) -> object:
        return masked(value)


@dataclass(frozen=True)
class Sha256(Plain):
    """64 hexadecimal digits; as sha256sum prints them."""

    words: str = "SHA-256, in hexadecimal"

    def read(self, value: object, _base: str) -> str:
        text = string(value, "a SHA-256 in quotes", '"9f86d0…", as sha256sum prints it').lower()
        if not _SHA256.fullmatch(text):
            raise Wrong(Fault(f"{quoted(text)} is not a SHA-256", "write the 64 digits that sha256sum prints"))
        return text


@dataclass(frozen=True)
class Program(Plain):
    words: str = "path of an interpreter"

    def read(self, value: object, base: str) -> str:
        text = string(value, "the path of a Python interpreter", '"/opt/tts/venv/bin/python"')
        if "/" not in text:
            raise Wrong(Fault(f"{quoted(text)} is not a path", 'write the whole path, as "/opt/tts/venv/bin/python"'))
        # Links are not followed: a virtual environment's interpreter is one, and its place matters.
        return Path().read(value, base)


@dataclass(frozen=True)
class Module(Plain):
    words: str = "name of a module"

    def read(self, value: object, _base: str) -> str:
        text = string(value, "a module in quotes", '"tensorflow"')
        if all(part.isidentifier() for part in text.split(".")):
            return text
        raise Wrong(Fault(f"{quoted(text)} is not a module", 'write "package.module"'))


@dataclass(frozen=True)
class Attribute(Plain):
    words: str = '"module:attribute"'

    def read(self, value: object, _base: str) -> str:
        text = string(value, "a factory in quotes", '"package.module:function"')
        if not _ATTRIBUTE.fullmatch(text):
            raise Wrong(Fault(f"{quoted(text)} is not a factory", 'write "package.module:function"'))
        return text


def _url(text: str) -> str:
    """A URL from which files are fetched. Raises `Wrong`."""
    if scheme(text) not in EXTRAS:
        known = ", ".join(f"{name}://" for name in EXTRAS)
        raise Wrong(Fault(f"nothing is fetched from {quoted(scheme(text) + '://')}", f"understood: {known}"))
    if not text.partition("://")[2].strip("/"):
        raise Wrong(Fault(f"{quoted(masked(text))} names no file", "write the whole URL, as s3://bucket/model.gguf"))
    return text


def _positive(size: int) -> int:
    if size > 0:
        return size
    raise Wrong(Fault("nothing at all", "write a size above 0"))
