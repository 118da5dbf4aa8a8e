"""One client's connection, in front of a service of the test's own and a client library that is a stand-in."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from lazyd.errors import LoadFailed, WorkerDied
from lazyd.proxy import tunnel
from lazyd.proxy.conversation import Conversation
from lazyd.proxy.hold import Hold
from lazyd.proxy.streams import Stream

LIMIT_S = 60.0


class Leases:
    """In the client library's place: counts who holds."""

    def __init__(self) -> None:
        self.url = ""
        self.error: Exception | None = None
        self.last_error: Exception | None = None
        """Comes when one lets go."""
        self.first_error: Exception | None = None
        self.first_url: str | None = None
        """For the first lease alone."""
        self.taken = self.held = 0

    def model(self, _name: str) -> Leases:
        return self

    def lease(self) -> Lease:
        return Lease(self)


class Lease:
    def __init__(self, leases: Leases) -> None:
        self._leases = leases
        self.url = leases.first_url or leases.url

    async def __aenter__(self) -> Lease:
        first, self._leases.first_error, self._leases.first_url = self._leases.first_error, None, None
        if first is not None:
            raise first
        if self._leases.error is not None:
            raise self._leases.error
        self._leases.taken += 1
        self._leases.held += 1
        return self

    async def __aexit__(self, *_: object) -> None:
        self._leases.held -= 1
        if self._leases.last_error is not None:
            raise self._leases.last_error


class Site:
    """A proxy's address. `serve(answer)` sets what the service does with a connection."""

    def __init__(self) -> None:
        self.leases = Leases()
        self.servers: list[asyncio.Server] = []
        self.tasks: list[asyncio.Task[None]] = []

    async def serve(self, answer: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Any]) -> None:
        server = await asyncio.start_server(answer, "127.0.0.1", 0)
        self.servers.append(server)
        self.leases.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        def visitor() -> Stream:
            stream = Stream()
            made = stream.connection_made

            def connection_made(transport: asyncio.BaseTransport) -> None:
                made(transport)
                conversation = Conversation(stream, "m", self.leases)  # type: ignore[arg-type]
                self.tasks.append(asyncio.create_task(conversation.run()))

            stream.connection_made = connection_made  # type: ignore[method-assign]
            return stream

        server = await asyncio.get_running_loop().create_server(visitor, "127.0.0.1", 0)
        self.servers.append(server)
        return await asyncio.open_connection(*server.sockets[0].getsockname())

    async def ended(self) -> None:
        async with asyncio.timeout(LIMIT_S):
            await asyncio.gather(*self.tasks)


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    site = Site()
    yield site
    for server in site.servers:
        server.close()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not condition():  # noqa: ASYNC110 - of a stand-in, which has no events
            await asyncio.sleep(0.005)


def answering(text: bytes) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Any]:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(text)
        writer.close()

    return answer


