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
from lazyd.errors import LazydError

from ..client.fakes import FakeDaemon, FakeWorker


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


class Daemon(FakeDaemon):
    """A daemon that answers what the test has written down."""

    def answer(self, method: str, *replies: dict[str, Any] | LazydError) -> None:
        """These replies, the last one an error perhaps."""

        def replay(_: dict[str, Any]) -> Iterator[dict[str, Any]]:
            for reply in replies:
                if isinstance(reply, LazydError):
                    raise reply
                yield reply

        self.on[method] = replay

    def last(self, method: str) -> dict[str, Any]:
        """The parameters of the last request of this method."""
        return [parameters for name, parameters in self.asked if name == method][-1]


@pytest.fixture
def daemon(socket_path: Path, worker: FakeWorker) -> Iterator[Daemon]:
    """Grants leases on `worker`, and is otherwise told by the test what to answer."""
    daemon = Daemon(socket_path)
    daemon.on["Get"] = worker.grant
    yield daemon
    daemon.kill()


@pytest.fixture
def worker(socket_path: Path) -> Iterator[FakeWorker]:
    worker = FakeWorker(socket_path.with_name("worker.sock"))
    yield worker
    worker.kill()


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
