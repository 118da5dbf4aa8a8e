"""What models wait for: all that a URL names, however many of them wait, and whether or not the manager does.

A job goes on when its manager goes: the next one joins it. It ends with its files, with what went wrong, or when it is
stopped by everybody who had asked.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace

from lazyd import urls
from lazyd.core.wording import size

from . import manifest, room
from .cache import Cache
from .downloads import Content, Download, Downloads, Running
from .entries import Entry, Fetched
from .failures import Failed, Stopped, Unreachable
from .patience import TRIES, patiently
from .remote import Info, Remote

log = logging.getLogger("lazyd.fetch")

LOOK_S = 0.2
"""How often it is looked how far a download is."""


@dataclass(frozen=True)
class Wanted:
    """What a model needs, and what the cache may do for it."""

    key: str
    url: str
    sha256: str | None = None
    disk: float = 0.5
    kept: Collection[str] = ()
    """Keys of what is in memory, or waits to be."""
    loaded: Collection[str] = ()
    """Keys of what is in memory: models may read what they had before, too."""

    @property
    def shown(self) -> str:
        return urls.masked(self.url)


@dataclass
class Job:
    """One URL on its way. `fraction` is None until it is known how much there is."""

    wanted: Wanted
    waiting: int = 0
    fraction: float | None = None
    bytes: int = 0
    """That are here."""
    changed: bool = False
    """It has taken the place of another content."""
    note: str = ""
    error: str = ""
    parts: set[str] = field(default_factory=set)
    """Its downloads, that are under way or whole: nobody else's."""
    done: threading.Event = field(default_factory=threading.Event)
    stopped: threading.Event = field(default_factory=threading.Event)


