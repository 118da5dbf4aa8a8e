"""The process that reads files into memory, without a process: its orders, and what it tells of them."""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lazyd.host import reading
from lazyd.host.reading import LOCK_BYTES, STEP_BYTES
from lazyd.host.warmer import Warmer
from lazyd.wire import packets
from lazyd.worker.link import decode, encode

KIB = 1024


class Host:
    """The other end. `hears` waits for what a model's order is told to have come to."""

    def __init__(self) -> None:
        self._socket, theirs = packets.pair()
        self._socket.settimeout(30)
        self.told: list[dict[str, Any]] = []
        self._thread = threading.Thread(target=Warmer(theirs).serve, daemon=True)
        self._thread.start()

    def orders(
        self, model: str, *paths: Path, number: int = 1, lock: bool = False, named: str = "", size: int | None = None
    ) -> None:
        """`named` and `size` are what the files were when that was looked up; else what they are."""
        files = [[str(path), named or id_of(path), path.stat().st_size if size is None else size] for path in paths]
        self._send({"do": "warm", "model": model, "id": number, "files": files, "lock": lock})

    def lets_go(self, model: str) -> None:
        self._send({"do": "let_go", "model": model})

    def hears(self, model: str, *stages: str, number: int = 1) -> dict[str, Any]:
        while True:
            for at, message in enumerate(self.told):
                if (message["model"], message["id"]) == (model, number) and message["stage"] in stages:
                    return self.told.pop(at)
            data, ancillary, _, _ = self._socket.recvmsg(packets.MAX_PACKET_BYTES, packets.ANCILLARY)
            assert data, "it has ended"
            self.told.append(decode(data, packets.received(ancillary))[0])

    def hears_the_end(self, model: str, number: int = 1) -> dict[str, Any]:
        return self.hears(model, "warm", "locked", "failed", "gone", number=number)

    def leaves(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(30)
        self._socket.close()

    def _send(self, message: dict[str, Any]) -> None:
        data, fds, _ = encode(message)
        socket.send_fds(self._socket, [data], fds)


class Disk:
    """Reading: of files that are `dead` nothing comes until the disk answers again."""

    def __init__(self) -> None:
        self.dead: set[str] = set()
        self.answers = threading.Event()
        self.waits = threading.Event()
        self._read = os.preadv

    def preadv(self, fd: int, buffers: Any, at: int) -> int:
        if os.readlink(f"/proc/self/fd/{fd}") in self.dead:
            self.waits.set()
            self.answers.wait(60)
        return self._read(fd, buffers, at)


def id_of(path: Path) -> str:
    found = os.stat(path)
    return f"{found.st_dev}:{found.st_ino}"


def locked_bytes() -> int:
    with open("/proc/self/status") as status:
        (row,) = [line for line in status if line.startswith("VmLck:")]
    return int(row.split()[1]) * KIB


@pytest.fixture
def host() -> Iterator[Host]:
    host = Host()
    yield host
    host.leaves()


@pytest.fixture
def file(tmp_path: Path) -> Callable[..., Path]:
    def write(name: str, size: int = 3 * STEP_BYTES + 5) -> Path:
        path = tmp_path / name
        path.write_bytes(os.urandom(1) * size)
        return path

    return write


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    disk = Disk()
    monkeypatch.setattr(os, "preadv", disk.preadv)
    yield disk
    disk.answers.set()


# Reading.


def test_all_files_of_a_model_are_read(host: Host, file: Callable[..., Path]) -> None:
    first, second = file("first"), file("second", 7)
    host.orders("a", first, second)
    assert host.hears("a", "reading")["total"] == 3 * STEP_BYTES + 12
    end = host.hears_the_end("a")
    assert (end["stage"], end["done"], end["reason"]) == ("warm", 3 * STEP_BYTES + 12, None)


def test_a_model_with_empty_files_is_warm(host: Host, file: Callable[..., Path]) -> None:
    host.orders("a", file("empty", 0), lock=True)
    assert host.hears_the_end("a")["stage"] == "locked"


@pytest.mark.parametrize("seen", [{"size": 4}, {"named": "1:2"}], ids=["another size", "another file"])
def test_a_file_that_is_not_what_it_was_fails_and_is_named(
    host: Host, file: Callable[..., Path], seen: dict[str, Any]
) -> None:
    path = file("weights")
    host.orders("a", path, **seen)
    end = host.hears_the_end("a")
    assert (end["stage"], end["reason"]) == ("failed", f"{path} has changed meanwhile")


def test_a_file_that_grows_while_it_is_read_fails(host: Host, file: Callable[..., Path], disk: Disk) -> None:
    path = file("weights")
    disk.dead.add(str(path))
    host.orders("a", path)
    assert disk.waits.wait(30)
    with open(path, "ab") as longer:
        longer.write(b"more")
    disk.answers.set()
    assert "has changed meanwhile" in host.hears_the_end("a")["reason"]


def test_a_file_that_is_missing_fails_and_the_next_order_is_taken(
    host: Host, file: Callable[..., Path], tmp_path: Path
) -> None:
    host.orders("a", tmp_path / "none", named="1:2", size=5)
    assert host.hears_the_end("a")["reason"] == f"{tmp_path / 'none'}: No such file or directory"
    host.orders("a", file("weights"), number=2)
    assert host.hears_the_end("a", number=2)["stage"] == "warm"


# Whose turn it is.


def test_one_of_each_disk_reads_at_a_time(host: Host, file: Callable[..., Path], disk: Disk) -> None:
    one_hangs_and_one_queues(host, file, disk)
    disk.answers.set()
    assert host.hears_the_end("a")["stage"] == "warm"
    assert host.hears_the_end("b")["stage"] == "warm"


def test_a_disk_that_does_not_answer_holds_up_no_other(host: Host, file: Callable[..., Path], disk: Disk) -> None:
    here, there = file("weights"), Path("/dev/shm", f"lazyd-test-{os.getpid()}")
    there.write_bytes(b"x" * 100)
    try:
        if here.stat().st_dev == there.stat().st_dev:
            pytest.skip("there is one disk only")
        disk.dead.add(str(here))
        host.orders("a", here)
        assert disk.waits.wait(30)
        host.orders("b", there)
        assert host.hears_the_end("b")["stage"] == "warm"
    finally:
        there.unlink()


def one_hangs_and_one_queues(host: Host, file: Callable[..., Path], disk: Disk) -> None:
    """The disk of `a` does not answer, and `b` waits for its turn."""
    first, second = file("first"), file("second")
    disk.dead.add(str(first))
    host.orders("a", first)
    assert disk.waits.wait(30)
    host.orders("b", second)
    host.hears("b", "queued")


def test_who_is_let_go_of_while_its_disk_hangs_has_no_claim_to_it(
    host: Host, file: Callable[..., Path], disk: Disk
) -> None:
    one_hangs_and_one_queues(host, file, disk)
    host.lets_go("a")
    assert host.hears_the_end("a")["stage"] == "gone"
    assert host.hears_the_end("b")["stage"] == "warm"
    disk.answers.set()


def test_who_is_let_go_of_in_the_line_is_gone_at_once(host: Host, file: Callable[..., Path], disk: Disk) -> None:
    one_hangs_and_one_queues(host, file, disk)
    host.lets_go("b")
    assert host.hears_the_end("b")["stage"] == "gone"


def test_a_newer_order_of_a_model_takes_the_place_of_an_older_one(
    host: Host, file: Callable[..., Path], disk: Disk
) -> None:
    old, new = file("old"), file("new")
    disk.dead.add(str(old))
    host.orders("a", old, number=1)
    assert disk.waits.wait(30)
    host.orders("a", new, number=2)
    assert host.hears_the_end("a", number=1)["stage"] == "gone"
    assert host.hears_the_end("a", number=2)["stage"] == "warm"
    disk.answers.set()


def test_what_nobody_has_ordered_can_be_let_go_of(host: Host, file: Callable[..., Path]) -> None:
    host.lets_go("a")
    host.orders("a", file("weights"))
    assert host.hears_the_end("a")["stage"] == "warm"


# Locking.


def test_files_are_locked_until_they_are_let_go_of(host: Host, file: Callable[..., Path]) -> None:
    before = locked_bytes()
    host.orders("a", file("first", 16 * KIB), file("second", 4 * KIB), lock=True)
    end = host.hears_the_end("a")
    if end["stage"] == "warm":
        pytest.skip(f"nothing can be locked here: {end['reason']}")
    assert locked_bytes() == before + 20 * KIB
    host.lets_go("a")
    assert host.hears("a", "gone")["reason"] is None
    assert locked_bytes() == before


def test_what_the_kernel_does_not_let_be_locked_is_warm_and_says_why(
    host: Host, file: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[int] = []

    def mlock(_: int, size: int) -> int:
        steps.append(size)
        ctypes.set_errno(errno.ENOMEM)
        return 0 if len(steps) == 1 else -1

    monkeypatch.setattr(reading, "_libc", Libc(mlock))
    host.orders("a", file("weights", LOCK_BYTES + 4 * KIB), lock=True)
    end = host.hears_the_end("a")
    assert steps == [LOCK_BYTES, 4 * KIB]
    assert end["stage"] == "warm"
    assert end["reason"].startswith("Cannot allocate memory (LimitMEMLOCK is ")


class Libc:
    """The C library, with another `mlock`."""

    def __init__(self, mlock: Callable[[int, int], int]) -> None:
        self.mlock = mlock
        self.mmap, self.munmap, self.syscall = reading._libc.mmap, reading._libc.munmap, reading._libc.syscall
