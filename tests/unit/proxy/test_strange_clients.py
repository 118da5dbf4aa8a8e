"""Clients that speak no clean HTTP, or none at all: what becomes of them, and that nobody else is harmed."""

from __future__ import annotations

import asyncio

import pytest

from lazyd.proxy import conversation

from .test_conversation import LIMIT_S, Site
from .test_conversation import site as site


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """However slow this machine is."""
    monkeypatch.setattr(conversation, "LINGER_S", LIMIT_S)


class Recorder:
    """A service that notes what it is asked, and answers when nothing more comes."""

    def __init__(self) -> None:
        self.asked: list[bytes] = []

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.asked.append(await reader.readuntil(b"\r\n\r\n"))
        if b"chunked" in self.asked[-1]:
            await reader.readuntil(b"0\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
        writer.close()


CHUNKED = b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n"


@pytest.mark.parametrize(
    ("said", "status"),
    [
        (CHUNKED + b"Content-Length: 6\r\n\r\n0\r\n\r\nGET /evil HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (CHUNKED.replace(b"HTTP/1.1", b"HTTP/1.0") + b"\r\n0\r\n\r\nGET /evil HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (CHUNKED + b"\r\nzz\r\nabc\r\n0\r\n\r\n", 400),
        (CHUNKED + b"\r\n3\r\nabcGET /evil HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\nContent-Length: 5\r\n\r\nabcdef", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length : 6\r\n\r\nabcdef", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX: a\rEvil: b\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"a" * 300_000, 431),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
    ],
)
async def test_what_can_be_understood_in_two_ways_is_refused_and_its_connection_ends(
    site: Site, said: bytes, status: int
) -> None:
    service = Recorder()
    await site.serve(service.answer)
    reader, writer = await site.connect()
    writer.write(said)
    async with asyncio.timeout(LIMIT_S):
        answer = await reader.read()
    assert answer.startswith(b"HTTP/1.1 %d " % status)
    assert answer.count(b"Content-Type") == 1
    assert not any(b"evil" in asked.lower() for asked in service.asked)
    writer.close()
    await site.ended()
    assert site.leases.held == 0


async def test_a_client_of_http_1_0_needs_no_host(site: Site) -> None:
    service = Recorder()
    await site.serve(service.answer)
    reader, writer = await site.connect()
    writer.write(b"GET / HTTP/1.0\r\n\r\n")
    assert (await reader.read()).endswith(b"ok")
    assert b"host: " + site.leases.url.removeprefix("http://").encode() in service.asked[0]
    writer.close()
    await site.ended()


async def test_an_answer_before_the_end_of_a_body_is_heard(site: Site) -> None:
    """What the client still sends is taken and thrown away, so that its system does not throw away the answer."""

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig")
        while await reader.read(1 << 20):
            pass
        writer.close()

    await site.serve(refuse)
    reader, writer = await site.connect()
    size = 30_000_000
    writer.write(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % size)
    for _ in range(size // 1_000_000):  # all of it before the answer is looked at, as simple clients do
        writer.write(b"x" * 1_000_000)
        async with asyncio.timeout(LIMIT_S):
            await writer.drain()
    answer = await reader.read()
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert answer.endswith(b"big")
    writer.close()
    await site.ended()


async def test_the_last_words_of_a_tunnels_client_are_passed_on(site: Site) -> None:
    heard = asyncio.get_running_loop().create_future()

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 101 Switching\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\n")
        heard.set_result(len(await reader.read(-1)))
        writer.close()

    await site.serve(listen)
    reader, writer = await site.connect()
    writer.write(b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: echo\r\nConnection: Upgrade\r\n\r\n")
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"x" * 3_000_000)
    writer.write_eof()
    async with asyncio.timeout(LIMIT_S):
        assert await heard == 3_000_000
    writer.close()
    await site.ended()
