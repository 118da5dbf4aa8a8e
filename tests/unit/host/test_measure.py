"""What a worker holds: its own memory apart from the files that it maps, quickly and by all its processes."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lazyd.host import measure
from lazyd.host.cgroups import Cgroup

MIB = 1024 * 1024
NOBODY = 2**22 + 1
IMPRECISE_MIB = 3
"""The kernel's counters are kept by each processor, and are put together late."""

PROGRAM = """
import mmap, sys
kept = []
def touch(memory):
    for at in range(0, len(memory), 4096):
        memory[at]
    kept.append(memory)
print(flush=True)
for line in sys.stdin:
    what, argument = line.split()
    if what == "file":
        with open(argument, "rb") as file:
            touch(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ))
    elif what == "shared":
        memory = mmap.mmap(-1, int(argument))
        memory[:] = bytes(1) * len(memory)
        kept.append(memory)
    else:
        kept.append(b"x" * int(argument))
    print(flush=True)
"""


class Program:
    """A process that takes memory when it is told to."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.pid = self._process.pid
        self._read()

    def take(self, what: str, argument: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{what} {argument}\n")
        self._process.stdin.flush()
        self._read()

    def end(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()

    def _read(self) -> None:
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "\n"


@contextmanager
def running() -> Iterator[Program]:
    program = Program()
    try:
        yield program
    finally:
        program.end()


@pytest.fixture
def program() -> Iterator[Program]:
    with running() as program:
        yield program


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "weights"
    path.write_bytes(os.urandom(MIB) * 100)
    return path


def grown(before: measure.Memory, after: measure.Memory) -> tuple[int, int]:
    """By how many MiB."""
    return (
        round((after.private_bytes - before.private_bytes) / MIB),
        round((after.file_bytes - before.file_bytes) / MIB),
    )


def test_files_that_are_mapped_are_told_apart_from_memory_of_ones_own(program: Program, file: Path) -> None:
    before = measure.Gauge().memory([program.pid], None)
    assert before.private_bytes > MIB
    program.take("file", file)
    program.take("own", 50 * MIB)
    assert grown(before, measure.Gauge().memory([program.pid], None)) == (50, 100)


def test_shared_memory_is_ones_own(program: Program) -> None:
    before = measure.Gauge().memory([program.pid], None)
    program.take("shared", 20 * MIB)
    assert grown(before, measure.Gauge().memory([program.pid], None)) == (20, 0)


def test_a_file_that_two_map_is_counted_once_between_them(program: Program, file: Path) -> None:
    with running() as other:
        pids = [program.pid, other.pid]
        before = measure.Gauge().memory(pids, None)
        program.take("file", file)
        other.take("file", file)
        assert grown(before, measure.Gauge().memory(pids, None)) == (0, 100)


def test_between_two_looks_at_all_pages_what_is_new_counts_all_the_same(
    program: Program, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gauge = measure.Gauge()
    monkeypatch.setattr(measure, "PART", 1e-9)
    before = gauge.memory([program.pid], None)
    monkeypatch.setattr(measure, "proportional", lambda _: pytest.fail("all pages were looked at again"))
    program.take("own", 50 * MIB)
    program.take("file", file)
    assert grown(before, gauge.memory([program.pid], None)) == pytest.approx((50, 100), abs=IMPRECISE_MIB)


def test_what_was_mapped_before_a_look_is_not_counted_twice_after_it(file: Path) -> None:
    """Of what two processes share each has half, however often it is asked for."""
    with file.open("rb") as opened:
        mapped = mmap.mmap(opened.fileno(), 0, prot=mmap.PROT_READ)
    with running() as program:
        gauge = measure.Gauge()
        before = gauge.memory([program.pid], None)
        program.take("file", file)
        for at in range(0, len(mapped), mmap.PAGESIZE):
            mapped[at]
        looked = measure.Gauge()
        assert grown(before, looked.memory([program.pid], None)) == (0, 50)
        assert grown(before, looked.memory([program.pid], None)) == (0, 50)
    mapped.close()


def test_a_cgroup_counts_what_is_its_own(tmp_path: Path, program: Program, file: Path) -> None:
    (tmp_path / "memory.stat").write_text("anon 1000\nfile 5\nshmem 24\nslab 7\n")
    program.take("file", file)
    held = measure.Gauge().memory([program.pid], Cgroup(tmp_path))
    assert held.private_bytes == 1024
    assert held.file_bytes > 100 * MIB


def test_a_process_that_has_gone_holds_nothing(program: Program) -> None:
    gauge = measure.Gauge()
    assert gauge.memory([NOBODY], None) == (0, 0)
    assert gauge.memory([program.pid, NOBODY], None).private_bytes > 0
    program.end()
    assert gauge.memory([program.pid], None) == (0, 0)


def test_a_kernel_that_shows_no_shares_still_counts(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "proportional", lambda _: None)
    gauge = measure.Gauge()
    before = gauge.memory([program.pid], None)
    assert before.private_bytes > MIB
    program.take("own", 30 * MIB)
    assert grown(before, gauge.memory([program.pid], None)) == pytest.approx((30, 0), abs=IMPRECISE_MIB)
