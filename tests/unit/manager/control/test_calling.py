"""`Call` does what a client of the data socket does."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec
import pytest

from lazyd.core.answers import Done, Granted, NoSuchLease, Substituted, WorkerDied
from lazyd.core.effects import Answer, Effect
from lazyd.core.events import Event, Get, Release
from lazyd.manager.control import calling
from lazyd.manager.control.calling import Caller
from lazyd.manager.control.requests import Requests
from lazyd.manager.driver import Driver
from lazyd.varlink.connection import Connection
from lazyd.varlink.parameters import CallMethod
from lazyd.varlink.service import Method, Service
from lazyd.wire.frames import FrameReader, frame_parts

ROLES = frozenset({"admin"})
Script = Callable[["Worker", dict[str, Any]], Awaitable[None]]


class Worker:
    """A worker's data socket; `script` says what it does with a call."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.script: Script = echo
        self.tokens: list[str] = []
        self.calls: list[dict[str, Any]] = []
        self.ended = asyncio.Event()
        self._writer: asyncio.StreamWriter | None = None

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        frames = FrameReader()
        while data := await reader.read(65536):
            for header, _ in frames.feed(data):
                if "token" in header:
                    self.tokens.append(header["token"])
                    self.send({"v": 1})
                else:
                    self.calls.append(header)
                    await self.script(self, header)
        self.ended.set()

    def send(self, header: dict[str, Any], *buffers: bytes) -> None:
        assert self._writer is not None
        for part in frame_parts(header, buffers):
            self._writer.write(part)

    def hang_up(self) -> None:
        assert self._writer is not None
        self._writer.close()


async def echo(worker: Worker, call: dict[str, Any]) -> None:
    worker.send({"id": call["id"], "result": call["args"]})


class Stage:
    """A client, the daemon's half of `Call`, and a worker."""

    def __init__(self, directory: str) -> None:
        self.worker = Worker(os.path.join(directory, "w.sock"))
        self.path = os.path.join(directory, "control.sock")
        self.granted = 0
        self.endpoints = [self.worker.path]
        """One a lease, the last one again and again."""
        self.released: list[Effect] = []
        self.degraded: str | None = None
        self.value: Any = None
        self.after_release: list[Any] = [Done()]
        driver = Driver(self, lambda: pytest.fail("the core has failed"))
        self.requests = Requests(driver)
        driver.connect({Answer: self.requests.answer})
        self.service = Service("1", lambda _: "admin", ROLES)
        caller = Caller(driver, self.requests, directory)
        self.service.add("io.lazyd.Call", Method(caller.call, CallMethod, roles=ROLES))

    def handle(self, event: Event, now: float) -> list[Effect]:  # noqa: ARG002  # the core's shape
        if isinstance(event, Get):
            self.granted += 1
            if self.value is not None:
                value = Substituted(model="m", version="", degraded="loading", waited_s=5.0, value=self.value)
                return [Answer(request=event.request, outcome=value)]
            granted = Granted(
                lease=f"l{self.granted}",
                token=f"t{self.granted}",
                model="m",
                version="",
                worker="w",
                endpoint=self.endpoints.pop(0) if len(self.endpoints) > 1 else self.endpoints[0],
                cold_start=True,
                waited_s=0.25,
                degraded=self.degraded,
            )
            return [Answer(request=event.request, outcome=granted)]
        assert isinstance(event, Release)
        outcome = self.after_release.pop(0) if len(self.after_release) > 1 else self.after_release[0]
        self.released.append(Answer(request=event.request, outcome=outcome))
        return [self.released[-1]]

    def next_deadline(self) -> float | None:
        return None

    @contextlib.asynccontextmanager
    async def client(self) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        reader, writer = await asyncio.open_unix_connection(self.path, limit=1 << 26)
        yield reader, writer
        writer.close()

    async def call(self, *, more: bool = False, **parameters: Any) -> list[dict[str, Any]]:
        """All replies of one call."""
        async with self.client() as (reader, writer):
            given = {"model": "m", "method": "run", **parameters}
            writer.write(msgspec.json.encode({"method": "io.lazyd.Call", "parameters": given, "more": more}) + b"\0")
            replies = []
            async with asyncio.timeout(20):
                while not replies or replies[-1].get("continues"):
                    replies.append(msgspec.json.decode((await reader.readuntil(b"\0"))[:-1]))
        return replies


@pytest.fixture
async def stage(directory: str) -> AsyncIterator[Stage]:
    stage = Stage(directory)
    loop = asyncio.get_running_loop()
    worker = await asyncio.start_unix_server(stage.worker.serve, stage.worker.path)
    control = await loop.create_unix_server(lambda: Connection(stage.service, set()), stage.path)
    yield stage
    control.close()
    worker.close()


async def test_arguments_and_result_pass_through(stage: Stage) -> None:
    (reply,) = await stage.call(args=[1, {"$float": "nan"}])
    assert reply == {"parameters": {"coldStart": True, "waitedSec": 0.25, "result": [1, {"$float": "nan"}]}}
    assert stage.worker.tokens == ["t1"]
    await asyncio.wait_for(stage.worker.ended.wait(), 20)


async def test_buffers_become_base64_and_back(stage: Stage) -> None:
    async def answer(worker: Worker, call: dict[str, Any]) -> None:
        assert call["args"] == [{"$bytes": 0}]
        worker.send({"id": call["id"], "result": {"$array": 0, "dtype": "<u1", "shape": [3]}}, b"abc")

    stage.worker.script = answer
    (reply,) = await stage.call(args=[{"$bytes": "aGk="}])
    assert reply["parameters"]["result"] == {"$array": "YWJj", "dtype": "<u1", "shape": [3]}


