"""What the proxy passes on, what it takes for use, and what it says when a service cannot be had."""

from __future__ import annotations

import pytest

from lazyd.errors import LazydError, LoadFailed, ModelNotFound, NoRoom, PermissionDenied, Timeout, Unavailable
from lazyd.proxy import headers, refusals
from lazyd.proxy.tunnel import is_only_pings

URL = "http://127.0.0.1:9"
GIVEN = [
    (b"host", b"a:1"),
    (b"connection", b"keep-alive, X-Mine"),
    (b"keep-alive", b"timeout=5"),
    (b"x-mine", b"1"),
    (b"x-other", b"2"),
    (b"transfer-encoding", b"chunked"),
    (b"expect", b"100-continue"),
]


def test_headers_of_one_connection_are_not_passed_on() -> None:
    passed = headers.of_request(GIVEN, URL, upgrades=False)
    assert passed == [
        (b"host", b"a:1"),
        (b"x-other", b"2"),
        (b"transfer-encoding", b"chunked"),
        (b"connection", b"close"),
    ]
    assert headers.of_response([(b"connection", b"close"), (b"content-length", b"3")]) == [(b"content-length", b"3")]


def test_an_upgrade_is_passed_on_both_ways() -> None:
    asked = [(b"host", b"a"), (b"connection", b"keep-alive, Upgrade"), (b"upgrade", b"websocket")]
    assert headers.upgrades(asked)
    assert not headers.upgrades([(b"upgrade", b"websocket")])
    passed = headers.of_request(asked, URL, upgrades=True)
    assert passed == [(b"host", b"a"), (b"connection", b"upgrade"), (b"upgrade", b"websocket")]
    answer = [(b"connection", b"upgrade"), (b"upgrade", b"websocket"), (b"sec-websocket-accept", b"x")]
    assert sorted(headers.of_response(answer, upgrades=True)) == sorted(answer)


@pytest.mark.parametrize(
    ("error", "status", "after_s"),
    [
        (LoadFailed(model="m", reason="it is ill", retry_after_sec=2.1), 503, 3),
        (LoadFailed(model="m", reason="it is ill", retry_after_sec=0.0), 503, 1),
        (NoRoom(model="m", device="gpu0", needed_bytes=2, free_bytes=1, reason="full"), 503, refusals.RETRY_S),
        (Unavailable(socket="/s", reason="it is being stopped"), 503, refusals.RETRY_S),
        (Timeout(model="m", phase="loading", timeout_sec=1.0), 504, refusals.RETRY_S),
        (ModelNotFound(model="m"), 404, None),
        (PermissionDenied(method="Get", role="none"), 403, None),
    ],
)
def test_a_refusal_has_a_status_one_line_and_when_to_try_again(
    error: LazydError, status: int, after_s: int | None
) -> None:
    assert refusals.of(error) == refusals.Refusal(status, str(error), after_s)


def frame(opcode: int, data: bytes, *, masked: bool) -> bytes:
    """Of a websocket."""
    size = bytes([0x80 | opcode, len(data) | (0x80 if masked else 0)])
    return size + (b"mask" if masked else b"") + data


@pytest.mark.parametrize("masked", [False, True])
def test_pings_are_no_use_and_anything_else_is(masked: bool) -> None:
    ping, pong, text = (frame(opcode, b"abc", masked=masked) for opcode in (9, 10, 1))
    assert is_only_pings(ping)
    assert is_only_pings(pong + ping)
    assert is_only_pings(frame(9, b"", masked=masked))
    assert not is_only_pings(text)
    assert not is_only_pings(ping + text)
    assert not is_only_pings(ping[:-1])
    assert not is_only_pings(ping[:1])
    assert not is_only_pings(b"")
