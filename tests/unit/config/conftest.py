"""Configurations written for one test."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lazyd import config
from lazyd.config import Files, Loaded, walking
from lazyd.core.spec import Config

Write = Callable[..., Files]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """``write(text, text, …)`` -> files that are read one over the other."""

    def writing(*texts: str) -> Files:
        paths = []
        for number, text in enumerate(texts):
            path = tmp_path / f"{number}.toml"
            path.write_text(text)
            paths.append(str(path))
        return Files(paths=tuple(paths))

    return writing


@pytest.fixture
def load(write: Write) -> Callable[..., Loaded]:
    def loading(*texts: str) -> Loaded:
        return config.load(write(*texts), paths_must_exist=False)

    return loading


@pytest.fixture
def accepted(load: Callable[..., Loaded]) -> Callable[..., Config]:
    def accepting(*texts: str) -> Config:
        loaded = load(*texts)
        assert [str(problem) for problem in loaded.problems] == []
        assert loaded.config is not None
        return loaded.config

    return accepting


@pytest.fixture
def lines(load: Callable[..., Loaded], tmp_path: Path) -> Callable[..., list[str]]:
    """The problems as a person reads them, without the directory of the test."""

    def listing(*texts: str) -> list[str]:
        loaded = load(*texts)
        assert (loaded.config is None) == bool(loaded.problems)
        return [str(problem).replace(f"{tmp_path}/", "") for problem in loaded.problems]

    return listing


def let_settle(files: Files) -> None:
    """Wait until the files are old enough that a later change of theirs cannot go unseen."""
    written = max(os.stat(path).st_ctime_ns for path in files.paths)
    deadline = time.monotonic() + 5
    while time.time_ns() <= written + 25_000_000:
        assert time.monotonic() < deadline
        time.sleep(0.005)


def put(path: Path, contents: str = "weights") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(contents)
    return path


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """What a test has written is quiet, unless it says otherwise."""
    now = time.time

    def by(seconds: float) -> None:
        monkeypatch.setattr("lazyd.config.walking.time.time", lambda: now() + seconds)

    by(walking.QUIET_S + 1)
    return by
