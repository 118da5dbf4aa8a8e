"""Arrays are lists of numbers for people, with numpy and without."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from lazyctl.answers import for_people
from lazyd.wire.values import Array


@pytest.mark.parametrize(
    ("shape", "numbers", "shown"),
    [
        ((1, 1), [0.1], [[0.1]]),
        ((2, 3), [1, 2, 3, 4, 5, 6], [[1, 2, 3], [4, 5, 6]]),
        ((1, 2, 1), [0.5, 1 / 3], [[[0.5], [0.333333]]]),
        ((), [7], 7),
        ((0,), [], []),
        ((2, 0), [], []),
    ],
)
def test_a_small_array_is_lists_of_numbers(shape: tuple[int, ...], numbers: list[float], shown: Any) -> None:
    array = Array(struct.pack(f"<{len(numbers)}f", *numbers), "<f4", shape)
    assert for_people({"y": [array]}) == {"y": [shown]}


def test_a_large_array_and_one_of_an_unknown_type_say_what_they_are() -> None:
    large = Array(bytes(4 * 65), "<f4", (5, 13))
    assert for_people([large, "text", 1]) == ["<f4[5,13]: 260 B, which --json or a pipe has whole", "text", 1]
    assert for_people(Array(b"\0\0", "<f2", (1,))).startswith("<f2[1]: 2 B")


def test_with_numpy_it_is_the_same() -> None:
    numpy = pytest.importorskip("numpy", reason="numpy is not installed")
    assert for_people(numpy.array([[0.1]], "f4")) == [[0.1]]
    assert for_people((numpy.array(["a"]), numpy.float32(0.1), numpy.zeros((3, 0)))) == [["a"], 0.1, [[], [], []]]
    assert for_people(numpy.zeros((5, 13), "f4")) == "float32[5,13]: 260 B, which --json or a pipe has whole"


def test_what_json_cannot_say_stays_marked() -> None:
    assert for_people({"a": float("nan"), "b": b"x"}) == {"a": {"$float": "nan"}, "b": {"$bytes": "eA=="}}
