from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import lazyd

from .both import Facade, Loop
from .fakes import FakeDaemon, FakeWorker


@pytest.fixture
def worker(tmp_path: pathlib.Path) -> Iterator[FakeWorker]:
    worker = FakeWorker(tmp_path / "worker.sock")
    yield worker
    worker.kill()


@pytest.fixture
def daemon(tmp_path: pathlib.Path, worker: FakeWorker) -> Iterator[FakeDaemon]:
    """Grants leases on `worker`, and is otherwise told by the test what to answer."""
    daemon = FakeDaemon(tmp_path / "control.sock")
    daemon.on["Get"] = worker.grant
    daemon.on["Describe"] = lambda _: {"model": {}, "spec": {}, "metadata": {}, "prediction": {}}
    yield daemon
    daemon.kill()


@pytest.fixture(params=["blocking", "aio"])
def connect(request: pytest.FixtureRequest, daemon: FakeDaemon) -> Iterator[Callable[[], Any]]:
    """Makes clients: the blocking one, or the asyncio one with the same methods."""
    clients: list[Any] = []
    loop = Loop() if request.param == "aio" else None

    def connect() -> Any:
        if loop is None:
            clients.append(lazyd.connect(str(daemon.path)))
        else:
            clients.append(Facade(loop, loop.run(lazyd.connect_async(str(daemon.path)))))
        return clients[-1]

    yield connect
    for client in clients:
        client.close()
    if loop is not None:
        loop.stop()


@pytest.fixture
def client(connect: Callable[[], Any]) -> Any:
    return connect()
