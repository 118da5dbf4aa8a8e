"""One file: from where the last try broke off to the end, checked, and begun anew if it turns out to be another one.

Several models may wait for the same file: it is downloaded once (`Downloads`).
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

from lazyd import urls

from .cache import Cache
from .failures import Changed, Failed, Stopped, Unreachable
from .patience import TRIES, patiently, pause
from .remote import Info, Remote

CHANGES = 3
"""A file that changes while it is fetched is begun anew so many times."""
STREAMS = 3
"""One that can only be read from its beginning is begun so many times."""
SMALLEST, FIRST, LARGEST = 16 << 10, 256 << 10, 16 << 20
QUICK_S, SLOW_S = 0.5, 2.0
"""A chunk that came sooner is followed by larger ones, one that came later by smaller ones: what is slow still shows
that it goes on."""
AHEAD = 4
"""So many chunks are asked for at a time, once the first has come."""
FULL = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True)
class Content:
    """A file that is here."""

    sha256: str
    bytes: int
    mark: str


class Download:
    """One file's way here. `room` makes room for so many bytes more, and answers why there is none.

    Another one may write to the same `part` as soon as this one was stopped, whatever it still waits for.
    """

    def __init__(
        self, url: str, cache: Cache, room: Callable[[Download, int], str | None], open_url: Callable[[str], Remote]
    ) -> None:
        self.url = url
        self.here = 0
        self.bytes: int | None = None
        self.granted = 0
        """So many bytes it may have here, as far as `room` has said."""
        self.stopped = threading.Event()
        self._writing = threading.Lock()
        self._cache = cache
        self._room = room
        self._open = open_url
        self.part = cache.part(url)

    @property
    def shown(self) -> str:
        return urls.masked(self.url)

    def run(self) -> Content:
        """Raises `Failed`, `Stopped`."""
        changes = streams = 0
        while True:
            try:
                return self._run()
            except Changed:
                changes += 1
                if changes == CHANGES:
                    raise Failed(f"{self.shown}: it changes again and again while it is fetched") from None
            except BrokenStream as broken:
                streams += 1
                if streams == STREAMS:
                    raise Unreachable(str(broken)) from None
                pause(streams, self.stopped)
            except OSError as error:
                raise Failed(self._disk(error)) from None

    def stop(self) -> None:
        """Nothing more is written by it."""
        with self._writing:
            self.stopped.set()

    def _run(self) -> Content:
        info = self._info()
        self.bytes = info.bytes
        digest = self._resumed(info)
        self._need(max(0, (info.bytes or 0) - self.here))
        with open(self.part, "ab") as file:
            for data in self._chunks(info):
                if self.here + len(data) > self.granted:
                    self._need(len(data))  # the server does not say how much it is, or has not said the truth
                with self._unless_stopped():
                    file.write(data)
                    file.flush()
                digest.update(data)
                self.here += len(data)
            os.fsync(file.fileno())
        if info.bytes is not None and self.here != info.bytes:
            raise BrokenStream(f"{self.shown}: {self.here} bytes came, and it said that there are {info.bytes}")
        if self._info().mark != info.mark:
            raise Changed
        content = Content(digest.hexdigest(), self.here, info.mark)
        with self._unless_stopped():
            self._cache.keep_blob(self.part, content.sha256)
        return content

    def _need(self, more: int) -> None:
        if why := self._room(self, more):
            raise Failed(f"{self.shown}: {why}")

    @contextmanager
    def _unless_stopped(self) -> Iterator[None]:
        """Raises `Stopped`."""
        with self._writing:
            if self.stopped.is_set():
                raise Stopped
            yield

    def _resumed(self, info: Info) -> hashlib._Hash:
        """What is here of the same file; of another one nothing is of use."""
        digest = hashlib.sha256()
        self.here = 0
        same = info.mark and info.ranges and self._known() == info.mark
        if not same or os.path.getsize(self.part) > (info.bytes or 0):
            with self._unless_stopped():
                self._cache.drop_part(self.part)  # it may be linked as a content, and then is that one's
                with open(os.open(self.part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o640), "wb"):
                    pass
                with open(f"{self.part}.json", "w", encoding="utf-8") as file:
                    json.dump(info.mark, file)
            return digest
        with open(self.part, "rb") as part:
            while data := part.read(1 << 20):
                digest.update(data)
                self.here += len(data)
        return digest

    def _known(self) -> str | None:
        try:
            with open(f"{self.part}.json", encoding="utf-8") as file:
                os.stat(self.part)
                return str(json.load(file))
        except (OSError, ValueError):
            return None

    def _chunks(self, info: Info) -> Iterator[bytes]:
        """In order. After a break it goes on where it was, if it is still the same file."""
        if not info.ranges or info.bytes is None:
            yield from self._stream()
            return
        remote, tries = self._open(self.url), 0
        while self.here < info.bytes:
            before = self.here
            try:
                yield from _read_ahead(remote, self.here, info.bytes)
            except Unreachable:
                tries = 1 if self.here > before else tries + 1
                if tries >= TRIES:
                    raise
                pause(tries, self.stopped)
                remote = self._open(self.url)
                if self._info().mark != info.mark:
                    raise Changed from None

    def _stream(self) -> Iterator[bytes]:
        try:
            yield from self._open(self.url).stream(FIRST)
        except Unreachable as error:
            raise BrokenStream(str(error)) from None

    def _info(self) -> Info:
        return patiently(lambda: self._open(self.url).info(), self.stopped)

    def _disk(self, error: OSError) -> str:
        if error.errno in FULL:
            return f"{self.shown}: the disk of {self._cache.root} is full: {error.strerror}"
        return f"{self.shown}: it cannot be kept in {self._cache.root}: {error.strerror or error}"


class BrokenStream(Exception):
    """It has to be read from its beginning again."""


def _read_ahead(remote: Remote, start: int, end: int) -> Iterator[bytes]:
    """Chunks in order, while the next ones are on their way."""
    size, asked, ahead = FIRST, start, 1
    waiting: list[Future[tuple[bytes, float]]] = []
    with ThreadPoolExecutor(AHEAD) as threads:
        try:
            while waiting or asked < end:
                while asked < end and len(waiting) < ahead:
                    until = min(asked + size, end)
                    waiting.append(threads.submit(_timed, remote, asked, until))
                    asked = until
                data, took_s = waiting.pop(0).result()
                size, ahead = _next_size(size, took_s), AHEAD
                yield data
        finally:
            for future in waiting:
                future.cancel()


def _next_size(size: int, took_s: float) -> int:
    if took_s < QUICK_S:
        return min(2 * size, LARGEST)
    return max(size // 2, SMALLEST) if took_s > SLOW_S else size


def _timed(remote: Remote, start: int, end: int) -> tuple[bytes, float]:
    begun = time.monotonic()
    return remote.read(start, end), time.monotonic() - begun


class Running:
    """A download under way, and who waits for it."""

    def __init__(self, download: Download) -> None:
        self.download = download
        self.waiting = 0
        self.done = threading.Event()
        self.content: Content | None = None
        self.error: Exception | None = None


class Downloads:
    """All that are under way, by URL."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: dict[str, Running] = {}

    def parts(self) -> set[str]:
        """The files that are being written."""
        with self._lock:
            return {running.download.part for running in self._running.values()}

    def still_to_come(self) -> int:
        """Bytes that they may yet write."""
        with self._lock:
            downloads = [running.download for running in self._running.values()]
        return sum(max(0, download.granted - download.here) for download in downloads)

    def join(self, download: Download) -> Running:
        """The one that brings this file: it is begun if nobody else has."""
        with self._lock:
            running = self._running.get(download.url)
            if running is None:
                running = self._running[download.url] = Running(download)
                threading.Thread(target=self._run, args=(running,), name="download", daemon=True).start()
            running.waiting += 1
            return running

    def leave(self, running: Running) -> None:
        """One who waited does no more. With the last one it ends, and what is here of it stays."""
        with self._lock:
            running.waiting -= 1
            if running.waiting == 0:
                running.download.stop()
                self._is_over(running)

    def _run(self, running: Running) -> None:
        try:
            running.content = running.download.run()
        except Exception as error:
            running.error = error
        finally:
            with self._lock:
                self._is_over(running)
            running.done.set()

    def _is_over(self, running: Running) -> None:
        if self._running.get(running.download.url) is running:
            del self._running[running.download.url]
