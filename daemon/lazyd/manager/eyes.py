"""What the kernel tells of directories (inotify): that something which matters has come, gone or been closed."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Mapping
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from inotify_simple import INotify

    from lazyd.config.walking import Watch

log = logging.getLogger("lazyd.watching")

CLOSED_S = 10.0
"""For so long it is remembered that a file was closed; by then it is quiet."""
CREATE, DELETE, CLOSE_WRITE, ATTRIB = 0x100, 0x200, 0x8, 0x4
MOVED_FROM, MOVED_TO, DELETE_SELF, MOVE_SELF = 0x40, 0x80, 0x400, 0x800
ONLY_DIRECTORIES = 0x01000000
MASK = CREATE | DELETE | CLOSE_WRITE | ATTRIB | MOVED_FROM | MOVED_TO | DELETE_SELF | MOVE_SELF | ONLY_DIRECTORIES
IS_DIRECTORY, OVERFLOW, IGNORED = 0x40000000, 0x4000, 0x8000
"""The kernel's words, as in <sys/inotify.h>. Writing is not in `MASK`: a file that grows tells nothing till its end."""


class Eyes:
    """`on_event` is called when what was looked at may be another. Used by the loop, but for `open`."""

    def __init__(self, on_event: Callable[[], None]) -> None:
        self._on_event = on_event
        self._inotify: INotify | None = None
        self._watches: Mapping[str, Watch] = {}
        self._numbers: dict[str, int] = {}
        self._paths: dict[int, set[str]] = {}
        """By the kernel's number, which two names of one directory share."""
        self._closed: dict[str, float] = {}
        self._reading = False
        self.blind: str | None = None
        """Why not everything can be watched."""

    def open(self) -> None:
        """Gets ready, once. Blocks: the C library is looked for."""
        if self._inotify is not None:
            return
        from inotify_simple import INotify

        try:
            self._inotify = INotify(nonblocking=True)
        except OSError as error:
            self._be_blind(error, "fs.inotify.max_user_instances")

    def close(self) -> None:
        if self._inotify is not None:
            if self._reading:
                asyncio.get_running_loop().remove_reader(self._inotify.fileno())
            self._inotify.close()
            self._inotify = None

    def closed(self) -> frozenset[str]:
        """Files that were closed by their writers, or moved to their place, a moment ago."""
        return frozenset(self._closed)

    def watch(self, watches: Mapping[str, Watch]) -> bool:
        """Watches these directories and no others; whether some are new."""
        self._watches = watches
        since = monotonic() - CLOSED_S
        self._closed = {path: at for path, at in self._closed.items() if at > since}
        if self._inotify is None:
            return False
        if not self._reading:
            self._reading = True
            asyncio.get_running_loop().add_reader(self._inotify.fileno(), self._heard)
        for path in [path for path in self._numbers if path not in watches]:
            self._forget(path)
        new = [path for path in watches if path not in self._numbers]
        return any([self._add(path) for path in new])  # noqa: C419  # each of them

    def _add(self, path: str) -> bool:
        assert self._inotify is not None
        try:
            number = self._inotify.add_watch(path, MASK)
        except (FileNotFoundError, NotADirectoryError):  # it has just gone
            return True
        except PermissionError:  # told by who looks into it
            return False
        except OSError as error:
            self._be_blind(error, "fs.inotify.max_user_watches")
            return False
        self._numbers[path] = number
        self._paths.setdefault(number, set()).add(path)
        return True

    def _forget(self, path: str) -> None:
        number = self._numbers.pop(path)
        names = self._paths.get(number, set())
        names.discard(path)
        if not names and self._inotify is not None:
            self._paths.pop(number, None)
            try:
                self._inotify.rm_watch(number)
            except OSError:  # the kernel has forgotten it, with its directory
                return

    def _be_blind(self, error: OSError, limit: str) -> None:
        if self.blind is None:
            self.blind = f"{error.strerror}"
            log.warning(
                "directories cannot all be watched: %s; they are looked at now and then, raise %s", error, limit
            )

    def _heard(self) -> None:
        assert self._inotify is not None
        for event in self._inotify.read(timeout=0):
            if event.mask & OVERFLOW:
                self._on_event()
            for path in list(self._paths.get(event.wd, ())):
                self._happened(path, event.mask, event.name)

    def _happened(self, directory: str, mask: int, name: str) -> None:
        if mask & (DELETE_SELF | MOVE_SELF | IGNORED):
            self._forget(directory)  # what has its name now is another one
            self._on_event()
            return
        watch = self._watches.get(directory)
        is_directory = bool(mask & IS_DIRECTORY)
        if watch is None or not watch.heeds(name, is_directory):
            return
        if mask & (CLOSE_WRITE | MOVED_TO) and not is_directory:
            self._closed[os.path.join(directory, name)] = monotonic()
        self._on_event()
