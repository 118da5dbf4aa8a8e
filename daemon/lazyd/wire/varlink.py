"""Messages of the control socket: one JSON object each, ended by a NUL byte."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ..errors import NotJson, NotSendable, TooLarge

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

MAX_MESSAGE_BYTES = 16 * 1024 * 1024
"""The largest message that is accepted, its NUL not counted."""


def encode(message: Mapping[str, Any]) -> bytes:
    """The message with its NUL.

    Raises `NotSendable` for what is not JSON (`lazyd.wire.values.to_json` makes JSON of arrays,
    bytes and not-a-number), `TooLarge` for a message that the other side would not accept.
    """
    data = dumps(message)
    if len(data) > MAX_MESSAGE_BYTES:
        raise TooLarge(reason=f"it has {len(data)} bytes, at most {MAX_MESSAGE_BYTES} are allowed")
    return data + b"\0"


def dumps(value: Any) -> bytes:
    """Compact JSON in UTF-8. Raises `NotSendable`."""
    try:
        return _encode(value).encode()
    except UnicodeEncodeError:  # a lone surrogate, as in undecodable file names: only escaped is it JSON
        return _encode_ascii(value).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise NotSendable(reason=str(error)) from None


def loads(data: bytes | bytearray | memoryview) -> dict[str, Any]:
    """The JSON object in `data`. Raises `NotJson`."""
    try:
        value = _decode(str(data, "utf-8"))
    except (ValueError, RecursionError) as error:
        raise NotJson(reason=f"a message is not JSON ({error})") from None
    if not isinstance(value, dict):
        raise NotJson(reason=f"a message is JSON, but not an object ({type(value).__name__})")
    return value


class Splitter:
    """Cuts a stream of bytes into messages.

    After it has raised, the stream has no recognisable boundaries any more: end the connection.
    """

    def __init__(self, loads: Callable[[bytes], dict[str, Any]] = loads, limit: int = MAX_MESSAGE_BYTES) -> None:
        self._loads = loads
        self._limit = limit
        self._rest = bytearray()

    def feed(self, data: bytes | bytearray | memoryview) -> list[dict[str, Any]]:
        """The messages that are complete with `data`. Raises `TooLarge`, `NotJson`."""
        searched = len(self._rest)  # no NUL in there: a long message is looked through once
        self._rest += data
        messages = []
        start = 0
        while (end := self._rest.find(0, max(start, searched))) >= 0:
            self._check(end - start)
            messages.append(self._loads(bytes(memoryview(self._rest)[start:end])))
            start = end + 1
        if start:
            del self._rest[:start]
        self._check(len(self._rest))
        return messages

    @property
    def pending(self) -> bool:
        """Part of a message has arrived: an end of file now would cut it."""
        return bool(self._rest)

    def _check(self, size: int) -> None:
        if size > self._limit:
            raise TooLarge(reason=f"it has more than {self._limit} bytes")


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode
_encode_ascii = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode
_decode = json.JSONDecoder(parse_constant=_no_constant).decode
