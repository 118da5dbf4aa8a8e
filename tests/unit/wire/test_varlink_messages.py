from __future__ import annotations

import json

import pytest

from lazyd.errors import NotJson, NotSendable, TooLarge
from lazyd.wire.varlink import MAX_MESSAGE_BYTES, Splitter, dumps, encode, loads


def test_message_is_json_ended_by_one_nul() -> None:
    data = encode({"method": "io.lazyd.Status", "parameters": {"model": "a\0b"}})
    assert data.index(0) == len(data) - 1
    assert json.loads(data[:-1]) == {"method": "io.lazyd.Status", "parameters": {"model": "a\0b"}}


def test_text_travels_as_utf8_and_lone_surrogates_as_escapes() -> None:
    assert dumps("深") == '"深"'.encode()
    assert json.loads(dumps("\udc80")) == "\udc80"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1, 2}, object(), b"x"])
def test_what_is_not_json_is_not_sent(value: object) -> None:
    with pytest.raises(NotSendable):
        encode({"value": value})


def test_splitter_finds_messages_however_the_stream_is_cut() -> None:
    messages: list[dict[str, object]] = [{"a": 1}, {"text": "x" * 100}, {}, {"深": [1, 2]}]
    stream = b"".join(encode(message) for message in messages)
    for step in (1, 2, 3, 7, 64, len(stream)):
        splitter = Splitter()
        found = [m for i in range(0, len(stream), step) for m in splitter.feed(stream[i : i + step])]
        assert found == messages


def test_splitter_keeps_the_unfinished_rest() -> None:
    splitter = Splitter()
    assert splitter.feed(b'{"a":1}\0{"b"') == [{"a": 1}]
    assert splitter.feed(b":2}") == []
    assert splitter.feed(b"\0") == [{"b": 2}]


def test_a_message_over_the_limit_is_refused_before_it_has_ended() -> None:
    splitter = Splitter(limit=10)
    splitter.feed(b"x" * 10)
    with pytest.raises(TooLarge):
        splitter.feed(b"x")


def test_a_complete_message_over_the_limit_is_refused() -> None:
    with pytest.raises(TooLarge):
        Splitter(limit=10).feed(b'{"a":"123456"}\0')


def test_a_message_over_16_mib_is_not_even_sent() -> None:
    with pytest.raises(TooLarge):
        encode({"a": "x" * MAX_MESSAGE_BYTES})


def test_a_long_message_in_small_pieces_is_read_in_linear_time() -> None:
    """Each byte is searched once: 8 MiB in 1 KiB pieces would need 32 GiB of searching otherwise."""
    message = encode({"a": "x" * (8 * 1024 * 1024)})
    splitter = Splitter()
    found = []
    for i in range(0, len(message), 1024):
        found += splitter.feed(message[i : i + 1024])
    assert len(found) == 1


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"hello",
        b"[1]",
        b'"text"',
        b"1",
        b"null",
        b'{"a":NaN}',
        b'{"a":Infinity}',
        b'{"a":1}x',
        b"\xff\xfe",
        b"[" * 100_000,
    ],
)
def test_what_is_not_a_json_object_is_refused(data: bytes) -> None:
    with pytest.raises(NotJson):
        loads(data)
    with pytest.raises(NotJson):
        Splitter().feed(data + b"\0")


def test_another_decoder_may_be_given() -> None:
    assert Splitter(loads=lambda data: {"raw": data}).feed(b"abc\0") == [{"raw": b"abc"}]