async def test_requests_that_come_at_once_are_answered_in_order_each_with_a_hold_of_its_own(site: Site) -> None:
    await site.serve(answering(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"))
    reader, writer = await site.connect()
    writer.write(b"GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n")
    for _ in range(2):
        assert b"200 OK" in await reader.readuntil(b"\r\n\r\n")
        assert await reader.readexactly(2) == b"ok"
    await until(lambda: site.leases.held == 0)
    assert site.leases.taken == 2
    writer.close()
    await site.ended()


async def test_an_answer_that_ends_with_its_connection_is_whole_for_a_client_that_stays(site: Site) -> None:
    await site.serve(answering(b"HTTP/1.0 200 OK\r\n\r\nall of it"))
    reader, writer = await site.connect()
    writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    assert b"chunked" in await reader.readuntil(b"\r\n\r\n")
    assert await reader.readuntil(b"0\r\n\r\n") == b"9\r\nall of it\r\n0\r\n\r\n"
    writer.close()
    await site.ended()


async def test_an_answer_is_whole_though_its_service_dies_right_after(site: Site) -> None:
    body = b"x" * 30_000_000
    site.leases.last_error = WorkerDied(model="m", status=9, log="")
    await site.serve(answering(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)))
    reader, writer = await site.connect()
    writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    assert b"200 OK" in await reader.readuntil(b"\r\n\r\n")
    assert await reader.readexactly(len(body)) == body
    writer.close()
    await site.ended()


async def test_an_answer_that_breaks_off_is_seen_to_be_broken(site: Site) -> None:
    await site.serve(answering(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"))
    reader, writer = await site.connect()
    writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
        await reader.readexactly(1000)
    writer.close()
    await site.ended()


@pytest.mark.parametrize("said", [b"", b"this is no HTTP\r\n\r\n"])
async def test_a_service_that_does_not_answer_as_it_should_is_a_bad_gateway(site: Site, said: bytes) -> None:
    await site.serve(answering(said))
    reader, writer = await site.connect()
    writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    assert (await reader.readline()).startswith(b"HTTP/1.1 502 ")
    writer.close()
    await site.ended()


async def test_a_refusal_to_a_head_request_has_no_body_and_the_connection_stays(site: Site) -> None:
    site.leases.error = LoadFailed(model="m", reason="it is ill", retry_after_sec=7)
    reader, writer = await site.connect()
    writer.write(b"HEAD / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n")
    first = await reader.readuntil(b"\r\n\r\n")
    assert first.startswith(b"HTTP/1.1 503 ")
    assert b"Retry-After: 7\r\n" in first
    assert (await reader.readline()).startswith(b"HTTP/1.1 503 ")
    writer.close()
    await site.ended()


async def test_a_client_that_leaves_while_it_waits_is_not_waited_for(site: Site) -> None:
    came = asyncio.Event()

    async def never(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        came.set()
        await reader.read()
        await reader.read()
        writer.close()

    await site.serve(never)
    _, writer = await site.connect()
    writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    await came.wait()
    assert site.leases.held == 1
    writer.close()
    await until(lambda: site.leases.held == 0)
    await site.ended()


async def test_a_silent_tunnel_holds_nothing_until_something_passes(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tunnel.Tunnel.__init__, "__defaults__", (0.05,))

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 101 Switching\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\nhello")
        while data := await reader.read(100):
            writer.write(data)
        writer.close()

    await site.serve(echo)
    reader, writer = await site.connect()
    writer.write(b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\n")
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 101 ")
    assert await reader.readexactly(5) == b"hello"
    await until(lambda: site.leases.held == 0)
    ping = b"\x89\x00"
    writer.write(ping)
    assert await reader.readexactly(2) == ping
    assert site.leases.taken == 1
    writer.write(b"again")
    assert await reader.readexactly(5) == b"again"
    assert site.leases.taken == 2
    await until(lambda: site.leases.held == 0)
    site.leases.url = "http://127.0.0.1:1"  # it was freed meanwhile, and is elsewhere now
    writer.write(b"lost")
    assert await reader.read() == b""
    writer.close()
    await until(lambda: site.leases.held == 0)
    await site.ended()


@pytest.mark.parametrize("dies", [True, False], ids=["it has died", "its port is closed"])
async def test_a_service_that_dies_while_it_is_asked_for_is_loaded_anew(site: Site, dies: bool) -> None:
    await site.serve(answering(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"))
    if dies:
        site.leases.first_error = WorkerDied(model="m", status=9, log="")
    else:
        site.leases.first_url = "http://127.0.0.1:1"
    reader, writer = await site.connect()
    writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
    assert b" 200 " in await reader.readline()
    writer.close()
    await site.ended()
    assert site.leases.held == 0


async def test_a_hold_that_is_refused_is_not_taken() -> None:
    leases = Leases()
    leases.error = LoadFailed(model="m", reason="no", retry_after_sec=0)
    hold = Hold(leases, "m")  # type: ignore[arg-type]
    with pytest.raises(LoadFailed):
        await hold.take()
    assert not hold.is_taken
    await hold.let_go()
