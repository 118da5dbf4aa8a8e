from __future__ import annotations

import enum
import gc
import json
import math
import sys
import weakref
from typing import Any, NamedTuple

import numpy
import pytest

from lazyd.errors import BadFrame, NotSendable
from lazyd.wire.values import Array, from_json, pack, to_base64, to_buffers, to_json, unpack


def through_data_socket(value: Any) -> Any:
    head, buffers = pack(value)
    return unpack(json.loads(json.dumps(head, allow_nan=False)), [bytearray(data) for data in buffers])


def through_control_socket(value: Any) -> Any:
    return from_json(json.loads(json.dumps(to_json(value), allow_nan=False)))


both = pytest.mark.parametrize("through", [through_data_socket, through_control_socket])


class Colour(str, enum.Enum):  # noqa: UP042  runs on 3.9 too
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


class Point(NamedTuple):
    x: float
    y: float


@both
@pytest.mark.parametrize(
    ("sent", "arrives"),
    [
        (None, None),
        (True, True),
        (0, 0),
        (2**80, 2**80),
        (0.1, 0.1),
        (math.inf, math.inf),
        (-math.inf, -math.inf),
        ("深 \0", "深 \0"),
        (b"", b""),
        (bytes(range(256)), bytes(range(256))),
        (bytearray(b"ab"), b"ab"),
        (memoryview(b"abcd")[::2], b"ac"),
        ((1, (2,)), [1, [2]]),
        ({"a": [{"b": b"c"}]}, {"a": [{"b": b"c"}]}),
        ({1: "x", 0.5: "y"}, {"1": "x", "0.5": "y"}),
        (Colour.RED, "red"),
        ({Colour.RED: Level.HIGH}, {"red": 3}),
        (Point(1.0, math.inf), [1.0, math.inf]),
        (numpy.float32(0.5), 0.5),
        (numpy.int64(-7), -7),
        (numpy.bool_(True), True),
        (numpy.str_("x"), "x"),
        (numpy.float64(math.inf), math.inf),
    ],
)
def test_value_arrives(through: Any, sent: Any, arrives: Any) -> None:
    value = through(sent)
    assert value == arrives
    assert type(value) is type(arrives)


@both
def test_not_a_number_arrives(through: Any) -> None:
    assert math.isnan(through([math.nan])[0])


@both
@pytest.mark.parametrize("mark", ["$array", "$bytes", "$float", "$dict"])
def test_a_dict_that_looks_like_a_marked_value_arrives_as_it_was(through: Any, mark: str) -> None:
    value = {mark: 0, "more": [b"x", {mark: {mark: "y"}}]}
    assert through(value) == value


@both
@pytest.mark.parametrize(
    "array",
    [
        numpy.arange(6, dtype="<f4").reshape(1, 2, 3),
        numpy.arange(6, dtype=">i2"),
        numpy.array(3.5),
        numpy.zeros((0, 4), "f8"),
        numpy.arange(12).reshape(3, 4)[:, ::2],
        numpy.asfortranarray(numpy.arange(12).reshape(3, 4)),
        numpy.array([True, False]),
        numpy.array([1 + 2j]),
        numpy.array(["ab", "深"]),
        numpy.array([b"ab", b"c"]),
        numpy.array(["2024-01-01"], "datetime64[ns]"),
        numpy.array([1, 2], "f2"),
    ],
    ids=lambda array: f"{array.dtype.str}{array.shape}",
)
def test_array_arrives_with_its_type_and_shape(through: Any, array: Any) -> None:
    arrived = through({"x": array})["x"]
    assert arrived.dtype == array.dtype
    assert arrived.shape == array.shape
    assert (arrived == array).all()


def test_a_complex_number_of_numpy_arrives_as_an_array_without_dimensions() -> None:
    assert through_data_socket(numpy.complex64(1 + 2j)) == numpy.complex64(1 + 2j)


def test_packing_an_array_refers_to_its_memory() -> None:
    array = numpy.zeros((2, 3), "f4")
    _, (data,) = pack(array)
    assert isinstance(data, memoryview)
    data[0:4] = numpy.float32(7).tobytes()
    assert array[0, 0] == 7


def test_packing_bytes_refers_to_them() -> None:
    data = b"x" * 1000
    assert pack([data])[1][0] is data


