"""An order to read files into the page cache, and perhaps to lock them there: what the process of `warmer` does.

What is read is thrown away; the pages stay, as long as the kernel has no better use for them. One thread for each
order, so that a disk that never answers holds up nobody else: whoever was told to let go has no claim to its disk any
more, even if its thread still waits.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import platform
import resource
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from .warmer import Warmer

STEP_BYTES = 1 << 20
"""What is read at once: as much as fits into a processor's cache, since it is copied for nothing."""
AHEAD_BYTES = 8 << 20
"""The kernel is told what is read next, so much at a time; it loads no more for one call."""
LOCK_BYTES = 64 << 20
PATIENCE_S = 0.5
"""A step of locking takes less, unless its disk hangs."""
TELL_S = 0.1
"""How often it is told how far an order has come."""

_IOPRIO_SET = {"x86_64": 251, "aarch64": 30, "riscv64": 30}
_IOPRIO_WHO_PROCESS = 1
_IOPRIO_IDLE = 3 << 13
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
_libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
_libc.mlock.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
_MAP_FAILED = ctypes.c_void_p(-1).value


class File(NamedTuple):
    """A file as it was when the order was given."""

    path: str
    id: str
    bytes: int

    @contextlib.contextmanager
    def open(self) -> Iterator[int]:
        """Raises `OSError`: it is gone, or not what it was."""
        fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self.check(fd)
            yield fd
        finally:
            os.close(fd)

    def check(self, fd: int) -> None:
        found = os.fstat(fd)
        if (f"{found.st_dev}:{found.st_ino}", found.st_size) != (self.id, self.bytes):
            raise OSError(f"{self.path} has changed meanwhile")

    @property
    def device(self) -> str:
        return self.id.partition(":")[0]


class LetGo(Exception):
    """Nobody wants it any more."""


class CannotLock(Exception):
    """The kernel does not let files be locked; `str` says why."""


class Disks:
    """Whose turn it is on each."""

    def __init__(self) -> None:
        self._turn = threading.Condition()
        self._readers: dict[str, Order] = {}

    @contextlib.contextmanager
    def taken(self, device: str, order: Order) -> Iterator[None]:
        """Waits for one's turn. Raises `LetGo`."""
        with self._turn:
            while (reader := self._readers.get(device)) is not None and not reader.is_over:
                order.tell("queued")
                self._turn.wait()
                order.check()
            self._readers[device] = order
        try:
            yield
        finally:
            with self._turn:
                if self._readers.get(device) is order:
                    del self._readers[device]
                self._turn.notify_all()

    def look_again(self) -> None:
        """Somebody does not want to read any more."""
        with self._turn:
            self._turn.notify_all()


class Order:
    """The files of one model, from the order until they are warm, or, if they are to be locked, are let go of."""

    def __init__(self, warmer: Warmer, model: str, number: int, files: list[File], *, lock: bool) -> None:
        self.model = model
        self.number = number
        self.files = files
        self.lock = lock
        self.is_over = False
        self.is_told = False
        """How it has ended."""
        self._warmer = warmer
        self._total = sum(file.bytes for file in files)
        self._done = 0
        self._told = 0.0
        self._stage = ""
        self._maps: list[tuple[int, int]] = []
        """Address and length of what is mapped to be locked."""
        self._guard = threading.Lock()

    def begin(self) -> None:
        threading.Thread(target=self._run, name=self.model[:15], daemon=True).start()

    def check(self) -> None:
        if self.is_over:
            raise LetGo

    def let_go(self) -> None:
        """Ends it at once, whatever its thread reads. What it locks just now ends with this step."""
        self.is_over = True
        if self._guard.acquire(timeout=PATIENCE_S):
            self._unlock()
            self._guard.release()
            self._warmer.over(self, "gone")

    def _unlock(self) -> None:
        maps, self._maps = self._maps, []
        for address, length in maps:
            _libc.munmap(address, length)

    def tell(self, stage: str, reason: str | None = None) -> None:
        """A stage is told when it begins, and from time to time."""
        now = time.monotonic()
        if stage == self._stage and now < self._told + TELL_S:
            return
        self._stage, self._told = stage, now
        self._warmer.say(
            {
                "is": "pages",
                "model": self.model,
                "id": self.number,
                "stage": stage,
                "done": self._done,
                "total": self._total,
                "reason": reason,
            }
        )

    def _run(self) -> None:
        be_modest()
        try:
            for file in self.files:
                with self._warmer.disks.taken(file.device, self):
                    self._read(file)
            self._done = self._total
            self.check()
            self._end()
        except LetGo:
            with self._guard:
                self._unlock()
            self._warmer.over(self, "gone")
        except OSError as error:
            with self._guard:
                self._unlock()
            reason = f"{error.filename}: {error.strerror}" if error.filename and error.strerror else str(error)
            self._warmer.over(self, "failed", reason)

    def _end(self) -> None:
        if not self.lock:
            self._warmer.over(self, "warm")
            return
        try:
            for file in self.files:
                self._lock(file)
        except CannotLock as refused:
            with self._guard:
                self._unlock()
            self._warmer.over(self, "warm", str(refused))
        else:
            self.tell("locked")

    def _read(self, file: File) -> None:
        before, buffer = self._done, bytearray(STEP_BYTES)
        with file.open() as fd:
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_SEQUENTIAL)
            at = advised = 0
            while True:
                self.check()
                self.tell("reading")
                if advised <= at + AHEAD_BYTES:
                    os.posix_fadvise(fd, advised, AHEAD_BYTES, os.POSIX_FADV_WILLNEED)
                    advised += AHEAD_BYTES
                n = os.preadv(fd, [buffer], at)
                if n == 0:
                    break
                at += n
                self._done = before + at
            file.check(fd)

    def _lock(self, file: File) -> None:
        """Step by step, so that it can be told to let go. Raises `CannotLock`."""
        if not file.bytes:
            return
        with file.open() as fd:
            address = _libc.mmap(None, file.bytes, mmap.PROT_READ, mmap.MAP_SHARED, fd, 0)
        if address == _MAP_FAILED:
            raise CannotLock(os.strerror(ctypes.get_errno()))
        with self._guard:
            self._maps.append((address, file.bytes))
        for at in range(0, file.bytes, LOCK_BYTES):
            self.tell("reading")
            with self._guard:
                self.check()
                if _libc.mlock(address + at, min(LOCK_BYTES, file.bytes - at)) != 0:
                    raise CannotLock(f"{os.strerror(ctypes.get_errno())} (LimitMEMLOCK is {limit()})")


def be_modest() -> None:
    """The calling thread reads only when nobody else does. Where the kernel does not know that, as all others do."""
    number = _IOPRIO_SET.get(platform.machine())
    if number is not None:
        _libc.syscall(number, _IOPRIO_WHO_PROCESS, 0, _IOPRIO_IDLE)


def limit() -> str:
    """What the process may lock, as people read it."""
    soft = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    return "infinite" if soft == resource.RLIM_INFINITY else f"{soft / 2**20:.1f} MiB"
