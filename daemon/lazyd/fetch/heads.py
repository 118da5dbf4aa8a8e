"""What a model's files say of themselves, before they are fetched: only the parts that say it are read.

They are written to sparse files of the whole size, where they belong. So the runtimes' own readers read them as they
read any file, in the manager, and find the same; what is missing takes no room. Readers are run here once, to find out
which parts they read.
"""

from __future__ import annotations

import io
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress

from lazyd.runtimes import gguf
from lazyd.runtimes.onnx_reader import Reader
from lazyd.runtimes.protobuf import Message

from .remote import Remote

BLOCK = 256 << 10
MOST_READ = 512 << 20
"""More than this is no head."""


class Sparse(io.RawIOBase):
    """A file elsewhere: what is read of it is copied to its place in a file here."""

    def __init__(self, path: str, size: int, read: Callable[[int, int], bytes]) -> None:
        super().__init__()
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o640)
        os.truncate(self._fd, size)
        self._size = size
        self._read = read
        self._have: set[int] = set()
        self._place = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._place, os.SEEK_END: self._size}[whence]
        self._place = start + offset
        return self._place

    def tell(self) -> int:
        return self._place

    def readinto(self, buffer: object) -> int:
        view = memoryview(buffer).cast("B")  # type: ignore[arg-type]
        count = max(0, min(len(view), self._size - self._place))
        if count:
            self._fill(self._place, self._place + count)
            data = os.pread(self._fd, count, self._place)
            view[: len(data)] = data
            self._place += len(data)
        return count

    def close(self) -> None:
        if not self.closed:
            os.close(self._fd)
        super().close()

    def _fill(self, start: int, end: int) -> None:
        """Has all blocks in between; those that are missing side by side are read in one go."""
        missing = [block for block in range(start // BLOCK, -(-end // BLOCK)) if block not in self._have]
        while missing:
            run = [missing.pop(0)]
            while missing and missing[0] == run[-1] + 1:
                run.append(missing.pop(0))
            begins, ends = run[0] * BLOCK, min((run[-1] + 1) * BLOCK, self._size)
            os.pwrite(self._fd, self._read(begins, ends), begins)
            self._have.update(run)
            if len(self._have) * BLOCK > MOST_READ:
                raise ValueError("its head does not end")


def fetch(folder: str, files: Mapping[str, str], open_url: Callable[[str], Remote]) -> None:
    """Makes the folder with the heads of all `files`, URLs by name.

    Two models may want the same at a time. Raises `Failed`, and `ValueError` for what is not what its name says.
    """
    new = tempfile.mkdtemp(prefix=f"{os.path.basename(folder)}.", dir=os.path.dirname(folder))
    os.chmod(new, 0o750)
    try:
        for name, url in files.items():
            path = os.path.join(new, *name.split("/"))
            os.makedirs(os.path.dirname(path), mode=0o750, exist_ok=True)
            remote = open_url(url)
            info = remote.info()
            if info.bytes is None or not info.ranges:
                raise ValueError("the server tells no size, or knows no ranges")
            with Sparse(path, info.bytes, remote.read) as file:
                touch(name, file, info.bytes)
        shutil.rmtree(folder, ignore_errors=True)
        try:
            os.rename(new, folder)
        except OSError:
            if not os.path.isdir(folder):  # else the other one was quicker
                raise
    finally:
        shutil.rmtree(new, ignore_errors=True)


def touch(name: str, file: io.RawIOBase, size: int) -> None:
    """Reads what a runtime will read of it. A file of which that is not known is only as large as it is."""
    reader = _READERS.get(os.path.splitext(name)[1].lower())
    if reader is not None:
        reader(name, io.BufferedReader(file, BLOCK), size)


def _gguf(name: str, file: io.BufferedReader, size: int) -> None:
    gguf.read_from(name, file, size)


def _onnx(_: str, file: io.BufferedReader, size: int) -> None:
    file.seek(0)
    Reader(Message(file, size)).model()


_READERS: dict[str, Callable[[str, io.BufferedReader, int], None]] = {".gguf": _gguf, ".onnx": _onnx}


def externals(file: io.RawIOBase, size: int) -> list[str]:
    """The names of an ONNX file's files of weights; none, where it does not say."""
    buffered = io.BufferedReader(file, BLOCK)
    with suppress(ValueError):
        reader = Reader(Message(buffered, size))
        reader.model()
        return [name for name in reader.head.external if _is_beside(name)]
    return []


def _is_beside(name: str) -> bool:
    return bool(name) and not name.startswith("/") and ".." not in name.split("/")
