"""Looking for files: what a pattern finds, what is watched for it, and what is not whole yet."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lazyd.config import walking
from lazyd.config.patterns import Pattern, pattern

from .conftest import put

pytestmark = pytest.mark.usefixtures("later")


def test_a_directory_that_is_not_there_is_watched_through_the_nearest_one(tmp_path: Path) -> None:
    seen = walking.scan([pattern(f"{tmp_path}/not/yet/**/*.gguf")])
    assert (seen.found, seen.warnings, list(seen.watches)) == ([], {}, [str(tmp_path)])
    watch = seen.watches[str(tmp_path)]
    assert watch.heeds("not", is_directory=True)
    assert not watch.heeds("other", is_directory=True)


def test_only_what_may_matter_in_a_directory_is_heeded(tmp_path: Path) -> None:
    put(tmp_path / "m/a/x.gguf")
    seen = walking.scan([pattern(f"{tmp_path}/m/**/*.gguf")])
    assert sorted(seen.watches) == [f"{tmp_path}/m", f"{tmp_path}/m/a"]
    watch = seen.watches[f"{tmp_path}/m"]
    heeded = {name: watch.heeds(name, is_directory=False) for name in ("y.gguf", "log.txt", ".y.gguf", "y.gguf.part")}
    assert heeded == {"y.gguf": True, "log.txt": False, ".y.gguf": False, "y.gguf.part": False}
    assert watch.heeds("new", is_directory=True)


def test_links_are_followed_but_not_round_and_round(tmp_path: Path) -> None:
    put(tmp_path / "elsewhere/x.gguf")
    root = tmp_path / "m"
    root.mkdir()
    (root / "file.gguf").symlink_to(tmp_path / "elsewhere/x.gguf")
    (root / "round").symlink_to(root)
    (root / "nowhere.gguf").symlink_to(root / "not there")
    seen = walking.scan([pattern(f"{root}/**/*.gguf")])
    assert [one.path for one in seen.found] == [f"{root}/file.gguf"]
    assert seen.warnings == {f"{root}/nowhere.gguf": "is a link to what is not there"}


def test_what_is_no_file_or_cannot_be_read_is_a_warning_and_hides_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / "m/a.gguf")
    secret = put(tmp_path / "m/secret.gguf")
    os.mkfifo(tmp_path / "m/pipe.gguf")
    (tmp_path / "m/directory.gguf").mkdir()
    closed = tmp_path / "m/closed"
    closed.mkdir()
    scandir, access = os.scandir, os.access

    def denied(path: str) -> object:
        if str(path) == str(closed):
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr("lazyd.config.walking.os.scandir", denied)
    monkeypatch.setattr("lazyd.config.walking.os.access", lambda path, mode: path != str(secret) and access(path, mode))
    seen = walking.scan([pattern(f"{tmp_path}/m/**/*.gguf")])
    assert [one.path for one in seen.found] == [f"{tmp_path}/m/a.gguf"]
    assert seen.warnings == {
        str(closed): "cannot be read: Permission denied",
        str(secret): "cannot be read: Permission denied",
        f"{tmp_path}/m/pipe.gguf": "is not a file",
    }


def test_there_is_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walking, "MAX_FILES", 3)
    for number in range(5):
        put(tmp_path / f"{number}.gguf")
    seen = walking.scan([pattern(f"{tmp_path}/*.gguf")])
    assert len(seen.found) == 3
    assert seen.warnings == {f"{tmp_path}/*.gguf": "means more files than 3: the rest is left out"}


def test_a_file_that_is_being_written_is_not_taken(tmp_path: Path, later: Callable[[float], None]) -> None:
    file = put(tmp_path / "a.gguf")
    later(0.0)
    look = lambda closed=(): walking.scan([pattern(f"{tmp_path}/*.gguf")], closed)  # noqa: E731
    seen = look()
    assert seen.found == []
    assert seen.again_in_s is not None
    assert 0 < seen.again_in_s <= walking.QUIET_S
    assert [one.path for one in look([str(file)]).found] == [str(file)], "its writer has closed it"
    later(walking.QUIET_S + 1)
    assert [one.path for one in look().found] == [str(file)], "or it has been quiet for a while"
    put(tmp_path / "empty.gguf", "")
    assert len(look().found) == 1


def test_a_file_that_comes_while_it_looks_is_being_written_too(tmp_path: Path, later: Callable[[float], None]) -> None:
    later(0.0)

    def patterns() -> Iterator[Pattern]:
        later(2.0)  # since it began to look
        written = time.time() - 1.0
        os.utime(put(tmp_path / "a.gguf"), (written, written))
        yield pattern(f"{tmp_path}/*.gguf")

    assert walking.scan(patterns()).found == []


def test_a_model_in_several_files_is_taken_when_all_are_there(tmp_path: Path) -> None:
    put(tmp_path / "big-00001-of-00002.gguf")
    put(tmp_path / "inference.pdmodel")
    patterns = [pattern(f"{tmp_path}/*.gguf"), pattern(f"{tmp_path}/*.pdmodel")]
    seen = walking.scan(patterns)
    assert seen.found == []
    put(tmp_path / "big-00002-of-00002.gguf")
    put(tmp_path / "inference.pdiparams")
    assert [os.path.basename(one.path) for one in walking.scan(patterns).found] == [
        "big-00001-of-00002.gguf",
        "inference.pdmodel",
    ]
    assert seen.watches[str(tmp_path)].heeds("inference.pdiparams", is_directory=False), "or nobody would look again"


def test_the_files_of_a_directory_that_is_a_version_have_to_be_quiet(
    tmp_path: Path, later: Callable[[float], None]
) -> None:
    put(tmp_path / "ocr/1/a.pdmodel")
    (tmp_path / "ocr/2").mkdir()
    one = pattern(f"{tmp_path}/ocr/${{version}}", wild=False)
    seen = walking.scan([one])
    assert [found.version for found in seen.found] == ["1"]
    assert seen.watches[f"{tmp_path}/ocr/2"].heeds("inference.pdmodel", is_directory=False), "it is being filled"
    later(0.0)
    assert walking.scan([one]).found == []


def test_what_was_found_before_stays_while_it_is_written_to(tmp_path: Path, later: Callable[[float], None]) -> None:
    file = put(tmp_path / "a/inference.pdmodel")
    weights = put(tmp_path / "a/inference.pdiparams")
    one = [pattern(f"{tmp_path}/**/*.pdmodel")]
    later(0.0)
    assert walking.scan(one).found == []
    assert [found.path for found in walking.scan(one, known=[str(file)]).found] == [str(file)]
    weights.unlink()
    assert walking.scan(one, known=[str(file)]).found == []