async def test_a_stream_is_one_reply_a_piece(stage: Stage) -> None:
    async def answer(worker: Worker, call: dict[str, Any]) -> None:
        assert call["stream"]
        for n in range(3):
            worker.send({"id": call["id"], "result": n, "more": True})
        worker.send({"id": call["id"], "result": None})

    stage.worker.script = answer
    replies = await stage.call(more=True)
    assert [reply["parameters"].get("result") for reply in replies] == [0, 1, 2, None]


async def test_a_fallback_s_answer_says_so_on_every_piece(stage: Stage) -> None:
    async def answer(worker: Worker, call: dict[str, Any]) -> None:
        worker.send({"id": call["id"], "result": 1, "more": True})
        worker.send({"id": call["id"], "result": 2})

    stage.worker.script = answer
    stage.degraded = "loading"
    replies = await stage.call(more=True)
    assert [reply["parameters"]["degraded"] for reply in replies] == ["loading", "loading"]


@pytest.mark.parametrize("more", [False, True])
async def test_a_fallback_s_value_is_the_only_reply(stage: Stage, *, more: bool) -> None:
    stage.value = {"n": float("nan")}
    (reply,) = await stage.call(more=more)
    result = {"n": {"$float": "nan"}}
    assert reply["parameters"] == {"coldStart": False, "waitedSec": 5.0, "result": result, "degraded": "loading"}
    assert not stage.worker.tokens
    assert not stage.released


async def test_a_call_that_was_revoked_before_it_began_is_made_under_another_lease(stage: Stage) -> None:
    async def answer(worker: Worker, call: dict[str, Any]) -> None:
        if len(worker.calls) == 1:
            worker.send({"revoked": True})
            worker.hang_up()
        elif len(worker.calls) == 2:
            worker.send({"id": call["id"], "error": "Revoked", "parameters": {"model": "m"}})
        else:
            await echo(worker, call)

    stage.worker.script = answer
    (reply,) = await stage.call(args=["third"])
    assert reply["parameters"]["result"] == ["third"]
    assert stage.worker.tokens == ["t1", "t2", "t3"]


async def test_an_error_of_the_model_is_the_calls(stage: Stage) -> None:
    async def answer(worker: Worker, call: dict[str, Any]) -> None:
        failed = {"model": "m", "method": "run", "reason": "no", "traceback": "T"}
        worker.send({"id": call["id"], "error": "CallFailed", "parameters": failed})

    stage.worker.script = answer
    (reply,) = await stage.call()
    assert reply["error"] == "io.lazyd.CallFailed"
    assert reply["parameters"]["reason"] == "no"


async def test_the_death_of_a_worker_is_asked_after_until_it_is_known(stage: Stage) -> None:
    async def answer(worker: Worker, _: dict[str, Any]) -> None:
        worker.hang_up()

    stage.worker.script = answer
    stage.after_release = [Done(), Done(), WorkerDied(model="m", signal=9, log="killed")]
    (reply,) = await stage.call()
    assert reply == {
        "error": "io.lazyd.WorkerDied",
        "parameters": {"model": "m", "exitStatus": None, "signal": 9, "log": "killed"},
    }


async def test_a_worker_that_vanished_without_a_word_is_dead_all_the_same(stage: Stage) -> None:
    async def answer(worker: Worker, _: dict[str, Any]) -> None:
        worker.hang_up()

    stage.worker.script = answer
    stage.after_release = [NoSuchLease(lease="l1")]
    (reply,) = await stage.call()
    assert reply["error"] == "io.lazyd.WorkerDied"


async def test_a_call_that_finds_its_worker_gone_is_made_under_another_lease(stage: Stage) -> None:
    stage.endpoints = ["/nonexistent/w.sock", *stage.endpoints]
    (reply,) = await stage.call(args=["second"])
    assert reply["parameters"]["result"] == ["second"]
    assert stage.worker.tokens == ["t2"]
    assert len(stage.released) == 1


async def test_a_call_that_finds_nobody_time_and_again_is_told_and_its_leases_are_given_back(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calling, "POST_MORTEM_S", 0.05)
    stage.endpoints = ["/nonexistent/w.sock"]
    (reply,) = await stage.call()
    assert reply["error"] == "io.lazyd.WorkerDied"
    assert len(stage.released) == stage.granted > 1


async def test_a_client_that_leaves_ends_the_call(stage: Stage) -> None:
    called = asyncio.Event()

    async def answer(_: Worker, __: dict[str, Any]) -> None:
        called.set()

    stage.worker.script = answer
    async with stage.client() as (_, writer):
        given = {"model": "m", "method": "run"}
        writer.write(msgspec.json.encode({"method": "io.lazyd.Call", "parameters": given}) + b"\0")
        await asyncio.wait_for(called.wait(), 20)
    await asyncio.wait_for(stage.worker.ended.wait(), 20)


async def test_a_time_limit_ends_the_call(stage: Stage) -> None:
    async def answer(_: Worker, __: dict[str, Any]) -> None:
        return

    stage.worker.script = answer
    (reply,) = await stage.call(timeoutSec=0.05)
    assert reply["error"] == "io.lazyd.Timeout"
    assert reply["parameters"] == {
        "model": "m",
        "phase": "calling",
        "timeoutSec": 0.05,
        "reason": None,
        "expectedSec": None,
    }
    await asyncio.wait_for(stage.worker.ended.wait(), 20)


async def test_nonsense_from_a_worker_is_an_error_of_the_call(stage: Stage) -> None:
    async def answer(worker: Worker, _: dict[str, Any]) -> None:
        assert worker._writer is not None
        worker._writer.write(b"\xff" * 100)

    stage.worker.script = answer
    (reply,) = await stage.call()
    assert reply["error"] == "io.lazyd.CallFailed"
