"""The kinds of value a key can have: how each is read, shown again, and called in words.

`read` takes what TOML (or JSON) gave and answers what a spec holds; it raises `Wrong` with
every fault of the value at once. `base` is the directory that relative paths start from.
`show` is the way back: what a person would write for the value.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import Any, Protocol

from .problems import Fault, KeyPath, Wrong, choose, quoted
from .quantities import parse_duration, parse_fraction, parse_size, show_duration, show_fraction, show_size

MAX_DEPTH = 32
"""Of tables and arrays inside `options`."""
MASK = "***"

_ATTRIBUTE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)
_GPU = re.compile(r"gpu(0|[1-9]\d{0,2})", re.ASCII)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://", re.ASCII)
_NOT_YET = "is not built yet"


class Kind(Protocol):
    @property
    def words(self) -> str:
        """What it is, as documentation says it."""

    def read(self, value: object, base: str, /) -> Any: ...

    def show(self, value: Any) -> object: ...


class _Plain:
    """Shown as it is held."""

    def show(self, value: Any) -> object:
        return value


@dataclass(frozen=True)
class Duration:
    never: bool = False
    """``"never"`` is accepted, and held as None."""

    @property
    def words(self) -> str:
        return 'duration, or "never"' if self.never else "duration"

    def read(self, value: object, _base: str) -> float | None:
        text = _string(value, "a duration in quotes with its unit", '"10min"')
        if text != "never":
            return parse_duration(text)
        if self.never:
            return None
        raise Wrong(Fault('"never" makes no sense here', 'write a duration, as "10min"'))

    def show(self, value: float | None) -> object:
        return "never" if value is None else show_duration(value)


@dataclass(frozen=True)
class Size:
    words: str = "size"

    def read(self, value: object, _base: str) -> int:
        return _positive(parse_size(_string(value, "a size in quotes with its unit", '"700MiB"')))

    def show(self, value: int) -> object:
        return show_size(value)


@dataclass(frozen=True)
class Fraction:
    words: str = "percentage"

    def read(self, value: object, _base: str) -> float:
        return parse_fraction(_string(value, "a percentage in quotes", '"80%"'))

    def show(self, value: float) -> object:
        return show_fraction(value)


@dataclass(frozen=True)
class SizeOrFraction:
    """A float is a fraction, an int is bytes."""

    words: str = "size or percentage"

    def read(self, value: object, _base: str) -> float | int:
        text = _string(value, "a size or a percentage in quotes", '"20GiB" or "80%"')
        return parse_fraction(text) if text.rstrip().endswith("%") else _positive(parse_size(text))

    def show(self, value: float | int) -> object:
        return show_fraction(value) if isinstance(value, float) else show_size(value)


@dataclass(frozen=True)
class Bool(_Plain):
    words: str = "true or false"

    def read(self, value: object, _base: str) -> bool:
        if isinstance(value, bool):
            return value
        raise Wrong(Fault(f"expected true or false, not {described(value)}", "write true or false, without quotes"))


@dataclass(frozen=True)
class Count(_Plain):
    least: int
    most: int

    @property
    def words(self) -> str:
        return f"whole number, {self.least} to {self.most}"

    def read(self, value: object, _base: str) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            raise Wrong(Fault(f"expected a whole number, not {described(value)}", f"write one, as {self.least or 4}"))
        if not self.least <= value <= self.most:
            raise Wrong(Fault(f"{short(value)} is out of range", f"write {self.least} to {self.most}"))
        return value


@dataclass(frozen=True)
class OneOf(_Plain):
    words_allowed: tuple[str, ...]
    later: tuple[str, ...] = ()

    @property
    def words(self) -> str:
        return " | ".join(self.words_allowed)

    def read(self, value: object, _base: str) -> str:
        text = _string(value, f"one of {', '.join(self.words_allowed)}", quoted(self.words_allowed[0]))
        if text in self.later:
            raise Wrong(Fault(f"{quoted(text)} {_NOT_YET}", f"built: {', '.join(self.words_allowed)}"))
        if text not in self.words_allowed:
            raise Wrong(Fault(f"{quoted(text)} is not known", choose(text, self.words_allowed + self.later)))
        return text


@dataclass(frozen=True)
class Path(_Plain):
    """Relative ones start from the directory of the file that has them, ``~/`` from home."""

    words: str = "path"
    urls_later: bool = False

    def read(self, value: object, base: str) -> str:
        text = _string(value, "a path in quotes", '"/var/lib/lazyd/models/gemma.gguf"')
        if not text or "\0" in text:
            raise Wrong(Fault(f"{quoted(text)} is not a path", "write the path of a file"))
        if _SCHEME.match(text):
            what = f"fetching {quoted(text)} {_NOT_YET}" if self.urls_later else f"{quoted(text)} is not a path"
            raise Wrong(Fault(what, "write the path of a file on this machine"))
        full = os.path.expanduser(text)
        if full.startswith("~"):
            raise Wrong(Fault(f"{quoted(text)} names an unknown home", "write the whole path"))
        return os.path.normpath(os.path.join(base, full))


@dataclass(frozen=True)
class Program(_Plain):
    words: str = "path of an interpreter"

    def read(self, value: object, base: str) -> str:
        text = _string(value, "the path of a Python interpreter", '"/opt/tts/venv/bin/python"')
        if "/" not in text:
            raise Wrong(Fault(f"{quoted(text)} is not a path", 'write the whole path, as "/opt/tts/venv/bin/python"'))
        # Links are not followed: a virtual environment's interpreter is one, and its place matters.
        return Path().read(value, base)


@dataclass(frozen=True)
class Attribute(_Plain):
    words: str = '"module:attribute"'

    def read(self, value: object, _base: str) -> str:
        text = _string(value, "a factory in quotes", '"package.module:function"')
        if not _ATTRIBUTE.fullmatch(text):
            raise Wrong(Fault(f"{quoted(text)} is not a factory", 'write "package.module:function"'))
        return text


@dataclass(frozen=True)
class Strings:
    """A list of strings; each is read as `item` says."""

    item: Kind | None = None
    words: str = "list of strings"

    def read(self, value: object, base: str) -> tuple[str, ...]:
        if not isinstance(value, list | tuple):
            raise Wrong(Fault(f"expected a list, not {described(value)}", "put it in brackets"))
        faults: list[Fault] = []
        read: list[str] = []
        for number, item in enumerate(value, 1):
            try:
                read.append(self.item.read(item, base) if self.item else _string(item, "a string", '"run"'))
            except Wrong as wrong:
                faults += [Fault(f"item {number}: {fault.what}", fault.remedy) for fault in wrong.faults]
        if faults:
            raise Wrong(*faults)
        return tuple(read)

    def show(self, value: tuple[str, ...]) -> object:
        return list(value)


@dataclass(frozen=True)
class Device:
    """Held as a tuple in order of preference; empty: any."""

    words: str = "auto | ram"

    def read(self, value: object, base: str) -> tuple[str, ...]:
        names = Strings().read([value] if isinstance(value, str) else value, base)
        faults = [fault for name in names if (fault := self._fault(name, alone=len(names) == 1))]
        if not names:
            faults = [Fault("an empty list of devices", 'write "auto" or "ram"')]
        if faults:
            raise Wrong(*faults)
        return () if names == ("auto",) else names

    def show(self, value: tuple[str, ...]) -> object:
        return list(value) if len(value) > 1 else value[0] if value else "auto"

    def _fault(self, name: str, alone: bool) -> Fault | None:
        if _GPU.fullmatch(name):
            return Fault(f"device {quoted(name)} {_NOT_YET}", 'built: "auto", "ram"')
        if name == "ram" or (name == "auto" and alone):
            return None
        if name == "auto":
            return Fault('"auto" beside other devices', "write it alone")
        return Fault(f"device {quoted(name)} is not known", choose(name, ("auto", "ram")))


@dataclass(frozen=True)
class Environment:
    """Variables of a process. Values are secrets: no message repeats one."""

    words: str = "table of strings"

    def read(self, value: object, _base: str) -> dict[str, str]:
        table = _table(value, '{OMP_NUM_THREADS = "2"}')
        faults: list[Fault] = []
        for name, text in table.items():
            if not name or "=" in name or "\0" in name:
                faults.append(Fault("not a name of a variable", "a name is not empty and has no =", (name,)))
            elif not isinstance(text, str):
                faults.append(Fault(f"expected a string, not {kind_of(text)}", "put the value in quotes", (name,)))
            elif "\0" in text:
                faults.append(Fault("the value holds a NUL character", "leave it out", (name,)))
        if faults:
            raise Wrong(*faults)
        return {name: str(text) for name, text in table.items()}

    def show(self, value: dict[str, str]) -> object:
        return dict.fromkeys(value, MASK)


@dataclass(frozen=True)
class Options(_Plain):
    """Anything that JSON can carry: it travels to the worker as JSON."""

    words: str = "table"

    def read(self, value: object, _base: str) -> dict[str, Any]:
        table = _table(value, "{n_ctx = 4096}")
        faults: list[Fault] = []
        _check_json(table, (), faults)
        if faults:
            raise Wrong(*faults)
        return dict(table)


def kind_of(value: object) -> str:
    """TOML's word for the type of a value."""
    names = {bool: "a boolean", int: "an integer", float: "a number", str: "a string", list: "a list", dict: "a table"}
    return names.get(type(value), "a date or time")


