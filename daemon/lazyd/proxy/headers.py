"""Which headers of a message are passed on: all but those that are of one connection alone (RFC 9110, 7.6.1)."""

from __future__ import annotations

from collections.abc import Iterable

Headers = Iterable[tuple[bytes, bytes]]

_OF_A_CONNECTION = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-connection",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"te",
        b"trailer",
    }
    | {b"upgrade", b"expect"}
)
"""What frames the body, `transfer-encoding`, stays: the body is framed in the same way."""


def of_request(headers: Headers, url: str, *, upgrades: bool) -> list[tuple[bytes, bytes]]:
    """For the service at `url`, whose connection is for this request alone."""
    given = list(headers)
    passed = _passed_on(given)
    if not any(name == b"host" for name, _ in given):  # HTTP/1.0 has none
        passed.insert(0, (b"host", url.removeprefix("http://").encode()))
    if upgrades:
        return [*passed, (b"connection", b"upgrade"), *((name, value) for name, value in given if name == b"upgrade")]
    return [*passed, (b"connection", b"close")]


def of_response(headers: Headers, *, upgrades: bool = False) -> list[tuple[bytes, bytes]]:
    """For the client, whose connection goes on if it wants that."""
    given = list(headers)
    kept = [(name, value) for name, value in given if upgrades and name in (b"connection", b"upgrade")]
    return [*_passed_on(given), *kept]


def upgrades(headers: Headers) -> bool:
    """Whether a request asks for another protocol."""
    given = list(headers)
    return any(name == b"upgrade" for name, _ in given) and b"upgrade" in _named_by_connection(given)


def _passed_on(headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    dropped = _OF_A_CONNECTION | (_named_by_connection(headers) - {b"transfer-encoding", b"content-length", b"host"})
    return [(name, value) for name, value in headers if name not in dropped]


def _named_by_connection(headers: list[tuple[bytes, bytes]]) -> set[bytes]:
    return {word.strip().lower() for name, value in headers if name == b"connection" for word in value.split(b",")}
