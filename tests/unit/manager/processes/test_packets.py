"""Whole messages in order over a SEQPACKET socket."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from typing import Any

import pytest

from lazyd.manager.processes.packets import PacketSocket
from lazyd.wire.packets import ANCILLARY, pair, received
from lazyd.worker import link

from ..conftest import until


class Side:
    def __init__(self, sock: socket.socket) -> None:
        self.heard: list[Any] = []
        self.ended = 0
        self.packets = PacketSocket(sock, lambda packet: self.heard.append(json.loads(bytes(packet))), self.end)

    def end(self) -> None:
        self.ended += 1


@pytest.fixture
async def sides() -> tuple[Side, Side]:
    one, other = pair()
    return Side(one), Side(other)


async def test_messages_arrive_whole_and_in_order(sides: tuple[Side, Side]) -> None:
    one, other = sides
    for n in range(100):
        one.packets.send({"n": n})
    await until(lambda: len(other.heard) == 100)
    assert [message["n"] for message in other.heard] == list(range(100))


async def test_a_side_that_does_not_read_never_blocks_and_loses_nothing(sides: tuple[Side, Side]) -> None:
    one, other = sides
    asyncio.get_running_loop().remove_reader(other.packets._sock.fileno())
    for n in range(2000):
        one.packets.send({"n": n, "text": "x" * 1000})
    asyncio.get_running_loop().add_reader(other.packets._sock.fileno(), other.packets.read)
    await until(lambda: len(other.heard) == 2000)
    assert [message["n"] for message in other.heard] == list(range(2000))


async def test_a_message_that_is_too_long_for_a_packet_arrives_all_the_same(sides: tuple[Side, Side]) -> None:
    one, other = sides
    one.packets.send({"n": 1})
    one.packets.send({"text": "x" * 3_000_000})
    one.packets.send({"n": 2})
    await until(lambda: len(other.heard) == 3)
    assert [len(message.get("text", "")) for message in other.heard] == [0, 3_000_000, 0]


async def test_long_messages_are_understood_by_the_workers_half_and_the_other_way_round() -> None:
    ours, theirs = pair()
    side = Side(ours)
    long = {"text": "x" * 1_000_000}
    side.packets.send(long)
    data, ancillary, _, _ = theirs.recvmsg(4096, ANCILLARY)
    message, fds = link.decode(data, received(ancillary))
    assert (message, fds) == (long, [])
    data, fds, _ = link.encode(long)
    socket.send_fds(theirs, [data], fds)
    await until(lambda: side.heard)
    assert side.heard == [long]
    os.close(fds[0])
    theirs.close()


async def test_descriptors_are_passed_and_closed_here() -> None:
    ours, theirs = pair()
    side = Side(ours)
    reading, writing = os.pipe()
    side.packets.send({"do": "attach"}, [writing])
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(writing)
    _, fds, _, _ = socket.recv_fds(theirs, 4096, 4)
    os.write(fds[0], b"through")
    assert os.read(reading, 10) == b"through"
    os.close(fds[0])
    os.close(reading)
    theirs.close()


async def test_the_end_is_told_once_and_sending_afterwards_is_harmless(sides: tuple[Side, Side]) -> None:
    one, other = sides
    other.packets.close()
    await until(lambda: one.ended)
    one.packets.send({"n": 1})
    await asyncio.sleep(0)
    assert one.ended == 1
    assert other.ended == 0
