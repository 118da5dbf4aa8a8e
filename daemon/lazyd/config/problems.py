"""What is wrong with a configuration: one line a problem, with file, key and remedy."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

import msgspec

KeyPath = tuple[str, ...]
"""The way to a key: ``("models", "ocr:3", "idle_timeout")``."""

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_MANY = 500


class Problem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that is wrong, or, among the warnings, probably not meant."""

    file: str
    what: str
    remedy: str
    key: str = ""
    """As it is written in TOML, dotted; empty: the file as a whole."""
    line: int | None = None

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return one_line(": ".join(part for part in (place, self.key, f"{self.what}; {self.remedy}") if part))


class Fault(NamedTuple):
    """What is wrong with a value, before it is known where the value stands."""

    what: str
    remedy: str
    below: KeyPath = ()
    """The key inside the value, where the value is a table."""


class Wrong(ValueError):
    """A value cannot be accepted, for one or more reasons."""

    def __init__(self, *faults: Fault) -> None:
        super().__init__("; ".join(f"{fault.what}; {fault.remedy}" for fault in faults))
        self.faults = faults


class Report:
    """Collects all problems and warnings; `locate` tells the file and line of a key."""

    def __init__(self, locate: Callable[[KeyPath], tuple[str, int | None]]) -> None:
        self.problems: list[Problem] = []
        self.warnings: list[Problem] = []
        self.models: set[str] = set()
        """Keys of the models that something is wrong with."""
        self._locate = locate

    def wrong(self, path: KeyPath, what: str, remedy: str) -> None:
        self.problems.append(self._problem(path, what, remedy))
        if path[0] == "models":
            self.models.update(path[1:2])

    def warn(self, path: KeyPath, what: str, remedy: str) -> None:
        self.warnings.append(self._problem(path, what, remedy))

    def _problem(self, path: KeyPath, what: str, remedy: str) -> Problem:
        file, line = self._locate(path)
        return Problem(file=file, line=line, key=key_text(path), what=what, remedy=remedy)


def key_text(path: Iterable[str]) -> str:
    """A key as TOML writes it: ``models."ocr:3".idle_timeout``."""
    return ".".join(part if _BARE.fullmatch(part) else quoted(part) for part in path)


def quoted(text: str, limit: int = 80) -> str:
    """The text in double quotes, shortened, and on one line whatever it holds."""
    short = text if len(text) <= limit else text[: limit - 1] + "…"
    return '"' + one_line(short.replace("\\", "\\\\").replace('"', '\\"')) + '"'


def one_line(text: str) -> str:
    """The text with everything that could break a line or a terminal escaped."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def nearest(word: str, valid: Iterable[str]) -> str | None:
    """The valid word that was probably meant."""
    import difflib  # only a wrong configuration needs it

    words = list(valid)
    if len(words) > _MANY:  # comparing with 10,000 names takes a second
        words = [w for w in words if w[:1] == word[:1] and abs(len(w) - len(word)) < 4]
    found = difflib.get_close_matches(word, words, n=1, cutoff=0.6)
    return found[0] if found else None


def choose(word: str, valid: Iterable[str]) -> str:
    """A remedy: the nearest valid word, or all of them where none is near."""
    words = list(valid)
    near = nearest(word, words)
    return f"did you mean {near}?" if near else f"valid: {', '.join(words)}"