@pytest.mark.parametrize(
    "convert",
    [
        lambda data: pack({"a": [memoryview(data)]}),
        lambda data: to_json({"a": [memoryview(data)]}),
        lambda data: unpack({"a": [{"$bytes": 0}]}, [data]),
        lambda data: to_base64({"a": [{"$bytes": 0}]}, [data]),
    ],
    ids=["pack", "to_json", "unpack", "to_base64"],
)
def test_what_was_converted_is_not_held_until_a_collection(convert: Any) -> None:
    """A model's results are gigabytes, and so few objects that no collection comes for a long time."""

    class Data(bytearray):
        pass

    data = Data(b"x" * 8)
    held = weakref.ref(data)
    gc.disable()
    try:
        convert(data)
        del data
        assert held() is None
    finally:
        gc.enable()


def test_unpacked_array_is_a_writable_view_of_its_buffer() -> None:
    buffer = bytearray(8)
    array = unpack({"$array": 0, "dtype": "<f4", "shape": [2]}, [buffer])
    array[1] = 1.0
    assert buffer[4:] == numpy.float32(1).tobytes()


@pytest.mark.parametrize(
    "value",
    [
        object(),
        {1, 2},
        1j,
        {(1, 2): 3},
        {True: 1},
        numpy.array([object()]),
        numpy.zeros(2, "i4,f4"),
        {"a": {"b": print}},
    ],
    ids=["object", "set", "complex", "tuple as key", "bool as key", "array of objects", "array of records", "function"],
)
def test_what_cannot_be_sent_is_named(value: Any) -> None:
    with pytest.raises(NotSendable):
        pack(value)
    with pytest.raises(NotSendable):
        to_json(value)


def test_a_value_that_contains_itself_cannot_be_sent() -> None:
    value: list[Any] = []
    value.append(value)
    with pytest.raises(NotSendable, match="contains itself"):
        pack(value)


@pytest.mark.parametrize(
    "value",
    [
        {"$bytes": 2},
        {"$bytes": -1},
        {"$bytes": True},
        {"$bytes": "AA=="},
        {"$array": 0, "dtype": "<f4", "shape": [3]},
        {"$array": 0, "dtype": "<f4", "shape": [-1]},
        {"$array": 0, "dtype": "<f4", "shape": 2},
        {"$array": 0, "dtype": "O", "shape": [1]},
        {"$array": 0, "dtype": "i4,f4", "shape": [1]},
        {"$array": 0, "dtype": "nonsense", "shape": [1]},
        {"$array": 0, "dtype": 4, "shape": [2]},
        {"$array": 1, "dtype": "S0", "shape": [5]},
        {"$array": 0},
        {"$float": "1"},
        {"$float": []},
        {"$dict": 3},
    ],
    ids=repr,
)
def test_malformed_values_are_refused(value: Any) -> None:
    with pytest.raises(BadFrame):
        unpack(value, [bytearray(8), bytearray()])


@pytest.mark.parametrize("text", ["x", 5, None, "é", "!!", "AA!A", "AAAA AAAA", "AAA"], ids=repr)
def test_bad_base64_is_refused(text: Any) -> None:
    with pytest.raises(BadFrame):
        from_json({"$bytes": text})


def test_the_two_forms_are_turned_into_each_other_without_making_arrays() -> None:
    value = [{"a": numpy.arange(3, dtype="<i4")}, b"xyz", {"$bytes": b"literal"}, math.inf, "text"]
    head, buffers = pack(value)
    assert to_base64(head, buffers) == to_json(value)
    again, buffers_again = to_buffers(to_json(value))
    assert again == head
    assert [bytes(data) for data in buffers_again] == [bytes(data) for data in buffers]


def test_a_missing_buffer_is_refused_when_turned_into_base64() -> None:
    with pytest.raises(BadFrame):
        to_base64({"$bytes": 0}, [])


def test_without_numpy_an_array_arrives_as_its_bytes_and_can_be_sent_on(monkeypatch: pytest.MonkeyPatch) -> None:
    head, buffers = pack(numpy.arange(3, dtype="<i4"))
    monkeypatch.setitem(sys.modules, "numpy", None)
    array = unpack(head, [bytearray(buffers[0])])
    assert isinstance(array, Array)
    assert (array.dtype, array.shape) == ("<i4", (3,))
    assert pack(array) == (head, [buffers[0]])


def test_deep_nesting_from_outside_is_refused() -> None:
    value: Any = 1
    for _ in range(sys.getrecursionlimit()):
        value = [value]
    with pytest.raises(BadFrame):
        unpack(value, [])
    with pytest.raises(BadFrame):
        to_buffers(value)
