from __future__ import annotations

import json
import random
import socket
import struct
import sys
import threading
import weakref
from typing import Any

import numpy
import pytest

from lazyd.errors import BadFrame, NotJson, NotSendable, TooLarge
from lazyd.wire.frames import MAX_HEADER_BYTES, SEND_BYTES, Frame, FrameReader, frame_parts, roomy
from lazyd.wire.values import pack, unpack


def frame_bytes(header: dict[str, Any], *buffers: Any) -> bytes:
    return b"".join(frame_parts(header, buffers))


def test_frame_is_length_header_and_buffers() -> None:
    data = frame_bytes({"id": 1}, b"abc", b"")
    (size,) = struct.unpack(">I", data[:4])
    assert json.loads(data[4 : 4 + size]) == {"id": 1, "buffers": [3, 0]}
    assert data[4 + size :] == b"abc"


def test_frame_parts_are_the_callers_own_memory() -> None:
    data = bytearray(100)
    assert frame_parts({}, [data])[1] is data


def test_reader_finds_frames_however_the_stream_is_cut() -> None:
    frames = [
        Frame({"id": 1}, []),
        Frame({"id": 2, "result": {"$bytes": 0}}, [b"x" * 200_000]),
        Frame({}, [b"", b"a", b"", b"b" * 70_000]),
        Frame({"id": 3}, [b""]),
    ]
    stream = b"".join(frame_bytes(frame.header, *frame.buffers) for frame in frames)
    generator = random.Random(1)
    for _ in range(20):
        reader = FrameReader()
        found = []
        rest = stream
        while rest:
            count = generator.choice([1, 3, 5, 100, 65_536, 300_000])
            found += reader.feed(rest[:count])
            rest = rest[count:]
        assert found == frames


def test_next_size_tells_what_is_missing() -> None:
    reader = FrameReader()
    data = frame_bytes({"id": 1}, b"x" * 10)
    header_size = len(data) - 4 - 10
    assert reader.next_size() == 4
    reader.feed(data[:4])
    assert reader.next_size() == header_size
    reader.feed(data[4:-8])
    assert reader.next_size() == 8
    assert reader.feed(data[-8:])[0].buffers == [b"x" * 10]
    assert reader.next_size() == 4


def test_large_buffer_is_received_straight_into_the_memory_that_the_array_shows() -> None:
    reader = FrameReader()
    head, buffers = pack(numpy.arange(100_000, dtype="<i4"))
    parts = frame_parts({"result": head}, buffers)
    reader.feed(parts[0])
    space = reader.space()
    assert len(space) == 400_000
    space[:] = parts[1]
    (frame,) = reader.received(400_000)
    array = unpack(frame.header["result"], frame.buffers)
    assert array[99_999] == 99_999
    space[:4] = numpy.int32(77).tobytes()  # the memory that was received into
    assert array[0] == 77


@pytest.mark.parametrize("size", [1000, 1_000_000, 80 * 1024 * 1024])
def test_array_crosses_a_real_socket(size: int) -> None:
    array = numpy.random.default_rng(1).integers(0, 255, size, dtype="u1")
    near, far = socket.socketpair()

    def send() -> None:
        head, buffers = pack(array)
        for part in frame_parts({"result": head}, buffers):
            near.sendall(part)

    thread = threading.Thread(target=send)
    thread.start()
    reader = FrameReader()
    frames: list[Frame] = []
    while not frames:
        frames = reader.received(far.recv_into(reader.space()))
    thread.join()
    near.close()
    far.close()
    arrived = unpack(frames[0].header["result"], frames[0].buffers)
    assert (arrived == array).all()
    assert arrived.flags.writeable


@pytest.mark.parametrize("size", [1, 100_000, 1_000_000, 5_000_000])
@pytest.mark.parametrize("has_numpy", [True, False])
def test_a_buffer_of_any_size_is_writable_bytes(size: int, has_numpy: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not has_numpy:
        monkeypatch.delitem(sys.modules, "numpy")
    (frame,) = FrameReader().feed(frame_bytes({}, bytes([7]) * size))
    view = memoryview(frame.buffers[0])
    assert (view.format, view.nbytes, view.readonly, set(view[:1000])) == ("B", size, False, {7})


def test_a_megabyte_goes_into_a_data_socket_at_once() -> None:
    near, far = socket.socketpair()
    with near, far:
        near.setblocking(False)
        roomy(near)
        if near.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) < 2 * SEND_BYTES:
            pytest.skip("net.core.wmem_max of this machine is below a megabyte")
        array = numpy.zeros(250_000, numpy.float32)
        parts = frame_parts(
            {"id": 1, "result": {"$array": 0, "dtype": "<f4", "shape": [250_000]}}, [array.data.cast("B")]
        )
        assert near.sendmsg(parts) == sum(map(len, parts))


def test_buffers_of_one_frame_are_not_those_of_the_next() -> None:
    reader = FrameReader()
    (first,) = reader.feed(frame_bytes({}, b"one"))
    (second,) = reader.feed(frame_bytes({}, b"two"))
    assert (first.buffers, second.buffers) == ([b"one"], [b"two"])


def test_a_reader_that_waits_keeps_nothing_of_the_last_frame() -> None:
    """An idle connection would otherwise hold its last gigabyte."""
    reader = FrameReader()
    (frame,) = reader.feed(frame_bytes({}, bytes(5_000_000)))
    buffer = weakref.ref(frame.buffers[0])
    assert buffer() is not None
    del frame
    assert buffer() is None


def test_a_reader_that_is_dropped_is_gone_at_once() -> None:
    """Each holds 64 KiB, and a manager makes one for each `Call`."""
    reader = weakref.ref(FrameReader())
    assert reader() is None


def test_header_over_the_limit_is_refused_before_it_is_read() -> None:
    with pytest.raises(TooLarge):
        FrameReader().feed(struct.pack(">I", MAX_HEADER_BYTES + 1))


def test_header_over_the_limit_is_not_sent() -> None:
    with pytest.raises(TooLarge):
        frame_parts({"text": "x" * MAX_HEADER_BYTES})


def test_buffers_over_the_limit_are_refused_before_memory_is_taken() -> None:
    with pytest.raises(TooLarge):
        FrameReader(max_buffers=100).feed(struct.pack(">I", 18) + b'{"buffers":[1000]}')


@pytest.mark.parametrize("sizes", ['"x"', "[-1]", "[1.5]", "[true]", "{}"])
def test_sizes_that_are_no_sizes_are_refused(sizes: str) -> None:
    head = b'{"buffers":' + sizes.encode() + b"}"
    with pytest.raises(BadFrame):
        FrameReader().feed(struct.pack(">I", len(head)) + head)


@pytest.mark.parametrize("head", [b"", b"[]", b"\xff", b"{"])
def test_header_that_is_no_object_is_refused(head: bytes) -> None:
    with pytest.raises(NotJson):
        FrameReader().feed(struct.pack(">I", len(head)) + head)


def test_header_that_is_not_json_is_not_sent() -> None:
    with pytest.raises(NotSendable):
        frame_parts({"x": object()})
