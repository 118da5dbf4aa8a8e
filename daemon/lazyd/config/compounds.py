"""The kinds of values that hold others: lists and tables (see `kinds`)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from .given import described, kind_of, string, table
from .kinds import Kind, OneOf, Plain
from .problems import Fault, KeyPath, Wrong, nearest, quoted

MAX_DEPTH = 32
"""Of tables and arrays inside `options`."""
MASK = "***"

GPU = re.compile(r"gpu(0|[1-9]\d{0,2})", re.ASCII)
"""How a GPU is called, or an instance of a divided one."""
SET_BY_LAZYD = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")
"""Variables that say which GPUs a process sees: those that its memory is booked on."""


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
                read.append(self.item.read(item, base) if self.item else string(item, "a string", '"run"'))
            except Wrong as wrong:
                faults += [Fault(f"item {number}: {fault.what}", fault.remedy) for fault in wrong.faults]
        if faults:
            raise Wrong(*faults)
        return tuple(read)

    def show(self, value: tuple[str, ...]) -> object:
        return list(value)


@dataclass(frozen=True)
class Versions:
    """Which versions are wanted. Held as a word, or as a tuple of versions."""

    words: str = "latest | all | list of versions"

    def read(self, value: object, base: str) -> str | tuple[str, ...]:
        if isinstance(value, str):
            return OneOf(("latest", "all")).read(value, base)
        wanted = Strings().read(value, base)
        if wanted:
            return wanted
        raise Wrong(Fault("an empty list of versions", 'write "latest", "all", or some of them, as ["1", "3"]'))

    def show(self, value: str | tuple[str, ...]) -> object:
        return value if isinstance(value, str) else list(value)


@dataclass(frozen=True)
class Device:
    """Held as a tuple; empty: any device. ``gpu`` stands for any GPU."""

    words: str = "auto | gpu | ram | gpuN, or a list"

    def read(self, value: object, base: str) -> tuple[str, ...]:
        names = Strings().read([value] if isinstance(value, str) else value, base)
        faults = [fault for name in dict.fromkeys(names) if (fault := self._fault(name, names))]
        if not names:
            faults = [Fault("an empty list of devices", 'write "auto", or name one')]
        if faults:
            raise Wrong(*faults)
        return () if names == ("auto",) else names

    def show(self, value: tuple[str, ...]) -> object:
        return list(value) if len(value) > 1 else value[0] if value else "auto"

    def _fault(self, name: str, all_names: tuple[str, ...]) -> Fault | None:
        if all_names.count(name) > 1:
            return Fault(f"device {quoted(name)} is named twice", "name it once")
        if name == "auto" and len(all_names) > 1:
            return Fault('"auto" beside other devices', "write it alone")
        if name == "gpu" and any(GPU.fullmatch(other) for other in all_names):
            return Fault('"gpu" means any GPU, and one is named beside it', "write one or the other")
        if name in ("auto", "gpu", "ram") or GPU.fullmatch(name):
            return None
        return Fault(f"device {quoted(name)} is not known", _remedy(name))


def _remedy(name: str) -> str:
    """GPUs have a number each: `gpu0` alone would look as if it were the only one."""
    near = nearest(name, ("auto", "gpu", "ram", "gpu0"))
    return f"did you mean {near}?" if near else "valid: auto, gpu, ram, gpu0, gpu1, ..."


@dataclass(frozen=True)
class Environment:
    """Variables of a process. Values are secrets: no message repeats one."""

    words: str = "table of strings"

    def read(self, value: object, _base: str) -> dict[str, str]:
        given = table(value, '{OMP_NUM_THREADS = "2"}')
        faults: list[Fault] = []
        for name, text in given.items():
            if not name or "=" in name or "\0" in name:
                faults.append(Fault("not a name of a variable", "a name is not empty and has no =", (name,)))
            elif name in SET_BY_LAZYD:
                remedy = 'say where the model may be loaded: device = "gpu0"'
                faults.append(Fault("lazyd sets this itself, by the model's device", remedy, (name,)))
            elif not isinstance(text, str):
                faults.append(Fault(f"expected a string, not {kind_of(text)}", "put the value in quotes", (name,)))
            elif "\0" in text:
                faults.append(Fault("the value holds a NUL character", "leave it out", (name,)))
        if faults:
            raise Wrong(*faults)
        return {name: str(text) for name, text in given.items()}

    def show(self, value: dict[str, str]) -> object:
        return dict.fromkeys(value, MASK)


@dataclass(frozen=True)
class Options(Plain):
    """Anything that JSON can carry: it travels to the worker as JSON."""

    words: str = "table"

    def read(self, value: object, _base: str) -> dict[str, Any]:
        given = table(value, "{n_ctx = 4096}")
        if faults := json_faults(given):
            raise Wrong(*faults)
        return dict(given)


@dataclass(frozen=True)
class Json(Plain):
    """One value of any type that JSON can carry."""

    words: str = "any value"

    def read(self, value: object, _base: str) -> Any:
        if faults := json_faults(value):
            raise Wrong(*faults)
        return value


def json_faults(value: object) -> list[Fault]:
    """Why a value cannot travel as JSON; empty: it can."""
    faults: list[Fault] = []
    _check_json(value, (), faults)
    return faults


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
