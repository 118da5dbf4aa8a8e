"""Requests to a service, one connection each."""

from __future__ import annotations

import codecs
import contextlib
import http.client
import json
import socket
from typing import TYPE_CHECKING, Any

from . import CallCancelled
from .service_ports import ADDRESS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from . import Cancellation

_CHUNK = 64 * 1024
FAILED = 400
"""Statuses from this one on tell of a failure."""
LOOK_S = 5.0
"""A look at how the service does may take so long."""


class Answer:
    """The beginning of a response; the body is still to be read."""

    def __init__(self, connection: http.client.HTTPConnection, response: http.client.HTTPResponse) -> None:
        self._connection = connection
        self._response = response

    @property
    def head(self) -> dict[str, Any]:
        """Status and headers, whose names are in lower case."""
        headers: dict[str, str] = {}
        for name, value in self._response.getheaders():
            key = name.lower()
            headers[key] = f"{headers[key]}, {value}" if key in headers else value
        return {"status": self._response.status, "headers": headers}

    def body(self) -> Any:
        """Decoded if it is JSON, a text if it says so, bytes otherwise; None if there is none."""
        data = self._response.read()
        if not data:
            return None
        if self._is_json:
            with contextlib.suppress(ValueError):
                return json.loads(data)
        charset = self._charset
        return data if charset is None else data.decode(charset, "replace")

    def pieces(self) -> Iterator[Any]:
        """The body as it comes: texts if it is text or JSON, bytes otherwise."""
        charset = self._charset or ("utf-8" if self._is_json else None)
        decoder = codecs.getincrementaldecoder(charset)("replace") if charset is not None else None
        while data := self._response.read1(_CHUNK):
            piece = data if decoder is None else decoder.decode(data)
            if piece:
                yield piece

    def close(self) -> None:
        self._response.close()
        self._connection.close()

    @property
    def _is_json(self) -> bool:
        kind = self._response.headers.get_content_type()
        return kind == "application/json" or kind.endswith("+json")

    @property
    def _charset(self) -> str | None:
        """Of a text."""
        if "content-type" not in self._response.headers or self._response.headers.get_content_maintype() != "text":
            return None
        named = self._response.headers.get_content_charset("utf-8")
        try:
            codecs.lookup(named)
        except LookupError:
            return "utf-8"
        return named


def ask(
    port: int,
    method: str,
    path: str,
    body: Any = None,
    headers: dict[str, str] | None = None,
    cancelled: Cancellation | None = None,
    timeout_s: float | None = None,
) -> Answer:
    """Sends a request, and waits for the head of the response.

    A `body` of bytes or text is sent as it is, anything else as JSON. Raises `OSError` and
    `http.client.HTTPException`, and `CallCancelled` at any time, also while the answer is read.
    """
    if not path.startswith("/"):
        raise ValueError(f"{path!r} is not the path of a URL: it does not begin with /")
    all_headers = dict(headers or {})
    if body is not None and not isinstance(body, (bytes, bytearray, memoryview, str)):
        body = json.dumps(body)
        if not any(name.lower() == "content-type" for name in all_headers):
            all_headers["Content-Type"] = "application/json"
    data = body.encode() if isinstance(body, str) else None if body is None else bytes(body)
    connection = http.client.HTTPConnection(ADDRESS, port, timeout=timeout_s)
    with told_of_cancelling(connection, cancelled):
        connection.connect()
        if cancelled is not None:
            cancelled.then(_closes(connection))
        connection.request(method.upper(), path, data, all_headers)
        return Answer(connection, connection.getresponse())


@contextlib.contextmanager
def told_of_cancelling(closing: Any, cancelled: Cancellation | None) -> Iterator[None]:
    """Closes what is asked if it fails; a connection that was cut because the call was cancelled is no failure."""
    try:
        yield
    except (OSError, http.client.HTTPException, ValueError):
        closing.close()
        if cancelled is not None and cancelled():
            raise CallCancelled from None
        raise


def _closes(connection: http.client.HTTPConnection) -> Callable[[], None]:
    """Ends a connection that another thread reads from."""
    sock = connection.sock

    def cut() -> None:
        with contextlib.suppress(OSError):
            sock.shutdown(socket.SHUT_RDWR)

    return cut


def status_of(port: int, path: str) -> int | None:
    """What a path is answered with; None if it is not answered."""
    try:
        answer = ask(port, "GET", path, timeout_s=LOOK_S)
    except (OSError, http.client.HTTPException):
        return None
    answer.close()
    status: int = answer.head["status"]
    return status


def carry_out(port: int, http_request: dict[str, Any], limit_s: float | None) -> None:
    """Makes a request of the configuration's. Raises `OSError` if it fails, or nothing comes for `limit_s`."""
    method, path = http_request.get("method", "POST"), http_request["path"]
    try:
        answer = ask(port, method, path, http_request.get("json"), timeout_s=limit_s)
        said = answer.body()
    except TimeoutError:
        raise OSError(f"{method} {path} was not answered within {limit_s:g} s") from None
    except http.client.HTTPException as error:
        raise OSError(f"{method} {path}: {error!r}") from None
    answer.close()
    if answer.head["status"] >= FAILED:
        raise OSError(f"{method} {path} was answered with {answer.head['status']}: {str(said)[:200]}")