def described(value: object) -> str:
    """The value and its type, shortened."""
    return kind_of(value) if isinstance(value, list | dict) else f"{kind_of(value)} ({short(value)})"


def short(value: object) -> str:
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) and abs(value) >= 2**64:
        return "a number of more than 64 bits"  # Python refuses to print very long ones
    return str(value)


def _string(value: object, expected: str, example: str) -> str:
    if isinstance(value, str):
        return value
    raise Wrong(Fault(f"expected {expected}, not {described(value)}", f"write it as {example}"))


def _table(value: object, example: str) -> dict[str, object]:
    if isinstance(value, dict):
        return value
    raise Wrong(Fault(f"expected a table, not {kind_of(value)}", f"write it as {example}"))


def _positive(size: int) -> int:
    if size > 0:
        return size
    raise Wrong(Fault("nothing at all", "write a size above 0"))


def _check_json(value: object, below: KeyPath, faults: list[Fault]) -> None:
    if len(below) > MAX_DEPTH:
        faults.append(Fault(f"nested more than {MAX_DEPTH} deep", "flatten it", below[:1]))
    elif isinstance(value, dict):
        for key, item in value.items():
            _check_json(item, (*below, key), faults)
    elif isinstance(value, list):
        for number, item in enumerate(value):
            _check_json(item, (*below, str(number)), faults)
    elif isinstance(value, float):
        if value != value or value in (float("inf"), float("-inf")):
            faults.append(Fault(f"{value} cannot be passed on", "write a finite number", below))
    elif isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            faults.append(Fault("a number of more than 64 bits cannot be passed on", "write it as a string", below))
    elif not isinstance(value, str | None):
        faults.append(Fault("a date or time cannot be passed on", "write it as a string", below))
