"""A daemon that answers from a table, and lazyctl run against it in this process."""

from __future__ import annotations

import io
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from lazyctl.program import run

from .fake_daemon import FakeDaemon


class Result(NamedTuple):
    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output as the one JSON value that it must be."""
        return json.loads(self.out)

    @property
    def error(self) -> str:
        """The one line that an error is, without its prefix; nothing stands on standard output."""
        assert self.out == ""
        assert self.err.startswith("lazyctl: ")
        assert self.err.endswith("\n")
        assert self.err.count("\n") == 1
        return self.err.removeprefix("lazyctl: ").rstrip("\n")


Lazyctl = Callable[..., Result]


@pytest.fixture
def socket_path() -> Iterator[Path]:
    """Short: a socket's path has 107 bytes at most, pytest's own directories are longer."""
    directory = tempfile.mkdtemp(prefix="lazyctl-")
    yield Path(directory, "control.sock")
    shutil.rmtree(directory)


@pytest.fixture
def daemon(socket_path: Path) -> Iterator[FakeDaemon]:
    """Answers nothing until the test fills `answers`."""
    with FakeDaemon(socket_path, {}) as fake:
        yield fake


@pytest.fixture
def lazyctl(socket_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Lazyctl:
    """Run one command line against the fake daemon."""
    monkeypatch.setenv("LAZYD_SOCKET", str(socket_path))
    monkeypatch.delenv("COLUMNS", raising=False)

    def lazyctl(*arguments: str, stdin: str = "") -> Result:
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        status = run(arguments)
        return Result(status, *capsys.readouterr())

    return lazyctl
