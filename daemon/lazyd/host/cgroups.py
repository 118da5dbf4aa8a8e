"""One cgroup (v2) for each worker, where the host may make them.

Under systemd the unit says ``Delegate=yes`` and the host owns its cgroup. Elsewhere it tries: a
cgroup that it may make below its own is as good. A cgroup with processes cannot hand controllers
down, so the host moves itself into a leaf first. Without cgroups everything works by the process
table, and memory is measured per process.
"""

from __future__ import annotations

import contextlib
import os
import select
from collections.abc import Callable, Collection
from pathlib import Path

from ..worker.loop import Loop

_LEAF = "host"
_OURS = "lazyd-host-"
_WORKER = "worker-"
_WARM = "warm"


class Cgroup:
    """The cgroup of one worker."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._watch: select.epoll | None = None
        self._events: int | None = None

    def add(self, pid: int) -> None:
        """Moves a process here. Raises `OSError`."""
        (self.path / "cgroup.procs").write_text(str(pid))

    def pids(self) -> list[int]:
        """All processes, also those in cgroups below."""
        found: list[int] = []
        for directory, _, _ in os.walk(self.path):
            with contextlib.suppress(OSError):
                found += map(int, Path(directory, "cgroup.procs").read_text().split())
        return found

    def kill(self) -> None:
        """SIGKILL for all of it."""
        try:
            (self.path / "cgroup.kill").write_text("1")
        except OSError:  # before Linux 5.14; or gone
            for pid in self.pids():
                with contextlib.suppress(OSError):
                    os.kill(pid, 9)

    def is_empty(self) -> bool:
        try:
            return "populated 0" in (self.path / "cgroup.events").read_text()
        except OSError:
            return True

    def when_changed(self, loop: Loop, callback: Callable[[], None]) -> None:
        """Calls back whenever it may have become empty. The kernel announces that as priority data."""
        self._events = os.open(self.path / "cgroup.events", os.O_RDONLY | os.O_CLOEXEC)
        os.read(self._events, 4096)
        self._watch = select.epoll(1)
        self._watch.register(self._events, select.EPOLLPRI)
        events, watch = self._events, self._watch

        def changed() -> None:
            watch.poll(0)
            os.lseek(events, 0, os.SEEK_SET)
            os.read(events, 4096)
            callback()

        loop.watch(watch, read=changed)

    def stop_watching(self, loop: Loop) -> None:
        if self._watch is not None and self._events is not None:
            loop.watch(self._watch)
            self._watch.close()
            os.close(self._events)
            self._watch = self._events = None

    def memory_bytes(self) -> int | None:
        """Anonymous and shared memory; None where the controller is not enabled."""
        try:
            lines = (self.path / "memory.stat").read_text().splitlines()
        except OSError:
            return None
        numbers = dict(line.split() for line in lines)
        return int(numbers.get("anon", 0)) + int(numbers.get("shmem", 0))

    def memory_kills(self) -> int | None:
        """How often the kernel killed here for want of memory."""
        try:
            lines = (self.path / "memory.events").read_text().splitlines()
        except OSError:
            return None
        return int(dict(line.split() for line in lines).get("oom_kill", 0))

    def remove(self) -> None:
        _remove(self.path)


class Cgroups:
    """Where workers' cgroups are made."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self._count = 0

    @classmethod
    def at(cls, base: str) -> Cgroups:
        """Where an earlier self had found a place."""
        return cls(Path(base))

    @classmethod
    def claim(cls) -> Cgroups | None:
        """Finds a place, moves this process into a leaf of it, and enables memory accounting if it can."""
        own = own_path()
        if own is None:
            return None
        try:
            alone = (own / "cgroup.procs").read_text().split() == [str(os.getpid())]
            base = own if alone else own / f"{_OURS}{os.getpid()}"
            _remove_stale(own)
            (base / _LEAF).mkdir(parents=True, exist_ok=True)
            (base / _LEAF / "cgroup.procs").write_text(str(os.getpid()))
        except OSError:
            with contextlib.suppress(OSError, UnboundLocalError):
                if base != own:
                    _remove(base)
            return None
        for path in {own, base}:
            with contextlib.suppress(OSError):  # not handed down to us, or others are in there
                (path / "cgroup.subtree_control").write_text("+memory")
        found = cls(base)
        found.keep_only(())
        return found

    def create(self) -> Cgroup | None:
        """A new cgroup. None if that fails; the worker is then ended and measured without one."""
        while True:
            self._count += 1
            path = self.base / f"{_WORKER}{self._count}"
            try:
                path.mkdir()
            except FileExistsError:
                continue
            except OSError:
                return None
            return Cgroup(path)

    def warm(self) -> Path | None:
        """Where models' files are read: their pages are charged there, to no worker. It lasts as long as the host."""
        path = self.base / _WARM
        try:
            path.mkdir(exist_ok=True)
        except OSError:
            return None
        return path

    def keep_only(self, names: Collection[str]) -> None:
        """Removes workers' cgroups that nobody knows of any more."""
        for path in self.base.glob(f"{_WORKER}*"):
            if path.name not in names:
                _remove(path)

    def find(self, name: str) -> Cgroup | None:
        """One that was created before."""
        path = self.base / name
        return Cgroup(path) if path.is_dir() else None

    def leave(self) -> None:
        """Tidies up at the end, as far as it goes for a process that is in there itself."""
        if self.base.name.startswith(_OURS):
            with contextlib.suppress(OSError):
                (self.base.parent / "cgroup.procs").write_text(str(os.getpid()))
            _remove(self.base)


def own_path() -> Path | None:
    """The directory of this process's own cgroup, or None without cgroup v2."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
        mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    except OSError:
        return None
    inside = next((line[3:] for line in lines if line.startswith("0::")), None)
    for mount in mounts:
        fields, _, kind = mount.partition(" - ")
        if kind.startswith("cgroup2 ") and inside is not None:
            root, point = fields.split()[3:5]
            if root != "/" and (inside + "/").startswith(root + "/"):
                inside = inside[len(root) :]
            path = Path(point + inside)
            return path if path.is_dir() else None
    return None


def left_by(pid: int) -> list[Cgroup]:
    """Cgroups of workers of a host that had this pid, and ended without tidying up."""
    own = own_path()
    return [] if own is None else [Cgroup(path) for path in (own / f"{_OURS}{pid}").glob(f"{_WORKER}*")]


def _remove_stale(own: Path) -> None:
    """What a host left that was killed: its workers died with it."""
    for path in own.glob(f"{_OURS}*"):
        pid = path.name.removeprefix(_OURS)
        if pid.isdigit() and not Path("/proc", pid).exists():
            _remove(path)


def _remove(path: Path) -> None:
    for directory, _, _ in os.walk(path, topdown=False):
        with contextlib.suppress(OSError):
            os.rmdir(directory)
