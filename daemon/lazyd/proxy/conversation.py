"""One client's connection: requests one after the other, each passed on to its service and answered by it.

Nothing is kept in use between requests, however long the client keeps its connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Any

import h11

from ..errors import LazydError
from . import headers, refusals
from .hold import Hold
from .refusals import Refusal
from .streams import Stream, unless_gone
from .tunnel import ENDS, Tunnel

if TYPE_CHECKING:
    from ..client.aio.client import AsyncClient

log = logging.getLogger("lazyd.proxy")

MOST_OF_A_HEAD = 128 * 1024
"""Bytes."""


class Conversation:
    """From a client's connection to its end."""

    def __init__(self, stream: Stream, model: str, client: AsyncClient) -> None:
        self._stream = stream
        self._model = model
        self._client = client
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=MOST_OF_A_HEAD)
        self._is_head = False
        """The response has no body."""

    async def run(self) -> None:
        """Until the client has gone, or its connection serves for nothing more."""
        try:
            while (request := await self._request()) is not None:
                work = asyncio.create_task(self._answer(request))
                if not await unless_gone(self._stream, work):
                    return
                work.result()
                if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
                    return
                self._http.start_next_cycle()
        except h11.RemoteProtocolError as error:
            await self._refuse(Refusal(error.error_status_hint or 400, f"this is not HTTP: {error}"))
        except OSError:
            pass  # the client has gone
        finally:
            self._stream.close()

    async def _request(self) -> h11.Request | None:
        """The next one. None: there is none."""
        event = await self._next(self._http, self._stream)
        return event if isinstance(event, h11.Request) else None

    async def _answer(self, request: h11.Request) -> None:
        self._is_head = request.method == b"HEAD"
        if request.method == b"CONNECT":
            await self._refuse(Refusal(405, "a service is no way to elsewhere"))
            return
        try:
            hold = Hold(self._client, self._model)
            async with hold as url:
                await self._pass_on(request, hold, url)
        except LazydError as error:
            await self._refuse(refusals.of(error))

    async def _pass_on(self, request: h11.Request, hold: Hold, url: str) -> None:
        host, _, port = url.removeprefix("http://").rpartition(":")
        try:
            service = await Stream.connect(host, int(port))
        except OSError as error:
            await self._refuse(refusals.broken(self._model, error))
            return
        try:
            await _Exchange(self, request, service, hold, url).run()
        except (h11.RemoteProtocolError, _ServiceGone) as error:
            await self._refuse(refusals.broken(self._model, error))
        finally:
            service.close()

    async def _refuse(self, refusal: Refusal) -> None:
        """Answers in the service's place, if nothing of its answer has gone out; else the client sees a broken one."""
        log.info("%s: %d %s", self._model, refusal.status, refusal.line)
        if self._http.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self._stream.abort()
            return
        body = f"{refusal.line}\n".encode()
        fields = [("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(body)))]
        fields += [] if refusal.retry_after_s is None else [("Retry-After", str(refusal.retry_after_s))]
        if self._http.their_state is h11.SEND_BODY:
            self._http.next_event()  # a request without a body is over
        if self._http.their_state is not h11.DONE:
            fields.append(("Connection", "close"))
        with contextlib.suppress(OSError, h11.LocalProtocolError):
            await self.send(h11.Response(status_code=refusal.status, headers=fields, reason=b"Refused"))
            if not self._is_head:
                await self.send(h11.Data(data=body))
            await self.send(h11.EndOfMessage())

    # For one exchange.

    @property
    def http(self) -> h11.Connection:
        return self._http

    @property
    def stream(self) -> Stream:
        return self._stream

    async def send(self, event: Any) -> None:
        """To the client."""
        await self._stream.write(self._http.send(event) or b"")

    async def receive(self) -> Any:
        """From the client."""
        return await self._next(self._http, self._stream)

    async def _next(self, http: h11.Connection, stream: Stream) -> Any:
        while (event := http.next_event()) is h11.NEED_DATA:
            if http.they_are_waiting_for_100_continue:
                await self.send(h11.InformationalResponse(status_code=100, headers=[]))
            http.receive_data(await stream.read())
        return event


class _ServiceGone(Exception):
    """It has closed the connection in the middle, or taken no more."""


class _Exchange:
    """One request and its response, with the service's connection for them."""

    def __init__(self, client: Conversation, request: h11.Request, service: Stream, hold: Hold, url: str) -> None:
        self._client = client
        self._request = request
        self._service = service
        self._hold = hold
        self._url = url
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=MOST_OF_A_HEAD)
        self._upgrades = headers.upgrades(request.headers)

    async def run(self) -> None:
        """Raises `_ServiceGone`, `h11.RemoteProtocolError`; `OSError` if the client has gone."""
        passed = headers.of_request(self._request.headers, upgrades=self._upgrades)
        await self._send(h11.Request(method=self._request.method, target=self._request.target, headers=passed))
        body = asyncio.create_task(self._pass_body())
        try:
            await self._pass_response()
        finally:
            body.cancel()
            await asyncio.gather(body, return_exceptions=True)

    async def _pass_body(self) -> None:
        """The request's. If the service takes no more of it, its response tells why."""
        with contextlib.suppress(_ServiceGone):
            while True:
                event = await self._client.receive()
                if isinstance(event, h11.Data):
                    await self._send(h11.Data(data=bytes(event.data)))
                elif isinstance(event, h11.EndOfMessage):
                    await self._send(h11.EndOfMessage(headers=event.headers))
                    return
                else:
                    return

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
                raise _ServiceGone("it ended before its answer was complete")

    async def _become_tunnel(self, event: h11.InformationalResponse) -> None:
        passed = headers.of_response(event.headers, upgrades=True)
        await self._client.send(h11.InformationalResponse(status_code=101, headers=passed, reason=event.reason))
        tunnel = Tunnel(self._client.stream, self._service, self._hold, self._url)
        with contextlib.suppress(*ENDS):
            await tunnel.run(self._client.http.trailing_data[0], self._http.trailing_data[0])

    async def _send(self, event: Any) -> None:
        data = self._http.send(event) or b""
        try:
            await self._service.write(data)
        except OSError as error:
            raise _ServiceGone(str(error)) from None

    async def _receive(self) -> Any:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            self._http.receive_data(await self._service.read())
        return event
