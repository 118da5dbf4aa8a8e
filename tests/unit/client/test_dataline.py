"""A data connection without its I/O: what each frame means for the calls under way."""

from __future__ import annotations

from typing import Any

import pytest

from lazyd import errors
from lazyd.client.call import Call, pack_call
from lazyd.client.dataline import DataLine, LineState
from lazyd.client.steps import Dropped
from lazyd.wire.frames import FrameReader, frame_parts


class Wire:
    """A line, with the worker's words put in and the client's taken out."""

    def __init__(self) -> None:
        self.line = DataLine("lease-1", "secret")
        self._reader = FrameReader()

    def said(self) -> list[dict[str, Any]]:
        """What the client has written since."""
        frames = []
        while parts := self.line.sendable():
            frames += [frame.header for frame in self._reader.feed(b"".join(parts))]
            self.line.sent(sum(len(part) for part in parts))
        return frames

    def hear(self, head: dict[str, Any], *buffers: bytes) -> list[Call]:
        return self.hear_bytes(b"".join(frame_parts(head, buffers)))

    def hear_bytes(self, data: bytes) -> list[Call]:
        self.line.space()[: len(data)] = data
        return self.line.received(len(data))

    def begin(self, *args: Any) -> Call:
        return self.line.begin(pack_call("gemma", "run", args, {}, stream=False))


@pytest.fixture
def wire() -> Wire:
    wire = Wire()
    assert wire.said() == [{"v": 1, "token": "secret"}]
    assert wire.hear({"v": 1}) == [wire.line.hello]
    return wire


def test_the_token_comes_first_and_no_call_before_its_answer() -> None:
    wire = Wire()
    with pytest.raises(Dropped):
        wire.begin()
    assert wire.said() == [{"v": 1, "token": "secret"}]
    assert wire.hear({"v": 1}) == [wire.line.hello]
    assert repr(wire.line) == "<DataLine lease-1 open, 0 calls>"


def test_a_refused_token_ends_the_line() -> None:
    wire = Wire()
    wire.hear({"error": "NoSuchLease", "parameters": {"lease": "x"}})
    assert wire.line.state is LineState.ENDED
    with pytest.raises(errors.NoSuchLease):
        wire.line.hello.take()


def test_a_worker_of_another_protocol_is_not_spoken_to() -> None:
    wire = Wire()
    wire.hear({"v": 2})
    with pytest.raises(errors.ProtocolError):
        wire.line.hello.take()


def test_each_call_has_a_number_and_gets_its_own_answer(wire: Wire) -> None:
    first, second = wire.begin("a"), wire.begin("b")
    assert [head["id"] for head in wire.said()] == [1, 2]
    assert wire.hear({"id": 2, "result": "B"}) == [second]
    assert wire.hear({"id": 1, "result": {"$bytes": 0}}, b"A") == [first]
    assert (first.take().value, second.take().value) == (b"A", "B")
    assert wire.line.idle


def test_a_call_is_sent_when_its_last_byte_is(wire: Wire) -> None:
    call = wire.begin(b"x" * 100)
    size = sum(len(part) for part in wire.line.sendable())
    wire.line.sent(size - 1)
    assert repr(call) == "<Call 1 , 0 arrived>"
    wire.line.sent(1)
    assert repr(call) == "<Call 1 sent, 0 arrived>"
    assert wire.line.sendable() == []


@pytest.mark.parametrize("sent", [True, False])
def test_a_lost_line_tells_whether_a_call_was_delivered(wire: Wire, sent: bool) -> None:
    call = wire.begin()
    if sent:
        wire.said()
    assert wire.line.received(0) == [call]
    with pytest.raises(Dropped) as caught:
        call.take()
    assert caught.value.delivered is sent
    assert call.over


def test_what_arrived_before_the_loss_is_taken_first(wire: Wire) -> None:
    call = wire.begin()
    wire.hear({"id": 1, "result": 1, "more": True})
    wire.line.lost("reset")
    assert call.take() == (1, True, False)
    with pytest.raises(Dropped, match="reset"):
        call.take()


def test_revoked_means_that_no_call_under_way_was_started(wire: Wire) -> None:
    calls = [wire.begin(), wire.begin()]
    assert wire.hear({"revoked": True}) == calls
    for call in calls:
        with pytest.raises(errors.Revoked):
            call.take()
    assert wire.line.state is LineState.ENDED


def test_a_worker_that_reads_no_more_is_still_listened_to(wire: Wire) -> None:
    call = wire.begin()
    wire.line.unsendable()
    assert wire.line.sendable() == []
    wire.hear({"revoked": True})
    with pytest.raises(errors.Revoked):
        call.take()


def test_a_cancelled_call_stays_on_the_books_until_it_is_answered(wire: Wire) -> None:
    call = wire.begin()
    wire.said()
    wire.line.cancel(call)
    assert wire.said() == [{"cancel": 1}]
    assert wire.line.calls == {1: call}
    assert wire.line.idle
    wire.hear({"id": 1, "error": "Cancelled", "parameters": {"model": "gemma"}})
    assert wire.line.calls == {}
    assert not call.ready


def test_a_call_that_is_over_is_not_cancelled(wire: Wire) -> None:
    call = wire.begin()
    wire.said()
    wire.hear({"id": 1, "result": 1})
    wire.line.cancel(call)
    assert wire.said() == []


def test_answers_for_calls_that_nobody_knows_are_ignored(wire: Wire) -> None:
    for number in (7, "1", None, True, [1]):
        assert wire.hear({"id": number, "result": 1}) == []
    assert wire.line.state is LineState.OPEN


def test_frames_after_the_end_are_ignored(wire: Wire) -> None:
    call = wire.begin()
    data = b"".join(frame_parts({"revoked": True})) + b"".join(frame_parts({"id": 1, "result": 1}))
    assert wire.hear_bytes(data) == [call]
    with pytest.raises(errors.Revoked):
        call.take()
    assert not call.ready


@pytest.mark.parametrize("data", [b"\xff\xff\xff\xff", b"\0\0\0\2[]", b'\0\0\0\7{"x":1}'])
def test_nonsense_ends_the_line_with_an_error_for_each_call(wire: Wire, data: bytes) -> None:
    calls = [wire.begin(), wire.begin()]
    assert wire.hear_bytes(data) == calls
    raised = []
    for call in calls:
        with pytest.raises(errors.ProtocolError) as caught:
            call.take()
        raised.append(caught.value)
    assert raised[0] is not raised[1]  # each thread has a traceback of its own


def test_a_malformed_result_is_the_error_of_its_call_alone(wire: Wire) -> None:
    first, second = wire.begin(), wire.begin()
    wire.hear({"id": 1, "result": {"$bytes": 5}})
    with pytest.raises(errors.BadFrame):
        first.take()
    wire.hear({"id": 2, "result": 2})
    assert second.take().value == 2


def test_an_error_without_parameters_is_an_error_all_the_same(wire: Wire) -> None:
    call = wire.begin()
    wire.hear({"id": 1, "error": "Busy"})
    with pytest.raises(errors.Busy):
        call.take()


def test_a_call_that_is_too_large_leaves_the_line_as_it_was(wire: Wire) -> None:
    with pytest.raises(errors.TooLarge):
        wire.begin("x" * (17 * 1024 * 1024))
    assert wire.line.idle
    assert wire.said() == []


def test_arguments_are_not_copied(wire: Wire) -> None:
    data = bytearray(1000)
    wire.begin(data)
    assert wire.line.sendable()[1].obj is data
