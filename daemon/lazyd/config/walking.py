"""Looking for the files that patterns mean. Blocks on the disk: it is done in a thread.

What cannot be read is a warning and hides nothing else. Links to files are followed, and links to directories where
the pattern names the directory; ``**`` does not follow them, or it could go round for ever.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

from . import whole
from .patterns import Pattern, Step, with_version

MAX_FILES = 20_000
MAX_DIRECTORIES = 20_000
QUIET_S = 2.0
"""A file that has changed since is perhaps being written, unless it was seen to be closed or moved to its place."""


@dataclass(frozen=True)
class Found:
    """A file, or, of a layout, perhaps a directory."""

    pattern: Pattern
    path: str
    version: str = ""


@dataclass
class Watch:
    """What matters in one directory: names that a pattern may mean."""

    names: set[re.Pattern[str]] = field(default_factory=set)
    directories: bool = False
    """Any directory in it."""

    def heeds(self, name: str, is_directory: bool) -> bool:
        if is_directory and self.directories:
            return not name.startswith(".")
        return name.endswith(whole.PADDLE_WEIGHTS) or any(regex.fullmatch(name) for regex in self.names)


@dataclass
class Scan:
    """What a look has found."""

    found: list[Found] = field(default_factory=list)
    warnings: dict[str, str] = field(default_factory=dict)
    """By path: what is wrong there."""
    watches: dict[str, Watch] = field(default_factory=dict)
    """By directory. One that is not there yet is watched through the nearest one above it."""
    again_in_s: float | None = None
    """When a file that is not quiet yet may be."""


def scan(patterns: Iterable[Pattern], closed: Collection[str] = (), known: Collection[str] = ()) -> Scan:
    """Everything that the patterns mean now, in the order of the paths.

    `closed`: files whose writers have ended. `known`: what was found before, and stays however much is written to it.
    """
    walk = _Walk(closed, known)
    for pattern in patterns:
        walk.look(pattern)
    return walk.scan


_ANYTHING = Step("*", re.compile(r"[^.].*", re.DOTALL))


class _Walk:
    def __init__(self, closed: Collection[str], known: Collection[str]) -> None:
        self.scan = Scan()
        self._closed = closed
        self._known = known
        self._listed: dict[str, list[os.DirEntry[str]]] = {}

    def look(self, pattern: Pattern) -> None:
        root, below = pattern.root, pattern.steps[0]
        while not os.path.isdir(root) and root != "/":
            root, name = os.path.split(root)
            below = Step(name, re.compile(re.escape(name), re.DOTALL))
        if root != pattern.root:
            self._watch(root, below)
            return
        found: dict[str, Found] = {}
        for path, version in self._walk(root, pattern.steps, ""):
            if len(self.scan.found) + len(found) >= MAX_FILES:
                self.scan.warnings[pattern.text] = f"means more files than {MAX_FILES:,}: the rest is left out"
                break
            if path not in found and self._is_whole(path, layout=bool(version)):
                found[path] = Found(pattern, path, version)
        self.scan.found += sorted(found.values(), key=lambda one: one.path)

    def _walk(self, directory: str, steps: tuple[Step, ...], version: str) -> Iterator[tuple[str, str]]:
        """Paths that the steps mean below a directory, with their version."""
        step, rest = steps[0], steps[1:]
        self._watch(directory, step)
        if step.regex is None:
            if rest:
                yield from self._walk(directory, rest, version)
            for entry in self._list(directory):
                if not entry.name.startswith(".") and _is_directory(entry, links=False):
                    yield from self._walk(entry.path, steps, version)
        elif step.is_plain:
            path = os.path.join(directory, step.text)
            if not rest and os.path.lexists(path):
                yield path, version
            elif rest and os.path.isdir(path):
                yield from self._walk(path, rest, version)
        else:
            for entry in self._list(directory):
                match = step.regex.fullmatch(entry.name)
                if match is None:
                    continue
                held = match.groupdict().get("version") or version
                if not rest:
                    yield entry.path, held
                elif _is_directory(entry, links=True):
                    yield from self._walk(entry.path, with_version(rest, held) if held else rest, held)

    def _watch(self, directory: str, step: Step) -> None:
        watch = self.scan.watches.setdefault(directory, Watch())
        if step.regex is None:
            watch.directories = True
        else:
            watch.names.add(step.regex)

    def _list(self, directory: str) -> list[os.DirEntry[str]]:
        if directory not in self._listed:
            self._listed[directory] = self._listed_now(directory)
        return self._listed[directory]

    def _listed_now(self, directory: str) -> list[os.DirEntry[str]]:
        if len(self._listed) >= MAX_DIRECTORIES:
            self.scan.warnings[directory] = f"more than {MAX_DIRECTORIES:,} directories: the rest is left out"
            return []
        try:
            with os.scandir(directory) as entries:
                return sorted(entries, key=lambda entry: entry.name)
        except FileNotFoundError:  # it has just gone
            return []
        except OSError as error:
            self.scan.warnings[directory] = f"cannot be read: {error.strerror}"
            return []

    def _is_whole(self, path: str, *, layout: bool) -> bool:
        """Whether it is there with all its parts, can be read, and is not being written."""
        try:
            is_directory = stat.S_ISDIR(os.stat(path).st_mode)
        except FileNotFoundError:
            if os.path.islink(path):
                self.scan.warnings[path] = "is a link to what is not there"
            return False
        except OSError as error:
            return self._unusable(path, error.strerror)
        if is_directory:
            if not layout:
                return False
            self._watch(path, _ANYTHING)
        try:
            parts = whole.parts(path, is_directory=is_directory)
            if path in self._known:
                return parts is not None and all(map(os.path.isfile, parts))
            return parts is not None and all(self._is_usable(part) for part in parts)
        except OSError as error:
            return self._unusable(path, error.strerror)

    def _is_usable(self, path: str) -> bool:
        try:
            state = os.stat(path)
        except FileNotFoundError:
            return False
        if not stat.S_ISREG(state.st_mode):
            self.scan.warnings[path] = "is not a file"
            return False
        if not os.access(path, os.R_OK):
            return self._unusable(path, "Permission denied")
        return bool(state.st_size) and self._is_quiet(path, state)

    def _unusable(self, path: str, why: str | None) -> bool:
        self.scan.warnings[path] = f"cannot be read: {why}"
        return False

    def _is_quiet(self, path: str, state: os.stat_result) -> bool:
        age_s = time.time() - max(state.st_mtime, state.st_ctime)
        if path in self._closed or not 0 <= age_s < QUIET_S:  # the clock of a file server may be ahead
            return True
        left_s = QUIET_S - age_s
        self.scan.again_in_s = min(self.scan.again_in_s or left_s, left_s)
        return False


def _is_directory(entry: os.DirEntry[str], *, links: bool) -> bool:
    try:
        return entry.is_dir(follow_symlinks=links)
    except OSError:
        return False
