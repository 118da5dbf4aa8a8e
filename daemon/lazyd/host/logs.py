"""What workers write, bounded: a file for each model, rotated once, and the last lines in memory."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable

from ..errors import FAULT
from ..worker.loop import Loop

MAX_FILE = 1024 * 1024
"""Bytes after which a log becomes ``.1`` and a new one begins."""
TAIL = 4096
"""Bytes that are told when a worker has exited."""
KEPT = 32 * 1024
"""Bytes that are kept: what says why may stand before a long list of where each thread was."""
THE_THREAD = "Current thread"
"""So faulthandler calls the one that a crash was in."""
_CHUNK = 64 * 1024


class LogFile:
    """Appends to a file. A full disk loses lines, and nothing else."""

    def __init__(self, path: str, share: Callable[[int], None] = lambda _: None) -> None:
        self.path = path
        self._share = share

    def write(self, data: bytes) -> None:
        with contextlib.suppress(OSError):
            if os.path.exists(self.path) and os.path.getsize(self.path) + len(data) > MAX_FILE:
                os.replace(self.path, f"{self.path}.1")
            fd = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640)
            try:
                self._share(fd)
                os.write(fd, data)
            finally:
                os.close(fd)


class LogPipe:
    """What one process writes, pumped into a file as it comes."""

    def __init__(self, loop: Loop, fd: int, file: LogFile, tail: bytes = b"") -> None:
        os.set_blocking(fd, False)
        self.fd = fd
        self.tail = tail
        self._loop = loop
        self._file = file
        self._is_open = True
        loop.watch(fd, read=self._pump)

    @property
    def last_lines(self) -> str:
        """The last whole lines, `TAIL` bytes at most. Of a crash they are told with the thread that it was in, not
        with the many others."""
        return _of_crash(_whole_lines(self.tail, KEPT)) or _whole_lines(self.tail, TAIL)

    @property
    def last_line(self) -> str:
        return self.last_lines.strip().rpartition("\n")[2]

    @property
    def kept_lines(self) -> str:
        """The same, but `KEPT` bytes at most."""
        return _whole_lines(self.tail, KEPT)

    def catch_up(self) -> None:
        """Takes what is there now."""
        while self._is_open and (data := self._read()):
            self._keep(data)

    def finish(self) -> None:
        """Takes what is there now, and closes."""
        self.catch_up()
        self._end()

    def _pump(self) -> None:
        data = self._read()
        if data:
            self._keep(data)
        elif data is not None:
            self._end()

    def _read(self) -> bytes | None:
        """What is there; nothing at the end; None if nothing has come yet."""
        try:
            return os.read(self.fd, _CHUNK)
        except BlockingIOError:
            return None

    def _keep(self, data: bytes) -> None:
        self._file.write(data)
        self.tail = (self.tail + data)[-KEPT:]

    def _end(self) -> None:
        if self._is_open:
            self._is_open = False
            self._loop.watch(self.fd)
            os.close(self.fd)


def _of_crash(text: str) -> str | None:
    """What was written before a crash, and what faulthandler then wrote of the thread that it was in; else None."""
    at = text.rfind(f"\n{FAULT}") + 1 if not text.startswith(FAULT) else 0
    before, crash = text[:at], text[at:]
    if not crash.startswith(FAULT) or len(text) <= TAIL:
        return None
    what, *threads = crash.split("\n\n")
    thread = next((thread for thread in threads if thread.startswith(THE_THREAD)), "")
    told = f"{what}\n\n{thread.encode()[: TAIL * 3 // 4].decode('utf-8', 'ignore').rstrip()}\n"
    return _whole_lines(before.encode(), TAIL // 4 - len(what.encode())) + told


def _whole_lines(data: bytes, most: int) -> str:
    text = data[-most:].decode("utf-8", "replace")
    return text.partition("\n")[2] if len(data) >= most and "\n" in text else text
