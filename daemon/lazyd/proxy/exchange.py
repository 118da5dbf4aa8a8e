"""One request and its response, with a connection to the service for them alone."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import h11

from . import headers
from .streams import Stream
from .tunnel import ENDS, Tunnel

if TYPE_CHECKING:
    from .conversation import Conversation
    from .hold import Hold

MOST_OF_A_HEAD = 128 * 1024
"""Bytes, of one that has not come as a whole."""


class ServiceGone(Exception):
    """The service has closed the connection in the middle, or taken no more."""


class BadBody(Exception):
    """What the client sends is not what it said that it would."""


class Exchange:
    """`hold` is taken while it lasts."""

    def __init__(self, client: Conversation, request: h11.Request, service: Stream, hold: Hold, url: str) -> None:
        self._client = client
        self._request = request
        self._service = service
        self._hold = hold
        self._url = url
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=MOST_OF_A_HEAD)
        self._upgrades = headers.upgrades(request.headers)

    async def run(self) -> None:
        """Raises `ServiceGone` and `h11.RemoteProtocolError` for what the service does, `BadBody` for what the client
        does, `OSError` if it has gone."""
        passed = headers.of_request(self._request.headers, self._url, upgrades=self._upgrades)
        await self._send(h11.Request(method=self._request.method, target=self._request.target, headers=passed))
        body, answer = asyncio.create_task(self._pass_body()), asyncio.create_task(self._pass_response())
        try:
            await asyncio.wait({body, answer}, return_when=asyncio.FIRST_COMPLETED)
            if body.done():
                body.result()  # and if the answer is there already, nobody waits for the body
            await answer
        finally:
            for task in (body, answer):
                task.cancel()
            await asyncio.gather(body, answer, return_exceptions=True)

    async def _pass_body(self) -> None:
        """The request's. If the service takes no more of it, its response tells why."""
        try:
            while True:
                event = await self._client.receive()
                if isinstance(event, h11.Data):
                    await self._send(h11.Data(data=bytes(event.data)))
                elif isinstance(event, h11.EndOfMessage):
                    await self._send(h11.EndOfMessage(headers=event.headers))
                    return
                else:
                    return
        except ServiceGone:
            pass
        except h11.RemoteProtocolError as error:
            raise BadBody(str(error)) from None

    async def _pass_response(self) -> None:
        while True:
            event = await self._receive()
            if isinstance(event, h11.InformationalResponse):
                if event.status_code == 101:
                    await self._become_tunnel(event)
                    return
            elif isinstance(event, h11.Response):
                passed = headers.of_response(event.headers)
                await self._client.send(
                    h11.Response(status_code=event.status_code, headers=passed, reason=event.reason)
                )
            elif isinstance(event, h11.Data):
                await self._client.send(h11.Data(data=bytes(event.data)))
            elif isinstance(event, h11.EndOfMessage):
                await self._client.send(h11.EndOfMessage(headers=event.headers))
                return
            else:
                raise ServiceGone("it ended before its answer was complete")

    async def _become_tunnel(self, event: h11.InformationalResponse) -> None:
        passed = headers.of_response(event.headers, upgrades=True)
        await self._client.send(h11.InformationalResponse(status_code=101, headers=passed, reason=event.reason))
        self._client.is_tunnel = True
        tunnel = Tunnel(self._client.stream, self._service, self._hold, self._url)
        with contextlib.suppress(*ENDS):
            await tunnel.run(self._client.http.trailing_data[0], self._http.trailing_data[0])

    async def _send(self, event: Any) -> None:
        data = self._http.send(event) or b""
        try:
            await self._service.write(data)
        except OSError as error:
            raise ServiceGone(str(error)) from None

    async def _receive(self) -> Any:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            self._http.receive_data(await self._service.read())
        return event
