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
from . import refusals
from .exchange import MOST_OF_A_HEAD, BadBody, Exchange, ServiceGone
from .hold import Hold
from .refusals import Refusal
from .streams import Stream, unless_gone

if TYPE_CHECKING:
    from ..client.aio.client import AsyncClient

log = logging.getLogger("lazyd.proxy")

LINGER_S = 5.0
"""So long at most a connection that ends is still listened to: what is under way when it is closed would have the
client's system throw away our answer."""


class Conversation:
    """From a client's connection to its end."""

    def __init__(self, stream: Stream, model: str, client: AsyncClient) -> None:
        self._stream = stream
        self._model = model
        self._client = client
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=MOST_OF_A_HEAD)
        self._is_head = False
        """The response has no body."""
        self.is_tunnel = False
        """It speaks another protocol from now on."""

    async def run(self) -> None:
        """Until the client has gone, or its connection serves for nothing more."""
        try:
            while (request := await self._request()) is not None:
                work = asyncio.create_task(self._answer(request))
                if not await unless_gone(self._stream, work, lambda: LINGER_S if self.is_tunnel else 0.0):
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
            if self._http.their_state in (h11.SEND_BODY, h11.ERROR):
                await self._stream.linger(LINGER_S)
            self._stream.close()

    async def _request(self) -> h11.Request | None:
        """The next one. None: there is none."""
        event = await self._next(self._http, self._stream)
        return event if isinstance(event, h11.Request) else None

    async def _answer(self, request: h11.Request) -> None:
        self._is_head = request.method == b"HEAD"
        if (wrong := what_is_wrong(request)) is not None:
            await self._refuse(wrong)
            return
        try:
            async with Hold(self._client, self._model) as hold:
                await self._pass_on(request, hold)
        except LazydError as error:
            await self._refuse(refusals.of(error))

    async def _pass_on(self, request: h11.Request, hold: Hold) -> None:
        try:
            service, url = await hold.connect()
        except OSError as error:
            await self._refuse(refusals.broken(self._model, error))
            return
        try:
            await Exchange(self, request, service, hold, url).run()
        except BadBody as error:
            await self._refuse(Refusal(400, f"this is not HTTP: {error}", closes=True))
        except (h11.RemoteProtocolError, ServiceGone) as error:
            await self._refuse(refusals.broken(self._model, error))
        finally:
            service.close()

    async def _refuse(self, refusal: Refusal) -> None:
        """Answers in the service's place, if nothing of its answer has gone out; else the client sees a broken one."""
        log.info("%s: %d %s", self._model, refusal.status, refusal.line)
        if self._http.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            if self._http.our_state is h11.SEND_BODY:
                self._stream.abort()
            return
        body = f"{refusal.line}\n".encode()
        fields = [("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(body)))]
        fields += [] if refusal.retry_after_s is None else [("Retry-After", str(refusal.retry_after_s))]
        if self._http.their_state is h11.SEND_BODY and not refusal.closes:
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


def what_is_wrong(request: h11.Request) -> Refusal | None:
    """Why it is not passed on. A message of which it can be doubted where it ends is none (RFC 9112, 6.1 and 6.3)."""
    if request.http_version not in (b"1.0", b"1.1"):
        return Refusal(505, "only HTTP/1.0 and HTTP/1.1 are spoken here", closes=True)
    if request.method == b"CONNECT":
        return Refusal(405, "a service is no way to elsewhere")
    names = {name for name, _ in request.headers}
    if b"transfer-encoding" in names and (b"content-length" in names or request.http_version == b"1.0"):
        return Refusal(400, "this is not HTTP: it says in two ways where its body ends", closes=True)
    return None
