"""The protocol on one connection: NUL-ended JSON in, replies out, one call at a time.

Messages that come while a call is under way wait for its end; so does a client that does not
read its replies. A call that a handler answers at once is answered in the callback that read
it, without a task: that is the hot path.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, cast

import msgspec

from lazyd.errors import ExpectedMore, InvalidParameter, LazydError, NotSendable, PermissionDenied

from .call import Call
from .parameters import invalid
from .peer import Peer, peer_of
from .service import Service

MAX_MESSAGE_BYTES = 16 * 1024 * 1024
"""As `lazyd.wire.varlink` says; a manager that imported that would start with a JSON codec it never uses."""
QUEUE_BYTES = 1024 * 1024
"""Messages that wait behind a call under way; beyond that the client is not read."""
LINGER_S = 5.0
"""How long a client whose message was refused may go on sending, before it is cut off."""

_NO_PEER = Peer(0, -1, -1)
_EMPTY = msgspec.Raw(b"{}")
_NULL = b"null"
_BEGIN = b'{"parameters":'
_CONTINUES = b',"continues":true}\0'
_END = b"}\0"
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What the decoder raises for bytes that are no JSON, no UTF-8, or nested too deeply."""


class Message(msgspec.Struct):
    """A call as it comes over the wire."""

    method: str
    parameters: msgspec.Raw = _EMPTY
    more: bool = False
    oneway: bool = False


_decode = msgspec.json.Decoder(Message).decode
_encoder = msgspec.json.Encoder()
_encode, _encode_into = _encoder.encode, _encoder.encode_into


