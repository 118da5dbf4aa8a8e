"""Programs that stall for want of memory."""

from __future__ import annotations

import errno
import os
import select
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from lazyd.devices import pressure
from lazyd.devices.pressure import stalls

from .test_ram import GIB, machine

SYSTEM = "/proc/pressure/memory"


def text(total: int) -> str:
    return f"some avg10=0.00 avg60=0.00 avg300=0.00 total={total}\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"


def test_where_the_kernel_does_not_ring_the_figure_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "memory"
    totals = iter([9_000, 1_009_000, 1_009_000])
    file.write_text(text(0))

    def sleep(seconds: float) -> None:
        now[0] += seconds
        file.write_text(text(next(totals)))

    now = [100.0]
    monkeypatch.setattr(pressure.time, "sleep", sleep)
    monkeypatch.setattr(pressure.time, "monotonic", lambda: now[0])
    rings = pressure._read(str(file), 5.0)
    next(rings)  # a second in five, after 9 ms in the five before
    assert file.read_text() == text(1_009_000)
    with pytest.raises(RuntimeError):  # no stall in the third: it sleeps on, and the figures are at their end
        next(rings)


@pytest.mark.parametrize(("call", "error"), [("write", errno.EPERM), ("open", errno.EACCES), ("open", errno.EROFS)])
def test_who_may_not_ask_the_kernel_to_ring_reads_the_figure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, error: int
) -> None:
    file = tmp_path / "memory"
    file.write_text(text(0))

    def refuse(*_: object) -> int:
        raise OSError(error, os.strerror(error))

    def read(path: str, look_s: float) -> Iterator[None]:
        assert (path, look_s) == (str(file), 7.0)
        yield

    monkeypatch.setattr(os, call, refuse)
    monkeypatch.setattr(pressure, "_read", read)
    assert len(list(stalls(str(file), 7.0))) == 1


@pytest.fixture
def ends() -> Iterator[tuple[int, socket.socket]]:
    """A descriptor to be watched, and what rings it: the urgent data of TCP looks to poll like the kernel's ring."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as kernel:
        yield server.accept()[0].detach(), kernel


def test_the_kernels_ring_is_heard(ends: tuple[int, socket.socket]) -> None:
    watched, kernel = ends
    kernel.send(b"!", socket.MSG_OOB)
    next(pressure._rings(watched))


def test_a_cgroup_that_is_removed_ends_the_watch(ends: tuple[int, socket.socket]) -> None:
    watched, kernel = ends
    kernel.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    kernel.close()
    with pytest.raises(OSError, match="stopped watching"):
        next(pressure._rings(watched))
    with pytest.raises(OSError):
        os.fstat(watched)


@pytest.mark.skipif(not os.path.exists(SYSTEM), reason="this kernel does not tell of pressure")
def test_this_kernel_takes_the_request(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(pressure, "_rings", lambda fd: iter([asked.append(fd)]))
    monkeypatch.setattr(pressure, "_read", lambda *_: iter([asked.append(-1)]))
    list(stalls(SYSTEM))
    (fd,) = asked
    if fd >= 0:  # otherwise it is too old for who is not root
        poll = select.poll()
        poll.register(fd, select.POLLPRI)
        assert not any(happened & select.POLLERR for _, happened in poll.poll(0))
        os.close(fd)


def test_without_a_file_there_is_nothing_to_hear() -> None:
    with pytest.raises(FileNotFoundError):
        next(stalls("/proc/pressure/there-is-none"))


def test_the_file_is_that_of_the_cgroup_that_limits_or_else_the_machines(tmp_path: Path) -> None:
    files = {
        "a/memory.max": f"{4 * GIB}\n",
        "a/memory.current": "1\n",
        "a/memory.pressure": text(0),
        "a/b/memory.max": f"{6 * GIB}\n",
        "a/b/memory.current": "1\n",
        "a/b/memory.pressure": text(0),
    }
    assert machine(tmp_path / "1", "0::/a/b\n", files).pressure_file().endswith("/cgroup/a/memory.pressure")
    files = {"a/memory.max": f"{64 * GIB}\n", "a/memory.current": "1\n", "a/memory.pressure": text(0)}
    assert machine(tmp_path / "2", "0::/a\n", files).pressure_file().endswith("/proc/pressure/memory")