class Jobs:
    """All that are under way. `open_url` makes a `Remote`."""

    def __init__(self, cache: Cache, open_url: Callable[[str], Remote] = Remote) -> None:
        self._cache = cache
        self._open = open_url
        self._downloads = Downloads()
        self._lock = threading.Lock()
        self._on_disk = threading.Lock()
        self._running: dict[str, Job] = {}
        self._kept: Collection[str] = ()
        self._loaded: Collection[str] = ()

    @property
    def are_under_way(self) -> bool:
        return bool(self._running)

    def join(self, wanted: Wanted) -> Job:
        """The job that brings it; one is begun if there is none."""
        with self._lock:
            self._kept, self._loaded = wanted.kept, wanted.loaded
            job = self._running.get(wanted.key)
            if job is None or job.stopped.is_set():
                job = self._running[wanted.key] = Job(wanted)
                threading.Thread(target=self._run, args=(job,), name="job", daemon=True).start()
            job.waiting += 1
            return job

    def leave(self, job: Job, *, stop: bool) -> None:
        """One who waited has gone; with `stop` it is not wanted any more either."""
        with self._lock:
            job.waiting -= 1
            if stop and job.waiting == 0:
                job.stopped.set()

    def used(self, times: dict[str, float]) -> None:
        """When models were loaded from these keys."""
        for key, when in times.items():
            entry = self._cache.entry(key)
            if entry is not None and when > entry.used:
                self._cache.write(replace(entry, used=when))

    def remove(self, keys: Collection[str], kept: Collection[str], *, unfinished: bool = False) -> int:
        """Frees what these hold, and the `unfinished` downloads that nobody goes on with; how many bytes came back."""
        with self._on_disk:
            before = room.used_bytes(self._cache)
            for key in keys:
                self._cache.remove(key)
            if unfinished:
                room.drop_parts(self._cache, self._busy())
            self._cache.sweep(kept)
            return max(0, before - room.used_bytes(self._cache))

    def _run(self, job: Job) -> None:
        try:
            self._fetch(job)
        except Failed as error:
            job.error = str(error)
        except Stopped:
            job.error = f"{job.wanted.shown}: it is not wanted any more"
        except OSError as error:
            job.error = f"{job.wanted.shown}: it cannot be kept in {self._cache.root}: {error.strerror or error}"
        except Exception as error:
            log.exception("a bug in lazyd: %s was not fetched", job.wanted.shown)
            job.error = f"{job.wanted.shown}: {type(error).__name__}"
        finally:
            if job.error:
                log.warning("not fetched: %s", job.error)
            with self._lock:
                if self._running.get(job.wanted.key) is job:
                    del self._running[job.wanted.key]
            job.done.set()

    def _fetch(self, job: Job) -> None:
        wanted = job.wanted
        before, noted = self._cache.entry(wanted.key), self._cache.noted(wanted.key)
        if before is None and noted is not None:
            log.warning("%s: what was fetched is not whole any more, and is completed", wanted.shown)
        if wanted.sha256 is not None and self._is_here(wanted, before):
            return
        files_here = noted.files if noted is not None else ()
        known = {file.name: file for file in files_here if self._cache.has(file.sha256, file.bytes) is not None}
        tries = TRIES if before is None else 1  # what is here serves without a server, too
        try:
            files = patiently(lambda: manifest.files(wanted.url, self._open), job.stopped, tries)
            seen = {name: self._info(job, url, tries) for name, url in files.items()}
        except Unreachable as error:
            if before is None:
                raise
            job.note = f"{error}; what was fetched before serves"
            log.warning("%s", job.note)
            self._cache.write(replace(before, checked=time.time()))
            return
        missing = {
            name: url
            for name, url in files.items()
            if not (name in known and seen[name].mark and known[name].mark == seen[name].mark)
        }
        if before is not None and not missing and known.keys() == files.keys():
            self._cache.write(replace(before, checked=time.time()))
            self._sweep()
            return
        new = self._download(job, missing, sum(info.bytes or 0 for info in seen.values()), seen, known)
        if wanted.sha256 is not None and (file := next(iter(new.values()), None)) and file.sha256 != wanted.sha256:
            self._drop(job)
            self._sweep()
            raise Failed(f"{wanted.shown}: its SHA-256 is {file.sha256}, and {wanted.sha256} is configured (sha256)")
        contents = [new.get(name) or known[name] for name in files]
        with self._on_disk:
            entry = self._cache.keep(wanted.key, wanted.shown, contents)
            job.changed = noted is not None and (before is None or before.tree != entry.tree)
            self._drop(job)
            self._cache.sweep(self._loaded)
        log.info("fetched: %s (%d bytes)", wanted.shown, entry.total_bytes)

    def _info(self, job: Job, url: str, tries: int) -> Info:
        if job.stopped.is_set():
            raise Stopped
        return patiently(lambda: self._open(url).info(), job.stopped, tries)

    def _is_here(self, wanted: Wanted, before: Entry | None) -> bool:
        """A content that is known by its checksum need not be looked for elsewhere."""
        if before is not None:
            return True
        assert wanted.sha256 is not None
        sizes = {file.sha256: file.bytes for entry in self._cache.entries() for file in entry.files}
        found = self._cache.has(wanted.sha256, sizes.get(wanted.sha256))
        if found is None:
            return False
        name = urls.name_of(wanted.url)
        with self._on_disk:
            self._cache.keep(wanted.key, wanted.shown, [Fetched(name, found, "", wanted.sha256)])
        return True

    def _download(
        self, job: Job, missing: dict[str, str], total: int, seen: dict[str, Info], known: dict[str, Fetched]
    ) -> dict[str, Fetched]:
        """One file after the other."""
        found: dict[str, Fetched] = {}
        here = sum(known[name].bytes for name in seen.keys() - missing.keys())
        others = self._others()
        for name, url in missing.items():
            content = others.get((url, seen[name].mark)) or self._one(job, url, here, total)
            found[name] = Fetched(name, content.bytes, content.mark, content.sha256)
            here += content.bytes
        return found

    def _others(self) -> dict[tuple[str, str], Content]:
        """What is here already, for other models, by URL and mark. Nothing of a URL that is not shown as it is."""
        files = ((entry.url, entry.files[0]) for entry in self._cache.entries() if len(entry.files) == 1)
        return {
            (url, file.mark): Content(file.sha256, file.bytes, file.mark)
            for url, file in files
            if file.mark and urls.HIDDEN not in url and self._cache.has(file.sha256, file.bytes) is not None
        }

    def _one(self, job: Job, url: str, before: int, total: int) -> Content:
        while True:
            download = Download(url, self._cache, self._room(job), self._open)
            job.parts.add(download.part)
            running = self._downloads.join(download)
            try:
                self._wait(job, running, before, total)
            finally:
                self._downloads.leave(running)
            if running.content is not None:
                return running.content
            if not isinstance(running.error, Stopped):
                raise running.error or Failed(job.wanted.shown)

    def _wait(self, job: Job, running: Running, before: int, total: int) -> None:
        while not running.done.wait(LOOK_S):
            if job.stopped.is_set():
                raise Stopped
            job.bytes = before + running.download.here
            job.fraction = min(1.0, job.bytes / total) if total else None

    def _room(self, job: Job) -> Callable[[Download, int], str | None]:
        disk = job.wanted.disk

        def make(download: Download, more: int) -> str | None:
            with self._on_disk:
                needed = more + self._downloads.still_to_come()
                if room.make(self._cache, needed, disk, self._all_kept(), self._busy()):
                    download.granted = download.here + more
                    return None
                used, most = room.used_bytes(self._cache), room.may_hold(self._cache, disk)
                free = room.free_bytes(self._cache)
            return (
                f"it needs {size(more)} more, and there is no room for it in {self._cache.root}: {size(used)} of "
                f"{size(most)} are used (disk in [fetch]), {size(free)} are free on the disk"
            )

        return make

    def _all_kept(self) -> set[str]:
        with self._lock:
            return {*self._kept, *self._running}

    def _busy(self) -> set[str]:
        """Parts that somebody goes on with."""
        with self._lock:
            return {part for job in self._running.values() for part in job.parts} | self._downloads.parts()

    def _drop(self, job: Job) -> None:
        """What it has brought is of a tree now, or of no use."""
        for part in job.parts:
            self._cache.drop_part(part)

    def _sweep(self) -> None:
        with self._on_disk:
            self._cache.sweep(self._loaded)