class Connection(asyncio.Protocol):
    """One client."""

    def __init__(self, service: Service, connections: set[Connection]) -> None:
        self._service = service
        self._connections = connections
        self._transport: asyncio.Transport | None = None
        self._partial: list[bytes] = []
        self._partial_bytes = 0
        self._queue: deque[bytes] = deque()
        self._queue_bytes = 0
        self._call: Call | None = None
        self._pumping = False
        self._refused = False
        self._paused = False
        self._when_closed: list[Callable[[], None]] = []
        self.clogged = False
        """The client does not read its replies."""
        self.peer = _NO_PEER
        self.role = ""

    # What asyncio tells.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self.peer = peer_of(transport.get_extra_info("socket"))
        self.role = self._service.role_of(self.peer)
        self._connections.add(self)

    def connection_lost(self, _: Exception | None) -> None:
        self._transport = None
        self._connections.discard(self)
        self._partial.clear()
        self._queue.clear()
        if self._call is not None:
            call, self._call = self._call, None
            call.gone()
        when_closed, self._when_closed = self._when_closed, []
        for then in when_closed:
            then()

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        end = data.find(b"\0")
        if end == len(data) - 1 and not self._partial and self._call is None and not self.clogged:
            self._pumping = True
            self._handle(data[:-1])
            self._pumping = False
            return
        start = 0
        while end >= 0:
            self._partial.append(data[start:end])
            message = b"".join(self._partial)
            self._partial.clear()
            self._partial_bytes = 0
            self._queue.append(message)
            self._queue_bytes += len(message)
            start = end + 1
            end = data.find(b"\0", start)
        if start < len(data):
            self._partial.append(data[start:])
            self._partial_bytes += len(data) - start
        self._pump()
        if self._partial_bytes > MAX_MESSAGE_BYTES:
            self._refuse(f"a message of over {MAX_MESSAGE_BYTES} bytes")

    def pause_writing(self) -> None:
        self.clogged = True

    def resume_writing(self) -> None:
        self.clogged = False
        if self._call is not None and self._call.on_writable is not None:
            self._call.on_writable()
        self._pump()

    # One message after the other.

    def _pump(self) -> None:
        if self._pumping:
            return
        self._pumping = True
        while self._queue and self._call is None and not self.clogged and not self._refused:
            message = self._queue.popleft()
            self._queue_bytes -= len(message)
            self._handle(message)
        self._pumping = False
        self._regulate()

    def _regulate(self) -> None:
        """Reads no more than may wait; what is not read, the client's own kernel buffer holds."""
        too_much = self._queue_bytes > QUEUE_BYTES and not self._refused
        if self._transport is None or self._paused == too_much:
            return
        self._paused = too_much
        if too_much:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()

    def _handle(self, data: bytes) -> None:
        if len(data) > MAX_MESSAGE_BYTES:
            self._refuse(f"a message of over {MAX_MESSAGE_BYTES} bytes")
            return
        try:
            message = _decode(data)
        except _UNREADABLE as error:
            self._misread(data, error)
            return
        self._call = call = Call(self, message.method, message.more, message.oneway)
        try:
            self._dispatch(call, message.parameters)
        except LazydError as error:
            call.fail_with(error)
        except msgspec.ValidationError as error:
            call.fail_with(invalid(error))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:  # the parameters are decoded last
            self._refuse(f"not JSON: {error}")
        except Exception as error:
            call.fail_inside(error)

    def _dispatch(self, call: Call, parameters: msgspec.Raw) -> None:
        method = self._service.lookup(call.method)
        if method is None:
            raise self._service.not_there(call.method)
        if self.role not in method.roles:
            raise PermissionDenied(method=call.method.rpartition(".")[2], role=self.role)
        if method.more_only and not call.more:
            raise ExpectedMore()
        try:
            given = method.decode(parameters)
        except msgspec.ValidationError:
            if bytes(parameters) != _NULL:
                raise
            given = method.decode(_EMPTY)
        method.handler(call, given)

    def _misread(self, data: bytes, error: Exception) -> None:
        """JSON of the wrong shape is a wrong call; all else ends the connection."""
        if isinstance(error, msgspec.ValidationError):
            try:
                msgspec.json.decode(data)  # the decoder of messages may have stopped before the end
            except _UNREADABLE as not_json:
                error = not_json
            else:
                wrong = invalid(error)
                self._write_error(wrong.varlink_name, wrong.to_parameters())
                return
        self._refuse(f"not JSON: {error}")

    # What calls send, and what they leave behind.

    def until_closed(self, then: Callable[[], None]) -> None:
        """Calls `then` when the connection has ended: now, if it has."""
        if self._transport is None:
            then()
        else:
            self._when_closed.append(then)

    def send_reply(self, call: Call, parameters: Any, *, continues: bool) -> None:
        if self._transport is not None and not call.oneway:
            message = bytearray(_BEGIN)
            try:
                _encode_into({} if parameters is None else parameters, message, -1)  # at the end: no copy of 3 MB
            except (UnicodeEncodeError, RecursionError) as error:  # what a model answers may be text of half characters
                raise NotSendable(reason=str(error)) from None
            message += _CONTINUES if continues else _END
            self._transport.write(message)
        if not continues:
            self._end(call)

    def send_error(self, call: Call, name: str, parameters: Any) -> None:
        if not call.oneway:
            self._write_error(name, parameters)
        self._end(call)

    def close(self) -> None:
        """Ends the connection once what was sent is on its way."""
        if self._transport is not None:
            self._transport.close()

    def _end(self, call: Call) -> None:
        if self._call is call:
            self._call = None
            if self._queue:
                self._pump()

    def _write_error(self, name: str, parameters: Any) -> None:
        if self._transport is not None:
            self._transport.write(_encode({"error": name, "parameters": parameters or {}}) + b"\0")

    def _refuse(self, reason: str) -> None:
        """Answers with an error and ends the connection and what was under way on it.

        What the client still sends is read and dropped for a while, so that one that writes a
        large message to its end before it reads gets to see the error.
        """
        self._refused = True
        if self._call is not None:
            call, self._call = self._call, None
            call.gone()
        self._partial.clear()
        self._partial_bytes = 0
        self._queue.clear()
        self._queue_bytes = 0
        self._write_error(InvalidParameter.varlink_name, {"parameter": "message", "reason": reason})
        if self._transport is None:
            return
        self._regulate()
        if self._transport.can_write_eof():
            self._transport.write_eof()
        asyncio.get_running_loop().call_later(LINGER_S, self._cut)

    def _cut(self) -> None:
        if self._transport is not None:
            self._transport.abort()
