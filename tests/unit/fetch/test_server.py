"""What the fetcher is asked over its socket."""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lazyd.fetch.cache import Cache
from lazyd.fetch.server import Server
from lazyd.wire import packets

LIMIT_S = 60.0


@pytest.fixture
def path(tmp_path: Path) -> Iterator[str]:
    """Where a fetcher listens, until it has been told to quit."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    sock.bind(str(tmp_path / "s"))
    sock.listen(8)
    cache = tmp_path / "cache"
    cache.mkdir()
    thread = threading.Thread(target=Server(sock, Cache(str(cache))).run)
    thread.start()
    yield str(tmp_path / "s")
    with asking(str(tmp_path / "s")) as asked:
        asked.send(b'{"do": "quit"}')
    thread.join(LIMIT_S)
    assert not thread.is_alive()
    sock.close()


def asking(path: str) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    sock.settimeout(LIMIT_S)
    sock.connect(path)
    return sock


def test_a_question_that_is_longer_than_a_packet_is_answered(path: str) -> None:
    question: dict[str, Any] = {"do": "remove", "keys": [f"{number:024}" for number in range(20_000)], "kept": []}
    data = json.dumps(question).encode()
    assert len(data) > packets.MAX_PACKET_BYTES
    fd = packets.memory_file(data)
    with asking(path) as asked:
        socket.send_fds(asked, [json.dumps({"memfd": len(data)}).encode()], [fd])
        os.close(fd)
        assert [json.loads(asked.recv(1 << 16)) for _ in range(2)] == [{"on": "heard"}, {"on": "removed", "bytes": 0}]


@pytest.mark.parametrize("said", [b"{", b"[]", b'{"do": "what"}', b'{"memfd": 5}', b"\xff"])
def test_what_is_no_question_ends_its_connection_alone(path: str, said: bytes) -> None:
    with asking(path) as asked:
        asked.send(said)
        assert asked.recv(1 << 16) == b""
    with asking(path) as asked:
        asked.send(b'{"do": "remove", "keys": [], "kept": []}')
        assert json.loads(asked.recv(1 << 16))["on"] == "heard"
        assert json.loads(asked.recv(1 << 16))["on"] == "removed"
