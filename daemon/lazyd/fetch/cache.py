"""What was fetched, on the disk: each content once, whatever it is called and however many models use it.

    blobs/SHA256             contents
    trees/TREE/NAME          files by name: hard links to contents; another content of a model is another tree
    models/KEY               a link to the tree that holds now: it is exchanged whole
    entries/KEY.json         what is known of it (`entries`)
    parts/…                  downloads that are under way, or broke off
    heads/KEY/NAME           beginnings of files, sparse: as large as the whole, and read only where they are there

A content that no tree links has one link left, and is removed. Whoever reads goes by `models/KEY`; a file that a model
has mapped stays as long as it is mapped. Standard library only. All of it blocks on the disk.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import shutil
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial

from lazyd.durable import replace

from .entries import Entry, Fetched

LEFT_FREE = 64 << 20
"""Bytes of the disk that are not filled."""
HEADS_S = 7 * 86_400.0
"""So long the head of a file is kept that nobody has fetched."""
READABLE, OPEN = 0o640, 0o750
"""For the group too: the manager and the workers may be other users."""


class Cache:
    """Below one folder."""

    def __init__(self, root: str) -> None:
        self.root = root

    # Looking.

    def entry(self, key: str) -> Entry | None:
        """What is here of it, and whole; None if it has to be fetched."""
        try:
            with open(self._entry(key), "rb") as file:
                entry = Entry.of(file.read())
        except (OSError, ValueError):
            return None
        return entry if os.path.isdir(os.path.join(self.root, "models", key)) else None

    def entries(self) -> list[Entry]:
        names = _listed(os.path.join(self.root, "entries"))
        found = (self.entry(name.removesuffix(".json")) for name in names if name.endswith(".json"))
        return [entry for entry in found if entry is not None]

    def has_blob(self, sha256: str) -> int | None:
        """The size of this content, if it is here."""
        try:
            return os.stat(self._blob(sha256)).st_size
        except OSError:
            return None

    def head(self, key: str) -> str:
        """The folder for the beginnings of its files."""
        return os.path.join(self.root, "heads", key)

    def part(self, url: str) -> str:
        """Where the download of a file is written."""
        return os.path.join(self._folder("parts"), hashlib.blake2s(url.encode(), digest_size=16).hexdigest())

    # Keeping.

    def keep_blob(self, part: str, sha256: str) -> None:
        """A download is whole."""
        os.chmod(part, READABLE)
        os.rename(part, os.path.join(self._folder("blobs"), sha256))
        _sync(self._folder("blobs"))

    def keep(self, key: str, url: str, files: Collection[Fetched]) -> Entry:
        """Puts contents that are here under their names, and the model's link on them. Raises `OSError`."""
        last = self.entry(key)
        told = json.dumps(sorted((file.name, file.sha256) for file in files))
        tree = hashlib.sha256(told.encode()).hexdigest()[:32]
        folder = os.path.join(self._folder("trees"), tree)
        if not os.path.isdir(folder):
            self._plant(folder, files)
        link, new = os.path.join(self._folder("models"), key), os.path.join(self._folder("models"), f"{key}.new")
        with contextlib.suppress(FileNotFoundError):
            os.unlink(new)
        os.symlink(os.path.join("..", "trees", tree), new)
        os.rename(new, link)
        _sync(os.path.dirname(link))
        now = time.time()
        before = last.tree if last is not None and last.tree != tree else ""
        entry = Entry(key=key, url=url, tree=tree, files=tuple(files), checked=now, used=now, before=before)
        self.write(entry)
        shutil.rmtree(self.head(key), ignore_errors=True)
        return entry

    def write(self, entry: Entry) -> None:
        """What is known of it has changed. Raises `OSError`."""
        self._folder("entries")
        replace(self._entry(entry.key), entry.text())
        os.chmod(self._entry(entry.key), READABLE)

    def remove(self, key: str) -> None:
        _unlink(self._entry(key), os.path.join(self.root, "models", key))
        shutil.rmtree(self.head(key), ignore_errors=True)

    def sweep(self, kept: Collection[str]) -> None:
        """Removes trees that no model has any more, and contents that no tree has. What one of the `kept` keys had
        before stays, too."""
        entries = self.entries()
        trees = {entry.tree for entry in entries} | {entry.before for entry in entries if entry.key in kept}
        for tree in self._in("trees"):
            if tree not in trees:
                shutil.rmtree(os.path.join(self.root, "trees", tree), ignore_errors=True)
        for head in self._in("heads"):
            path = os.path.join(self.root, "heads", head)
            if _changed(path) < time.time() - HEADS_S:
                shutil.rmtree(path, ignore_errors=True)
        for blob in self._in("blobs"):
            with contextlib.suppress(OSError):
                if os.stat(self._blob(blob)).st_nlink == 1:
                    os.unlink(self._blob(blob))

    # Room.

    def used_bytes(self) -> int:
        """Of contents and of what is under way."""
        files = (os.path.join(self.root, kind, name) for kind in ("blobs", "parts") for name in self._in(kind))
        return sum(_size(file) for file in files if not file.endswith(".json"))

    def may_hold(self, budget: float) -> int:
        """What the cache may hold altogether: bytes, or a fraction of its disk up to 1."""
        disk = os.statvfs(self.root)
        total = disk.f_blocks * disk.f_frsize
        return int(budget * total) if isinstance(budget, float) else budget

    def free_bytes(self) -> int:
        disk = os.statvfs(self.root)
        return disk.f_bavail * disk.f_frsize

    def make_room(self, needed: int, budget: float, kept: Collection[str], busy: Collection[str] = ()) -> bool:
        """Removes downloads that were given up (all that are not `busy`), then what was used least recently, until so
        much more may be written. Whether it may."""
        removals = itertools.chain([lambda: None], self._parts(busy), self._least_used(kept))
        for remove in removals:
            remove()
            fits = self.used_bytes() + needed <= self.may_hold(budget)
            if fits and self.free_bytes() >= needed + LEFT_FREE:
                return True
        return False

    def _parts(self, busy: Collection[str]) -> Iterator[Callable[[], None]]:
        paths = (os.path.join(self.root, "parts", name) for name in self._in("parts"))
        given_up = [path for path in paths if not path.endswith(".json") and path not in busy]
        return (partial(_unlink, path, f"{path}.json") for path in sorted(given_up, key=_changed))

    def _least_used(self, kept: Collection[str]) -> Iterator[Callable[[], None]]:
        entries = [entry for entry in self.entries() if entry.key not in kept]
        return (partial(self._remove_and_sweep, entry.key, kept) for entry in sorted(entries, key=lambda one: one.used))

    def _remove_and_sweep(self, key: str, kept: Collection[str]) -> None:
        self.remove(key)
        self.sweep(kept)

    def _in(self, kind: str) -> list[str]:
        return _listed(os.path.join(self.root, kind))

    def _plant(self, folder: str, files: Iterable[Fetched]) -> None:
        """A new tree, that is there whole or not at all."""
        new = f"{folder}.new"
        shutil.rmtree(new, ignore_errors=True)
        _made(new)
        for file in files:
            path = os.path.join(new, *file.name.split("/"))
            _made(os.path.dirname(path))
            os.link(self._blob(file.sha256), path)
        _sync(new)
        os.rename(new, folder)
        _sync(os.path.dirname(folder))

    def _blob(self, sha256: str) -> str:
        return os.path.join(self.root, "blobs", sha256)

    def _entry(self, key: str) -> str:
        return os.path.join(self.root, "entries", f"{key}.json")

    def _folder(self, name: str) -> str:
        return _made(os.path.join(self.root, name))


def _made(folder: str) -> str:
    os.makedirs(folder, mode=OPEN, exist_ok=True)
    return folder


def _listed(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _changed(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0


def _unlink(*paths: str) -> None:
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


def _sync(folder: str) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
