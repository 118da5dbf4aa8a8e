"""A service with a few methods, served on a real socket."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from typing import Any

import msgspec
import pytest

from lazyd.varlink.call import Call
from lazyd.varlink.connection import Connection
from lazyd.varlink.parameters import Get, Parameters
from lazyd.varlink.peer import Peer
from lazyd.varlink.service import Method, Service, not_implemented

ANYBODY = frozenset({"admin", "user"})


class Server:
    """What the tests see of the server: the calls it holds, and what happened to them."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.held: list[Call] = []
        self.gone: list[Call] = []
        self.arrived = asyncio.Event()
        self.left = asyncio.Event()
        self.role = "admin"
        self.connections: set[Connection] = set()
        self.service = Service("1.2.3", self.role_of, ANYBODY)
        add = self.service.add
        add("io.lazyd.Get", Method(self.get, Get, roles=ANYBODY))
        add("io.lazyd.Status", Method(self.hold, roles=ANYBODY))
        add("io.lazyd.Reload", Method(self.hold, roles=frozenset({"admin"})))
        add("io.lazyd.Subscribe", Method(self.hold, roles=ANYBODY, more_only=True))
        add("io.lazyd.Register", Method(not_implemented, roles=ANYBODY))
        add("io.lazyd.Metrics", Method(self.bug, roles=ANYBODY))

    @contextlib.asynccontextmanager
    async def connected(self) -> AsyncIterator[Client]:
        reader, writer = await asyncio.open_unix_connection(self.path, limit=64 * 1024 * 1024)
        yield Client(reader, writer)
        writer.close()

    def role_of(self, _: Peer) -> str:
        return self.role

    def get(self, call: Call, given: Get) -> None:
        call.reply(msgspec.to_builtins(given))

    def hold(self, call: Call, _: Parameters) -> None:
        call.on_gone = lambda: self.lose(call)
        self.held.append(call)
        self.arrived.set()

    def lose(self, call: Call) -> None:
        self.gone.append(call)
        self.left.set()

    def bug(self, _call: Call, _: Parameters) -> None:
        raise ZeroDivisionError("made for a test")


class Client:
    """A varlink client that can also misbehave."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, method: str, parameters: Any = None, **flags: bool) -> None:
        self.raw(json.dumps({"method": method, "parameters": parameters or {}, **flags}).encode() + b"\0")

    def raw(self, data: bytes) -> None:
        self.writer.write(data)

    async def receive(self) -> dict[str, Any]:
        async with asyncio.timeout(20):
            reply = json.loads((await self.reader.readuntil(b"\0"))[:-1])
        assert isinstance(reply, dict)
        return reply

    async def call(self, method: str, parameters: Any = None, **flags: bool) -> dict[str, Any]:
        self.send(method, parameters, **flags)
        return await self.receive()

    async def ended(self) -> bool:
        """Whether the server has closed the connection, and nothing more came."""
        async with asyncio.timeout(10):
            return await self.reader.read(1) == b""


@pytest.fixture
def directory() -> Iterator[str]:
    """A directory whose path is short enough for a socket's."""
    path = tempfile.mkdtemp(prefix="lz-", dir="/tmp")
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
async def server(directory: str) -> AsyncIterator[Server]:
    server = Server(os.path.join(directory, "control.sock"))
    listening = await asyncio.get_running_loop().create_unix_server(
        lambda: Connection(server.service, server.connections), server.path
    )
    yield server
    listening.close()
    for connection in list(server.connections):
        connection.close()


@pytest.fixture
async def client(server: Server) -> AsyncIterator[Client]:
    async with server.connected() as client:
        yield client


@pytest.fixture
async def other(server: Server) -> AsyncIterator[Client]:
    async with server.connected() as client:
        yield client
