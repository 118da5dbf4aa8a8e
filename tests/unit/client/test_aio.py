"""What only the asyncio client has: tasks, cancellation, other loops."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import numpy
import pytest
import pytest_asyncio

import lazyd
from lazyd import errors

from .fakes import DEADLINE_S, CallInWorker, FakeDaemon, FakeWorker


async def eventually(condition: Any) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        await asyncio.sleep(0.005)


@pytest_asyncio.fixture
async def client(daemon: FakeDaemon) -> AsyncIterator[lazyd.AsyncClient]:
    async with await lazyd.connect_async(str(daemon.path)) as client:
        yield client


def wait_for_cancel(call: CallInWorker) -> None:
    call.cancelled.wait(DEADLINE_S)
    raise errors.Cancelled(model="gemma")


async def test_tasks_share_one_connection(client: lazyd.AsyncClient, worker: FakeWorker) -> None:
    model = client.model("gemma")
    await model.echo(0)
    assert await asyncio.gather(*(model.echo(i) for i in range(200))) == list(range(200))
    assert worker.accepted == 1


async def test_first_calls_at_once_keep_one_connection(client: lazyd.AsyncClient, worker: FakeWorker) -> None:
    model = client.model("gemma")
    assert await asyncio.gather(*(model.echo(i) for i in range(5))) == list(range(5))
    await eventually(lambda: len(worker.connections) == 1)


async def test_a_cancelled_task_cancels_its_call(client: lazyd.AsyncClient, worker: FakeWorker) -> None:
    worker.on["run"] = wait_for_cancel
    model = client.model("gemma")
    task = asyncio.ensure_future(model.run())
    await eventually(lambda: worker.called)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await eventually(lambda: worker.cancels == [1])
    assert await model.echo(1) == 1
    assert worker.accepted == 1


async def test_a_cancelled_task_ends_its_request(client: lazyd.AsyncClient, daemon: FakeDaemon) -> None:
    def load(_: dict[str, Any]) -> Iterator[dict[str, Any]]:
        yield {"state": "loading", "phase": "queued"}
        while daemon.connections:
            time.sleep(0.01)
            yield {"state": "loading", "phase": "queued"}

    daemon.on["Load"] = load
    told = asyncio.Event()
    task = asyncio.ensure_future(client.load("gemma", progress=lambda _: told.set()))
    await told.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await eventually(lambda: not daemon.connections)


async def test_leaving_a_stream_cancels_it(client: lazyd.AsyncClient, worker: FakeWorker) -> None:
    def count(call: CallInWorker) -> Iterator[int]:
        yield from iter(call.cancelled.is_set, True)

    worker.on["count"] = count
    async for _ in client.model("gemma").stream.count():
        break
    await eventually(lambda: worker.cancels == [1])


async def test_a_revocation_is_noticed_while_nothing_is_asked(client: lazyd.AsyncClient, worker: FakeWorker) -> None:
    model = client.model("gemma")
    await model.echo(1)
    (line,) = client._session.lines.all()
    worker.revoke()
    await eventually(lambda: "ended" in repr(line))
    assert await model.echo(2) == 2


async def test_a_large_argument_is_sent_while_the_loop_goes_on(client: lazyd.AsyncClient, worker: FakeWorker) -> None:
    worker.on["size"] = lambda call: call.args[0].nbytes
    model = client.model("gemma")
    await model.echo(0)
    sizes = asyncio.gather(*(model.size(numpy.zeros(2_000_000)) for _ in range(3)))
    assert await model.echo("meanwhile") == "meanwhile"
    assert await sizes == [16_000_000] * 3


async def test_is_ready_is_asked_for(client: lazyd.AsyncClient, daemon: FakeDaemon) -> None:
    daemon.on["Status"] = lambda _: {"models": [{"state": "ready"}]}
    assert await client.model("gemma").is_ready() is True


async def test_other_requests_go_on_beside_one_that_waits(client: lazyd.AsyncClient, daemon: FakeDaemon) -> None:
    waiting = asyncio.Event()
    loop = asyncio.get_running_loop()

    def load(_: dict[str, Any]) -> Iterator[dict[str, Any]]:
        loop.call_soon_threadsafe(waiting.set)
        while not done.is_set():
            time.sleep(0.005)
        yield {"state": "ready", "phase": "ready"}

    done = asyncio.Event()
    daemon.on["Load"] = load
    daemon.on["Health"] = lambda _: {"ready": True}
    task = asyncio.ensure_future(client.load("gemma"))
    await waiting.wait()
    assert (await client.health())["ready"] is True
    done.set()
    assert (await task)["state"] == "ready"


async def test_a_client_of_a_forked_child_says_that_it_is_the_parents(client: lazyd.AsyncClient) -> None:
    await client.model("gemma").echo(1)
    child = os.fork()
    if not child:
        status = 1
        try:
            client.model("gemma").echo(1).send(None)
        except lazyd.Closed:
            status = 0
        finally:
            os._exit(status)
    _, ended = await asyncio.to_thread(os.waitpid, child, 0)
    assert os.waitstatus_to_exitcode(ended) == 0
    assert await client.model("gemma").echo(2) == 2


def test_another_event_loop_will_do(daemon: FakeDaemon, worker: FakeWorker) -> None:
    uvloop = pytest.importorskip("uvloop")
    worker.on["count"] = lambda _: iter(range(5))
    worker.on["run"] = wait_for_cancel

    async def main() -> None:
        async with await lazyd.connect_async(str(daemon.path)) as client:
            model = client.model("gemma")
            array = numpy.arange(1_000_000)
            assert (await model.echo(array) == array).all()
            assert [piece async for piece in model.stream.count()] == list(range(5))
            with pytest.raises(lazyd.Timeout):
                await model.call("run", timeout=0.05)
            worker.revoke()
            assert await asyncio.gather(*(model.echo(i) for i in range(20))) == list(range(20))

    uvloop.new_event_loop().run_until_complete(main())
