"""What was fetched, on the disk: each content once, whatever it is called and however many models use it. How much
that may be, and who leaves for whom, is in `room`.

    blobs/SHA256             contents
    trees/TREE/NAME          files by name: hard links to contents; another content of a model is another tree
    models/KEY               a link to the tree that holds now: it is exchanged whole
    entries/KEY.json         what is known of it (`entries`)
    parts/…                  downloads that are under way, or broke off, or are whole and of no tree yet
    heads/KEY/NAME           beginnings of files, sparse: as large as the whole, and read only where they are there

A content that no tree and no download links has one link left, and is removed. Whoever reads goes by `models/KEY`; a
file that a model has mapped stays as long as it is mapped. Standard library only. All of it blocks on the disk.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import time
from collections.abc import Collection, Iterable

from lazyd.durable import replace

from .entries import Entry, Fetched

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
        entry = self.noted(key)
        return entry if entry is not None and _is_whole(self._model(key), entry.files) else None

    def noted(self, key: str) -> Entry | None:
        """What was here of it once, and may have been cut short since."""
        try:
            with open(self._entry(key), "rb") as file:
                return Entry.of(file.read())
        except (OSError, ValueError):
            return None

    def entries(self) -> list[Entry]:
        names = self.names("entries")
        found = (self.noted(name.removesuffix(".json")) for name in names if name.endswith(".json"))
        return [entry for entry in found if entry is not None]

    def has(self, sha256: str, size: int | None = None) -> int | None:
        """The size of this content, if it is here. If nobody knows its size all of it is read, and kept if it is it."""
        try:
            found = os.stat(self.blob(sha256)).st_size
            if size is None:
                with open(self.blob(sha256), "rb") as file:
                    is_it = hashlib.file_digest(file, "sha256").hexdigest() == sha256
                if not is_it:
                    os.unlink(self.blob(sha256))
                    return None
        except OSError:
            return None
        return found if size in (None, found) else None

    def head(self, key: str) -> str:
        """The folder for the beginnings of its files."""
        return os.path.join(self.root, "heads", key)

    def part(self, url: str) -> str:
        """Where the download of a file is written."""
        return os.path.join(self._folder("parts"), hashlib.blake2s(url.encode(), digest_size=16).hexdigest())

    # Keeping.

    def keep_blob(self, part: str, sha256: str) -> None:
        """A download is whole. Until a tree has it, its part keeps it from being removed."""
        os.chmod(part, READABLE)
        blob = os.path.join(self._folder("blobs"), sha256)
        if self.has(sha256, os.path.getsize(part)) is not None:
            with contextlib.suppress(FileNotFoundError):  # nobody had it, and it was removed in this moment
                _link_over(blob, part)
                return
        _link_over(part, blob)
        _sync(os.path.dirname(blob))

    def drop_part(self, part: str) -> None:
        """It is of no use any more."""
        _unlink(part, f"{part}.json")

    def keep(self, key: str, url: str, files: Collection[Fetched]) -> Entry:
        """Puts contents that are here under their names, and the model's link on them. Raises `OSError`."""
        last = self.noted(key)
        told = json.dumps(sorted((file.name, file.sha256) for file in files))
        tree = hashlib.sha256(told.encode()).hexdigest()[:32]
        folder = os.path.join(self._folder("trees"), tree)
        if not self._is_planted(folder, files):
            self._plant(folder, files)
        link, new = os.path.join(self._folder("models"), key), os.path.join(self._folder("models"), f"{key}.new")
        _unlink(new)
        os.symlink(os.path.join("..", "trees", tree), new)
        os.rename(new, link)
        _sync(os.path.dirname(link))
        now = time.time()
        before = last.tree if last is not None and last.tree != tree else ""
        entry = Entry(key=key, url=url, tree=tree, files=tuple(files), checked=now, used=now, before=before)
        self.write(entry)
        self._drop_heads(key)
        return entry

    def write(self, entry: Entry) -> None:
        """What is known of it has changed. Raises `OSError`."""
        self._folder("entries")
        replace(self._entry(entry.key), entry.text())
        os.chmod(self._entry(entry.key), READABLE)

    def remove(self, key: str) -> None:
        _unlink(self._entry(key), self._model(key))
        self._drop_heads(key)

    def sweep(self, kept: Collection[str]) -> None:
        """Removes trees that no model has any more, and contents that no tree has. What one of the `kept` keys had
        before stays, too."""
        entries = self.entries()
        trees = {entry.tree for entry in entries} | {entry.before for entry in entries if entry.key in kept}
        for tree in self.names("trees"):
            if tree not in trees:
                self.remove_tree(tree)
        for head in self.names("heads"):
            path = os.path.join(self.root, "heads", head)
            if changed(path) < time.time() - HEADS_S:
                shutil.rmtree(path, ignore_errors=True)
        self.sweep_contents(self.names("blobs"))

    def remove_tree(self, tree: str) -> None:
        shutil.rmtree(os.path.join(self.root, "trees", tree), ignore_errors=True)

    def sweep_contents(self, names: Iterable[str]) -> int:
        """Removes those of these that nothing links any more; how many bytes came back."""
        freed = 0
        for name in names:
            with contextlib.suppress(OSError):
                found = os.stat(self.blob(name))
                if found.st_nlink == 1:
                    os.unlink(self.blob(name))
                    freed += found.st_size
        return freed

    # Names.

    def names(self, kind: str) -> list[str]:
        """All that is in one of the folders."""
        try:
            return sorted(os.listdir(os.path.join(self.root, kind)))
        except OSError:
            return []

    def blob(self, sha256: str) -> str:
        return os.path.join(self.root, "blobs", sha256)

    def _is_planted(self, folder: str, files: Iterable[Fetched]) -> bool:
        """Whether a tree has the contents that are here, and no older ones of their names."""
        try:
            return all(os.path.samefile(os.path.join(folder, file.name), self.blob(file.sha256)) for file in files)
        except OSError:
            return False

    def _plant(self, folder: str, files: Iterable[Fetched]) -> None:
        """A new tree, that is there whole or not at all."""
        new = f"{folder}.new"
        shutil.rmtree(new, ignore_errors=True)
        _made(new)
        for file in files:
            path = os.path.join(new, *file.name.split("/"))
            _made(os.path.dirname(path))
            os.link(self.blob(file.sha256), path)
        _sync(new)
        shutil.rmtree(folder, ignore_errors=True)  # one that was cut short
        os.rename(new, folder)
        _sync(os.path.dirname(folder))

    def _drop_heads(self, key: str) -> None:
        """Those too that were being made when a fetcher was killed."""
        for name in self.names("heads"):
            if name.split(".")[0] == key:
                shutil.rmtree(os.path.join(self.root, "heads", name), ignore_errors=True)

    def _model(self, key: str) -> str:
        return os.path.join(self.root, "models", key)

    def _entry(self, key: str) -> str:
        return os.path.join(self.root, "entries", f"{key}.json")

    def _folder(self, name: str) -> str:
        return _made(os.path.join(self.root, name))


def _made(folder: str) -> str:
    os.makedirs(folder, mode=OPEN, exist_ok=True)
    return folder


def _is_whole(folder: str, files: Iterable[Fetched]) -> bool:
    """Whether these are there, as long as they were. What has other bits and the same length is not seen."""
    try:
        return all(os.stat(os.path.join(folder, *file.name.split("/"))).st_size == file.bytes for file in files)
    except OSError:
        return False


def changed(path: str) -> float:
    try:
        return os.stat(path).st_mtime
    except OSError:
        return 0.0


def _link_over(file: str, name: str) -> None:
    """Gives a file another name, whatever had that before."""
    if os.path.exists(name) and os.path.samefile(file, name):
        return
    _unlink(f"{name}.new")
    os.link(file, f"{name}.new")
    os.rename(f"{name}.new", name)


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
