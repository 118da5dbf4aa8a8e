"""A client of a worker's data socket, for the method `Call`: one call under one lease.

Values pass through in their JSON form: buffers become base64 and back, no array is ever made.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import Any, cast

from lazyd.errors import LazydError, ProtocolError, Revoked, TooLarge, from_varlink
from lazyd.wire.frames import Frame, FrameReader, frame_parts
from lazyd.wire.values import to_base64, to_buffers

MAX_PENDING_FRAMES = 16
"""So many wait for the client of `Call` before the worker is not read any more."""
MAX_RESULT_BYTES = 11 * 1024 * 1024
"""Of the buffers of one result: as base64 they must fit into a message of 16 MiB."""
_CALL = 1


class Disconnected(Exception):
    """The worker's end of the connection is gone."""


class DataConnection(asyncio.BufferedProtocol):
    """One connection to a worker, for one call."""

    def __init__(self) -> None:
        self._reader = FrameReader()
        self._frames: deque[Frame] = deque()
        self._news = asyncio.Event()
        self._failure: LazydError | None = None
        self._ended = False
        self._transport: asyncio.Transport | None = None

    @classmethod
    async def open(cls, endpoint: str, token: str) -> DataConnection:
        """Connects and presents the token.

        Raises:
            Disconnected: nobody is there.
            LazydError: the token is not taken.
        """
        try:
            _, connection = await asyncio.get_running_loop().create_unix_connection(cls, endpoint)
        except OSError as error:
            raise Disconnected(str(error)) from None
        try:
            connection._send({"v": 1, "token": token})
            _failed((await connection._next()).header)
        except BaseException:
            connection.close()
            raise
        return connection

    async def call(
        self, method: str, args: Any, kwargs: Any, *, stream: bool, timeout_s: float | None = None
    ) -> AsyncIterator[tuple[Any, bool]]:
        """The results in the control socket's form, each with whether it is the last.

        The worker is told of `timeout_s`, for the calls that it makes in its turn; to end the call is the caller's.

        Raises:
            Revoked: the call was not begun.
            Disconnected: it may have been.
            LazydError: it failed.
        """
        values, buffers = to_buffers([args, kwargs])
        header = {"id": _CALL, "method": method, "args": values[0], "kwargs": values[1], "stream": stream}
        if timeout_s is not None:
            header["timeoutSec"] = timeout_s
        for part in frame_parts(header, buffers):
            self._write(part)
        last = False
        while not last:
            header, buffers = await self._next()
            if header.get("revoked"):
                raise Revoked()
            if header.get("id") != _CALL:
                continue
            _failed(header)
            if sum(len(data) for data in buffers) > MAX_RESULT_BYTES:
                raise TooLarge(reason="the result is too large for the control socket; use the client library")
            last = not header.get("more", False)
            yield to_base64(header.get("result"), buffers), last

    def close(self) -> None:
        """Ends the connection, and with it the call and the lease."""
        if self._transport is not None:
            self._transport.abort()

    # What asyncio tells.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def get_buffer(self, _: int) -> memoryview:
        return self._reader.space()

    def buffer_updated(self, nbytes: int) -> None:
        try:
            self._frames.extend(self._reader.received(nbytes))
        except ProtocolError as error:
            self._failure = error
            self.close()
        if len(self._frames) > MAX_PENDING_FRAMES and self._transport is not None:
            self._transport.pause_reading()
        self._news.set()

    def connection_lost(self, _: Exception | None) -> None:
        self._ended = True
        self._transport = None
        self._news.set()

    async def _next(self) -> Frame:
        while not self._frames:
            if self._failure is not None:
                raise self._failure
            if self._ended:
                raise Disconnected("the worker has closed the connection")
            self._news.clear()
            await self._news.wait()
        frame = self._frames.popleft()
        if not self._frames and self._transport is not None:
            self._transport.resume_reading()
        return frame

    def _send(self, header: dict[str, Any]) -> None:
        for part in frame_parts(header):
            self._write(part)

    def _write(self, part: bytes | bytearray | memoryview) -> None:
        if self._transport is not None:
            self._transport.write(part)


def _failed(header: dict[str, Any]) -> None:
    """Raises the error of a frame that has one."""
    if "error" in header:
        raise from_varlink(header["error"], header.get("parameters"))
