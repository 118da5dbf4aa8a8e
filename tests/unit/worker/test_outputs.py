"""What an output of a warm-up has to be."""

from __future__ import annotations

import math
import struct
from typing import Any

import numpy
import pytest

from lazyd.wire.values import Array
from lazyd.worker.outputs import problem

NAN = math.nan


def packed(*numbers: float) -> Array:
    return Array(struct.pack(f"<{len(numbers)}f", *numbers), "<f4", [len(numbers)])


@pytest.mark.parametrize(
    "output",
    [
        numpy.array([1.0, NAN]),
        numpy.array([1.0, math.inf], "float16"),
        numpy.array([1j * math.inf]),
        packed(1.0, NAN),
        [1.0, [2.0, NAN]],
        {"a": [1.0], "b": numpy.array([NAN])},
        (0.0, -math.inf),
        NAN,
    ],
)
def test_a_number_that_is_none_is_found_anywhere(output: Any) -> None:
    assert problem({"finite": True}, output) == "is not finite"
    assert problem({}, output) is None


@pytest.mark.parametrize("output", [numpy.ones(3), packed(1.0), [1, 2.5], {"a": "text"}, "nan", b"x", None, True])
def test_all_else_is_finite(output: Any) -> None:
    assert problem({"finite": True}, output) is None


@pytest.mark.parametrize(
    "output", [None, "", " \n", b"", [], {}, numpy.zeros((0, 3)), {"a": 1, "b": ""}, ["", ""], Array(b"", "<f4", [0])]
)
def test_nothing_is_empty(output: Any) -> None:
    assert problem({"not_empty": True}, output) == "is empty"


@pytest.mark.parametrize("output", ["x", [0.0], numpy.zeros(1), {"a": [1]}, ["", "x"], 0, False, packed(1.0)])
def test_something_is_not_empty(output: Any) -> None:
    assert problem({"not_empty": True}, output) is None


@pytest.mark.parametrize(
    "output", [numpy.zeros((2, 3)), {"y": numpy.zeros((2, 3))}, [[1, 2, 3], [4, 5, 6]], [numpy.zeros((2, 3))]]
)
def test_the_shape_of_every_array_counts(output: Any) -> None:
    assert problem({"shape": [2, 3]}, output) is None
    assert problem({"shape": [-1, 3]}, output) is None
    assert problem({"shape": [3, 2]}, output) == "has the shape [2, 3], not [3, 2]"
    assert problem({"shape": [2]}, output) == "has the shape [2, 3], not [2]"


def test_what_is_no_array_has_no_shape() -> None:
    assert problem({"shape": [2]}, "text") == "is a str, not an array of shape [2]"


@pytest.mark.parametrize("output", ["Paris!", ["Pa", "ris"], {"text": "in Paris"}, b"Paris", {"a": [{"b": "Paris"}]}])
def test_a_text_is_looked_for_anywhere_in_the_output(output: Any) -> None:
    assert problem({"contains": "Paris"}, output) is None
    assert problem({"contains": "London"}, output) == "does not contain 'London'"
