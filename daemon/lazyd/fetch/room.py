"""How much the cache may hold, and who leaves so that more may come.

Counted are contents, downloads that broke off, and heads. First those downloads leave that nobody goes on with, then
heads, then what models were loaded from longest ago. Standard library alone. All of it blocks on the disk.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Collection, Iterator

from .cache import Cache, changed
from .entries import Entry

LEFT_FREE = 64 << 20
"""Bytes of the disk that are not filled."""
_SECTOR = 512


def used_bytes(cache: Cache) -> int:
    """Of contents, of what is under way, and of heads. A download that is whole is a content already."""
    contents = (os.path.join(cache.root, "blobs", name) for name in cache.names("blobs"))
    parts = (found for path in _parts(cache) if (found := _stat(path)) is not None and found.st_nlink == 1)
    sizes = sum(found.st_size for path in contents if (found := _stat(path)) is not None)
    return sizes + sum(found.st_size for found in parts) + sum(_blocks(head) for head in _heads(cache))


def may_hold(cache: Cache, budget: float) -> int:
    """What the cache may hold altogether: bytes, or a fraction of its disk up to 1."""
    disk = os.statvfs(cache.root)
    total = disk.f_blocks * disk.f_frsize
    return int(budget * total) if isinstance(budget, float) else budget


def free_bytes(cache: Cache) -> int:
    """Of its disk, that may be filled."""
    disk = os.statvfs(cache.root)
    return max(0, disk.f_bavail * disk.f_frsize - LEFT_FREE)


def make(cache: Cache, needed: int, budget: float, kept: Collection[str], busy: Collection[str] = ()) -> bool:
    """Whether `needed` more bytes may be written; what may leave leaves for it. Models with the `kept` keys stay, and
    the `busy` parts."""
    most = may_hold(cache, budget)
    used = used_bytes(cache)
    for freed in _leave(cache, kept, busy):
        used -= freed
        if used + needed <= most and free_bytes(cache) >= needed:
            return True
    return False


def drop_parts(cache: Cache, busy: Collection[str]) -> None:
    """Removes downloads that nobody goes on with."""
    for part in _parts(cache):
        if part not in busy:
            cache.drop_part(part)


def _leave(cache: Cache, kept: Collection[str], busy: Collection[str]) -> Iterator[int]:
    """Removes one after the other, as far as it is asked to; each time: how many bytes came back. At first none."""
    yield 0
    for part in sorted((path for path in _parts(cache) if path not in busy), key=changed):
        found = _stat(part)
        cache.drop_part(part)
        yield (found.st_size if found is not None and found.st_nlink == 1 else 0) + cache.sweep_contents(
            cache.names("blobs")
        )
    for head in sorted(_heads(cache), key=changed):
        freed = _blocks(head)
        shutil.rmtree(head, ignore_errors=True)
        yield freed
    yield from _least_used(cache, kept)


def _least_used(cache: Cache, kept: Collection[str]) -> Iterator[int]:
    entries = cache.entries()
    links = Counter(entry.tree for entry in entries)
    links.update(entry.before for entry in entries if entry.key in kept)
    for entry in sorted((entry for entry in entries if entry.key not in kept), key=lambda entry: entry.used):
        yield _evict(cache, entry, links)


def _evict(cache: Cache, entry: Entry, links: Counter[str]) -> int:
    """`links`: how many models have a tree."""
    cache.remove(entry.key)
    links[entry.tree] -= 1
    if links[entry.tree] > 0:
        return 0
    cache.remove_tree(entry.tree)
    return cache.sweep_contents({file.sha256 for file in entry.files})


def _parts(cache: Cache) -> list[str]:
    return [os.path.join(cache.root, "parts", name) for name in cache.names("parts") if not name.endswith(".json")]


def _heads(cache: Cache) -> list[str]:
    return [os.path.join(cache.root, "heads", name) for name in cache.names("heads")]


def _blocks(folder: str) -> int:
    """What sparse files hold of the disk."""
    files = (os.path.join(where, name) for where, _, names in os.walk(folder) for name in names)
    return sum(found.st_blocks * _SECTOR for path in files if (found := _stat(path)) is not None)


def _stat(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except OSError:
        return None
