"""Which names a model, a version or an alias may have.

Names go into file names, command lines and ``name:version`` keys, so they are kept plain.
"""

from __future__ import annotations

import re

from .problems import Fault, Wrong, quoted

MAX_LENGTH = 100
"""Of a key. A log file's name quotes ``/`` and ``:`` with three characters each, and 255 is a file name's limit."""

_SEGMENT = r"[A-Za-z0-9_*][A-Za-z0-9_.*-]*"
_NAME = re.compile(rf"{_SEGMENT}(/{_SEGMENT})*", re.ASCII)
_VERSION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*", re.ASCII)


def split_key(key: str) -> tuple[str, str]:
    """Name and version of ``NAME`` or ``NAME:VERSION``. Raises `Wrong`."""
    name, colon, version = key.partition(":")
    if len(key) > MAX_LENGTH:
        raise Wrong(Fault("the name is too long", f"use at most {MAX_LENGTH} characters"))
    if not _NAME.fullmatch(name):
        raise Wrong(
            Fault(
                f"{quoted(key)} is not a name",
                "use letters, digits, _ - . between slashes, each part beginning with a letter, a digit or _",
            )
        )
    if colon and not _VERSION.fullmatch(version):
        raise Wrong(Fault(f"{quoted(version)} is not a version", "use letters, digits, _ - . + after the one colon"))
    if "*" in name:
        _check_family(key, name, version)
    return name, version


def _check_family(key: str, name: str, version: str) -> None:
    if name.count("*") > 1:
        raise Wrong(Fault(f"{quoted(key)} has more than one *", "a family has exactly one"))
    if name == "*":
        raise Wrong(Fault('"*" would match every name', 'give the family a name, as "strategy/*"'))
    if version:
        raise Wrong(Fault("a family has no version", f"write {quoted(name)}"))
