"""How much of a file is in the page cache: seen on real files."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from lazyd.manager.pages import sampling
from lazyd.manager.pages.sampling import MOST, cached_fraction

MIB = 1 << 20
SIZE = 8 * MIB
NEARLY_ALL = 0.9
"""On a busy machine some pages come late, and do not count."""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file that can be dropped from the page cache, and of which that can be seen."""
    path = tmp_path / "weights"
    with path.open("wb") as opened:
        opened.write(os.urandom(SIZE))
        opened.flush()
        os.fsync(opened.fileno())
    if (cached_fraction([str(path)]) or 0.0) < NEARLY_ALL:
        pytest.skip("RWF_NOWAIT does not tell here what is cached")
    drop(path)
    if cached_fraction([str(path)]) != 0.0:
        pytest.skip("files here are not dropped from memory when that is asked for")
    return path


def drop(path: Path) -> None:
    with path.open("rb") as opened:
        os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def read(path: Path, size: int, offset: int = 0) -> None:
    """Reads this part, and nothing ahead of it."""
    with path.open("rb") as opened:
        os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
        os.pread(opened.fileno(), size, offset)


def test_a_file_that_was_read_is_cached_and_one_that_was_dropped_is_not(file: Path) -> None:
    read(file, SIZE)
    assert (cached_fraction([str(file)]) or 0.0) >= NEARLY_ALL
    drop(file)
    assert cached_fraction([str(file)]) == 0.0


def test_half_of_a_file_is_about_half(file: Path) -> None:
    read(file, SIZE // 2)
    part = cached_fraction([str(file)])
    assert part is not None
    assert 0.4 < part < 0.6


def test_several_files_count_by_their_bytes(file: Path, tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.write_bytes(os.urandom(SIZE // 3))
    assert cached_fraction([str(file), str(small)]) == pytest.approx(0.25, abs=0.03)


def test_looking_reads_nothing_into_memory(file: Path) -> None:
    for _ in range(SIZE // 4096 // MOST * 4):  # as if it were looked at until every page has had its turn
        cached_fraction([str(file)])
    part = cached_fraction([str(file)])
    assert part is not None
    assert part < 0.1


def test_a_page_that_is_read_while_it_is_asked_for_was_not_there(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waits for a processor between asking and looking finds what a quick disk has brought meanwhile."""
    ask = os.preadv

    def waiting(fd: int, buffers: Any, at: int, flags: int) -> int:
        try:
            return ask(fd, buffers, at, flags)
        except BlockingIOError:
            time.sleep(0.001)
            return ask(fd, buffers, at)

    monkeypatch.setattr(os, "preadv", waiting)
    assert cached_fraction([str(file)]) == 0.0
    monkeypatch.undo()
    assert cached_fraction([str(file)]) == 0.0, "and it was dropped again"


def test_an_empty_file_and_none_at_all_are_nothing(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    assert cached_fraction([str(tmp_path / "empty")]) is None
    assert cached_fraction([]) is None


def test_where_nothing_can_be_known_it_is_not_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x"
    path.write_bytes(b"x")

    def cannot(*_: object) -> bool:
        raise OSError(95, os.strerror(95))

    monkeypatch.setattr(sampling, "_is_there", cannot)
    assert cached_fraction([str(path)]) is None


def test_a_file_that_is_missing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        cached_fraction([str(tmp_path / "gone")])
