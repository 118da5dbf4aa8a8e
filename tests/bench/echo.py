"""The floor of a round trip: an asyncio server that decodes a JSON message and sends it back.

Run as a program: ``python echo.py SOCKET``. It prints a line when it listens.
"""

from __future__ import annotations

import asyncio
import json
import sys


class Echo(asyncio.Protocol):
    def __init__(self) -> None:
        self.waiting = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        *messages, self.waiting = (self.waiting + data).split(b"\0")
        for message in messages:
            self.transport.write(json.dumps(json.loads(message)).encode() + b"\0")


async def main() -> None:
    server = await asyncio.get_running_loop().create_unix_server(Echo, sys.argv[1])
    print(flush=True)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
