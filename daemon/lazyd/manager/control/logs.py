"""The workers' own output: files that the host writes and turns over once."""

from __future__ import annotations

import os
from collections.abc import Callable
from io import FileIO

from lazyd import places
from lazyd.core.names import MARK, replica_key

CHUNK_BYTES = 256 * 1024
LONGEST_LINE_BYTES = 64 * 1024


class LogReader:
    """Reads the lines of one model's log, the older file first. Blocks: it is used in a thread.

    `more` may be called again for what has been written since, also after the file was turned
    over (the host renames it to ``.1`` and begins a new one).
    """

    def __init__(self, runtime: str, key: str) -> None:
        self._path = places.worker_log(runtime, key)
        self._older = _open(f"{self._path}.1")
        self._file: FileIO | None = None
        self._rest = b""

    def more(self) -> list[str]:
        """The next lines, a bounded number at once; empty: nothing more is there now."""
        if self._older is not None:
            lines = self._lines(self._older)
            if lines:
                return lines
            self._older.close()
            self._older = None
        if self._file is None:
            self._file = _open(self._path)
        if self._file is None:
            return []
        lines = self._lines(self._file)
        if not lines and self._turned_over():
            self._file.close()
            self._file = _open(self._path)
            return self.more() if self._file is not None else []
        return lines

    def rest(self) -> list[str]:
        """What stands at the end without a newline."""
        rest, self._rest = self._rest, b""
        return [_text(rest)] if rest else []

    def close(self) -> None:
        for file in (self._older, self._file):
            if file is not None:
                file.close()

    def _lines(self, file: FileIO) -> list[str]:
        while data := file.read(CHUNK_BYTES):
            *lines, self._rest = (self._rest + data).split(b"\n")
            if len(self._rest) > LONGEST_LINE_BYTES:
                lines.append(self._rest)
                self._rest = b""
            if lines:
                return [_text(line) for line in lines]
        return []

    def _turned_over(self) -> bool:
        assert self._file is not None
        try:
            return os.stat(self._path).st_ino != os.fstat(self._file.fileno()).st_ino
        except OSError:
            return False


class Logs:
    """Reads the lines of all workers of a model, each as `LogReader` does; before those of the second stands ``#2``,
    and so on. Blocks."""

    def __init__(self, runtime: str, key: str, workers: int) -> None:
        numbers = range(1, workers + 1)
        self._readers = {number: LogReader(runtime, replica_key(key, number)) for number in numbers}

    def more(self) -> list[str]:
        return self._told(LogReader.more)

    def rest(self) -> list[str]:
        return self._told(LogReader.rest)

    def close(self) -> None:
        for reader in self._readers.values():
            reader.close()

    def _told(self, read: Callable[[LogReader], list[str]]) -> list[str]:
        found = ((number, line) for number, reader in self._readers.items() for line in read(reader))
        return [line if number == 1 else f"{MARK}{number} {line}" for number, line in found]


def _open(path: str) -> FileIO | None:
    try:
        return open(path, "rb", buffering=0)
    except FileNotFoundError:
        return None


def _text(line: bytes) -> str:
    return line.rstrip(b"\r").decode("utf-8", "replace")
