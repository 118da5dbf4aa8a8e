"""The protocol on one connection."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import pytest

from lazyd.errors import NotSendable
from lazyd.varlink.connection import MAX_MESSAGE_BYTES
from lazyd.wire.varlink import MAX_MESSAGE_BYTES as THE_CLIENTS

from .conftest import Client, Server

SERVICE = "org.varlink.service"


async def arrived(server: Server) -> None:
    async with asyncio.timeout(20):
        await server.arrived.wait()
    server.arrived.clear()


async def test_a_call_is_answered_in_the_callback_that_read_it(client: Client) -> None:
    before = asyncio.all_tasks()
    reply = await client.call("io.lazyd.Get", {"model": "ocr", "timeoutSec": 3})
    assert reply["parameters"]["model"] == "ocr"
    assert reply["parameters"]["timeoutSec"] == 3.0
    assert asyncio.all_tasks() <= before


async def test_replies_come_in_the_order_of_the_calls(server: Server, client: Client) -> None:
    client.send("io.lazyd.Status")
    client.send("io.lazyd.Get", {"model": "second"})
    client.send("io.lazyd.Get", {"model": "third"})
    await arrived(server)
    server.held[0].reply({"first": True})
    assert (await client.receive())["parameters"] == {"first": True}
    assert (await client.receive())["parameters"]["model"] == "second"
    assert (await client.receive())["parameters"]["model"] == "third"


async def test_a_message_may_come_in_pieces_and_several_at_once(client: Client) -> None:
    whole = b'{"method":"io.lazyd.Get","parameters":{"model":"a"}}\0' * 3
    client.raw(whole[:20])
    await client.writer.drain()
    client.raw(whole[20:70])
    client.raw(whole[70:])
    for _ in range(3):
        assert (await client.receive())["parameters"]["model"] == "a"


async def test_parameters_may_be_missing_or_null(server: Server, client: Client) -> None:
    client.raw(b'{"method":"io.lazyd.Status"}\0{"method":"io.lazyd.Status","parameters":null}\0')
    await arrived(server)
    server.held[0].reply()
    await arrived(server)
    server.held[1].reply()
    assert await client.receive() == {"parameters": {}}
    assert await client.receive() == {"parameters": {}}


@pytest.mark.parametrize(
    ("method", "parameters", "flags", "error", "detail"),
    [
        ("io.lazyd.Get", {}, {}, "InvalidParameter", {"parameter": "model", "reason": "missing required field model"}),
        (
            "io.lazyd.Get",
            {"model": 3},
            {},
            "InvalidParameter",
            {"parameter": "model", "reason": "expected str, got int"},
        ),
        (
            "io.lazyd.Get",
            {"model": ""},
            {},
            "InvalidParameter",
            {"parameter": "model", "reason": "expected str of length >= 1"},
        ),
        (
            "io.lazyd.Get",
            {"model": "a", "timeoutSec": -1},
            {},
            "InvalidParameter",
            {"parameter": "timeoutSec", "reason": "expected float >= 0.0"},
        ),
        (
            "io.lazyd.Get",
            {"model": "a", "timeout": 1},
            {},
            "InvalidParameter",
            {"parameter": "timeout", "reason": "contains unknown field timeout"},
        ),
        (
            "io.lazyd.Get",
            [1],
            {},
            "InvalidParameter",
            {"parameter": "parameters", "reason": "expected object, got array"},
        ),
        ("io.lazyd.Nonsense", {}, {}, "MethodNotFound", {"method": "io.lazyd.Nonsense"}),
        ("org.example.Thing", {}, {}, "InterfaceNotFound", {"interface": "org.example"}),
        ("nonsense", {}, {}, "InterfaceNotFound", {"interface": ""}),
        ("io.lazyd.Subscribe", {}, {}, "ExpectedMore", {}),
        ("io.lazyd.Register", {}, {}, "MethodNotImplemented", {"method": "io.lazyd.Register"}),
        (f"{SERVICE}.GetInterfaceDescription", {"interface": "x.y"}, {}, "InterfaceNotFound", {"interface": "x.y"}),
    ],
)
async def test_what_is_wrong_with_a_call_is_named(
    client: Client, method: str, parameters: Any, flags: dict[str, bool], error: str, detail: dict[str, str]
) -> None:
    reply = await client.call(method, parameters, **flags)
    assert reply == {"error": f"{SERVICE}.{error}", "parameters": detail}
    assert (await client.call(f"{SERVICE}.GetInfo"))["parameters"]["version"] == "1.2.3"


async def test_a_role_without_the_right_is_refused(server: Server, client: Client) -> None:
    await client.call(f"{SERVICE}.GetInfo")
    for connection in server.connections:
        connection.role = "user"
    reply = await client.call("io.lazyd.Reload")
    assert reply == {"error": "io.lazyd.PermissionDenied", "parameters": {"method": "Reload", "role": "user"}}


async def test_a_oneway_call_is_not_answered(client: Client) -> None:
    client.send("io.lazyd.Get", {"model": "silent"}, oneway=True)
    client.send("io.lazyd.Nonsense", oneway=True)
    assert (await client.call("io.lazyd.Get", {"model": "heard"}))["parameters"]["model"] == "heard"


async def test_a_stream_ends_with_a_reply_that_does_not_continue(server: Server, client: Client) -> None:
    client.send("io.lazyd.Subscribe", more=True)
    await arrived(server)
    server.held[0].reply({"n": 1}, continues=True)
    server.held[0].reply({"n": 2})
    server.held[0].reply({"n": 3})
    assert await client.receive() == {"parameters": {"n": 1}, "continues": True}
    assert await client.receive() == {"parameters": {"n": 2}}
    assert "parameters" in await client.call(f"{SERVICE}.GetInfo")


async def test_closing_the_connection_cancels_the_call(server: Server, client: Client) -> None:
    client.send("io.lazyd.Status")
    await arrived(server)
    client.writer.close()
    async with asyncio.timeout(20):
        await server.left.wait()
    assert server.gone == server.held
    assert server.gone[0].ended


async def test_what_a_call_leaves_behind_lasts_as_long_as_its_connection(server: Server, client: Client) -> None:
    client.send("io.lazyd.Status")
    await arrived(server)
    server.held[0].until_closed(server.left.set)
    server.held[0].reply()
    await client.receive()
    assert "parameters" in await client.call(f"{SERVICE}.GetInfo")
    assert not server.left.is_set()
    client.writer.close()
    async with asyncio.timeout(20):
        await server.left.wait()
    assert not server.gone, "the call had been answered"


async def test_what_is_left_behind_for_a_connection_that_has_ended_ends_at_once(server: Server, client: Client) -> None:
    client.send("io.lazyd.Status")
    await arrived(server)
    client.writer.close()
    async with asyncio.timeout(20):
        await server.left.wait()
    over: list[bool] = []
    server.held[0].until_closed(lambda: over.append(True))
    assert over == [True]


async def test_a_bug_in_a_handler_is_answered_and_harms_nothing(client: Client) -> None:
    reply = await client.call("io.lazyd.Metrics")
    assert reply["error"] == "io.lazyd.CallFailed"
    assert "ZeroDivisionError" in reply["parameters"]["reason"]
    assert "parameters" in await client.call(f"{SERVICE}.GetInfo")


async def test_a_reply_that_is_no_json_can_still_be_made_an_error(server: Server, client: Client) -> None:
    client.send("io.lazyd.Status")
    await arrived(server)
    (call,) = server.held
    with pytest.raises(NotSendable):
        call.reply({"text": "half a character: \ud800"})
    call.fail("io.lazyd.CallFailed")
    assert (await client.receive())["error"] == "io.lazyd.CallFailed"
    assert "parameters" in await client.call(f"{SERVICE}.GetInfo")


async def test_garbage_ends_that_connection_alone(client: Client, other: Client) -> None:
    client.raw(b"GET / HTTP/1.1\r\n\0")
    reply = await client.receive()
    assert reply["error"] == f"{SERVICE}.InvalidParameter"
    assert "not JSON" in reply["parameters"]["reason"]
    assert await client.ended()
    assert "parameters" in await other.call(f"{SERVICE}.GetInfo")


@pytest.mark.parametrize(
    "data",
    [
        b"\0",
        b"\xff\xfe\0",
        b"[1, 2",
        b'{"method": \0',
        b'{"method":"io.lazyd.Get","parameters":{"model":"\xff"}}',
        b'{"method":"io.lazyd.Get","parameters":{"model":' + b"[" * 100_000 + b"]" * 100_000 + b"}}",
        b"[" * 100_000,
    ],
    ids=lambda data: str(data[:60]),
)
async def test_bytes_that_are_not_json_are_refused(client: Client, data: bytes) -> None:
    client.raw(data + b"\0")
    assert (await client.receive())["parameters"]["parameter"] == "message"
    assert await client.ended()


@pytest.mark.parametrize("ending", [b"", b'"}}\0'])
async def test_a_message_over_16_mib_ends_that_connection_alone(client: Client, other: Client, ending: bytes) -> None:
    """The client writes all of its 20 MB before it reads: it still sees why it was refused."""
    client.raw(b'{"method":"io.lazyd.Get","parameters":{"model":"' + b"x" * 20_000_000 + ending)
    reply = await client.receive()
    assert reply["parameters"]["parameter"] == "message"
    assert "16777216" in reply["parameters"]["reason"]
    assert await client.ended()
    assert "parameters" in await other.call(f"{SERVICE}.GetInfo")


async def test_a_large_message_within_the_limit_is_taken(client: Client) -> None:
    name = "x" * 15_000_000
    assert (await client.call("io.lazyd.Get", {"model": name}))["parameters"]["model"] == name


async def test_a_client_that_does_not_read_is_not_sent_more(server: Server, client: Client) -> None:
    client.writer.transport.pause_reading()  # type: ignore[attr-defined]  # a read transport it is
    client.send("io.lazyd.Subscribe", more=True)
    await arrived(server)
    call = server.held[0]
    sent = 0
    while call.writable:
        call.reply({"text": "x" * 100_000}, continues=True)
        sent += 1
        assert sent < 100
    client.writer.transport.resume_reading()  # type: ignore[attr-defined]
    async with asyncio.timeout(20):
        await call.until_writable()
    call.reply({"text": "end"})
    for _ in range(sent):
        assert (await client.receive())["continues"]
    assert await client.receive() == {"parameters": {"text": "end"}}


async def test_calls_of_a_client_that_does_not_read_wait(server: Server, client: Client) -> None:
    """It may send as many as it likes: they are not carried out, and its memory is not ours."""
    client.writer.transport.pause_reading()  # type: ignore[attr-defined]
    client.send("io.lazyd.Status")
    await arrived(server)
    for _ in range(40):
        client.send("io.lazyd.Get", {"model": "x" * 200_000})
    client.send("io.lazyd.Status")
    server.held[0].reply({"text": "y" * 1_000_000})
    client.writer.transport.resume_reading()  # type: ignore[attr-defined]
    await client.receive()
    for _ in range(40):
        assert len((await client.receive())["parameters"]["model"]) == 200_000
    await arrived(server)
    assert len(server.held) == 2


async def test_the_peer_is_who_the_kernel_says(server: Server, client: Client) -> None:
    client.send("io.lazyd.Status")
    await arrived(server)
    peer = server.held[0].peer
    assert (peer.pid, peer.uid, peer.gid) == (os.getpid(), os.getuid(), os.getgid())
    assert peer.groups >= frozenset(os.getgroups()) - {os.getgid()}
    assert peer.in_group(os.getgid())


def test_both_halves_allow_messages_of_one_size() -> None:
    assert MAX_MESSAGE_BYTES == THE_CLIENTS
