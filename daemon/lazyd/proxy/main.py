"""``python -m lazyd.proxy.main FD HOST``: the link to the host, whose process id is the other.

    {"do": "serve", "services": {"comfyui": "127.0.0.1:8188"}}

Answered, and told again when it changes: ``{"is": "proxy", "problems": {"comfyui": "…"}}``.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
from collections.abc import AsyncIterator

from ..client.aio.client import AsyncClient
from ..wire import packets
from ..worker.link import decode, encode
from ..worker.process import calm_signals, die_with_host, raise_file_limit, set_name


async def serve(link: socket.socket) -> None:
    """Until the host has gone."""
    try:
        from .listening import Listening
    except ModuleNotFoundError as missing:
        if missing.name != "h11":
            raise
        problem = "proxies need the package h11: install lazyd[proxy]"
        async for services in _orders(link):
            _say(link, dict.fromkeys(services, problem))
        return
    listening = Listening(AsyncClient(), lambda: _say(link, listening.problems))
    async for services in _orders(link):
        await listening.serve(services)


async def _orders(link: socket.socket) -> AsyncIterator[dict[str, str]]:
    """What is to be served, each time that the host says so."""
    link.setblocking(False)
    loop = asyncio.get_running_loop()
    while data := await loop.sock_recv(link, packets.MAX_PACKET_BYTES):
        message, _ = decode(data, [])
        if message.get("do") == "serve":
            yield message["services"]


def _say(link: socket.socket, problems: dict[str, str]) -> None:
    data, fds, ours = encode({"is": "proxy", "problems": problems})
    try:
        socket.send_fds(link, [data], fds)
    except OSError:
        pass  # the host has gone, and this process goes with it
    finally:
        if ours is not None:
            os.close(ours)


def main(argv: list[str]) -> None:
    die_with_host(int(argv[1]))
    calm_signals()
    raise_file_limit()
    set_name("lazyd-proxy")
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s", stream=sys.stderr)
    asyncio.run(serve(socket.socket(fileno=int(argv[0]))))


if __name__ == "__main__":
    main(sys.argv[1:])
