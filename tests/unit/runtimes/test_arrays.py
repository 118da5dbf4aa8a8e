"""What a model takes and gives as named arrays: what is accepted, and how what is wrong is told."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy
import pytest

from lazyd.runtimes.arrays import Port, described, fit, fitted, signature

IMAGE = Port("x", "float32", ("N", 3, None))
RATE = Port("sr", "int64", ())
BOTH = [IMAGE, RATE]


def test_a_signature_is_one_line() -> None:
    assert signature(BOTH) == "x: float32[N,3,?], sr: int64[]"
    assert (
        signature([Port("free"), Port("some", None, (2,)), Port("any", "bool")]) == "free, some: any[2], any: bool[…]"
    )
    assert signature([]) == "nothing"


def test_ports_are_described_as_plain_data() -> None:
    assert described([IMAGE, Port("free")]) == [
        {"name": "x", "dtype": "float32", "shape": ["N", 3, None]},
        {"name": "free", "dtype": None, "shape": None},
    ]


def test_an_array_that_fits_is_passed_on_as_it_is() -> None:
    image = numpy.zeros((2, 3, 5), numpy.float32)
    arrays = fitted({"sr": numpy.array(8000), "x": image}, BOTH)
    assert list(arrays) == ["x", "sr"]
    assert arrays["x"] is image or arrays["x"].base is image


@pytest.mark.parametrize(
    "image",
    [
        numpy.arange(6, dtype=">f4").reshape(1, 3, 2),
        numpy.arange(6, dtype="f4").reshape(1, 3, 2).copy("F"),
        numpy.arange(12, dtype="f4").reshape(1, 3, 4)[:, :, ::2],
    ],
    ids=["other byte order", "other order", "with gaps"],
)
def test_only_the_order_in_memory_is_changed(image: Any) -> None:
    array = fit(image, IMAGE)
    assert array.dtype.isnative
    assert array.flags.c_contiguous
    assert numpy.array_equal(array, image)


@pytest.mark.parametrize(
    ("value", "dtype", "made"),
    [
        (16000, "int64", 16000),
        ([1, 2], "uint8", [1, 2]),
        ([1, 2], "float32", [1.0, 2.0]),
        ([1, 2.5], "float16", [1.0, 2.5]),
        ([0.1], "float32", [numpy.float32(0.1)]),
        ([[True], [False]], "bool", [[True], [False]]),
        ([], "int64", []),
        (float("nan"), "float32", float("nan")),
        (["a", "longer"], "str", ["a", "longer"]),
        (b"\xc3\xa9", "str", "é"),
        (1.5, "complex64", 1.5),
        (2**63, "uint64", 2**63),
    ],
)
def test_plain_values_become_what_the_model_takes(value: Any, dtype: str, made: Any) -> None:
    array = fit(value, Port("v", dtype))
    assert array.dtype.name == dtype or array.dtype.kind == "U"
    assert numpy.array_equal(array, numpy.array(made), equal_nan=dtype.startswith("float"))


@pytest.mark.parametrize(
    ("value", "dtype", "wrong"),
    [
        (1.0, "int64", "'v' holds numbers with a point, not int64[…]"),
        ([True], "int64", "'v' holds truth values, not int64[…]"),
        (300, "uint8", "'v' has numbers that uint8 does not hold"),
        (-1, "uint64", "'v' has numbers that uint64 does not hold"),
        (2**63, "int64", "'v' has numbers that int64 does not hold"),
        (2**24 + 1, "float32", "'v' has numbers that float32 does not hold"),
        (1e300, "float32", "'v' has numbers that float32 does not hold"),
        (2**70, "int64", "'v' is an int that is no array of numbers or texts, not int64[…]"),
        ([[1], [1, 2]], "int64", "'v' is a list that is no array of numbers or texts, not int64[…]"),
        ({"a": 1}, "int64", "'v' is a dict that is no array of numbers or texts, not int64[…]"),
        (None, "int64", "'v' is a NoneType that is no array of numbers or texts, not int64[…]"),
        ("one", "int64", "'v' holds texts, not int64[…]"),
        (1, "str", "'v' holds whole numbers, not str[…]"),
        ([b"\xff"], "str", "'v' has bytes that are not UTF-8"),
        (1.5, "bfloat16", "'v' takes bfloat16, which numpy does not have"),
    ],
)
def test_plain_values_that_would_lose_something_are_refused(value: Any, dtype: str, wrong: str) -> None:
    with pytest.raises(ValueError) as caught:
        fit(value, Port("v", dtype))
    assert str(caught.value) == wrong


def test_an_array_of_another_type_is_not_converted_but_told_how_to_be() -> None:
    with pytest.raises(ValueError) as caught:
        fitted({"x": numpy.zeros((1, 3, 8)), "sr": 1}, BOTH)
    assert str(caught.value) == (
        "'x' is float64[1,3,8], not float32[N,3,?]; convert it, as by .astype('float32'); "
        "expected x: float32[N,3,?], sr: int64[]"
    )


@pytest.mark.parametrize("shape", [(1, 4, 8), (3, 8), (1, 1, 3, 8), ()])
def test_a_shape_that_does_not_fit_is_told(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"^'x' is float32\[[\d,]*\], not float32\[N,3,\?\]$"):
        fit(numpy.zeros(shape, numpy.float32), IMAGE)


def test_all_that_is_wrong_is_told_at_once() -> None:
    with pytest.raises(ValueError) as caught:
        fitted({"sR": 1, "x": None}, BOTH)
    assert str(caught.value) == (
        "'sR' is no input, did you mean 'sr'?; 'sr' is missing; "
        "'x' is a NoneType that is no array of numbers or texts, not float32[N,3,?]; "
        "expected x: float32[N,3,?], sr: int64[]"
    )


def test_what_is_expected_is_said_once() -> None:
    with pytest.raises(ValueError) as caught:
        fitted({"x": numpy.zeros((1, 3, 8, 8))}, [Port("x", "float32", ("N", 3, "H", "W"))])
    assert str(caught.value) == "'x' is float64[1,3,8,8], not float32[N,3,H,W]; convert it, as by .astype('float32')"


@pytest.mark.parametrize(
    ("dimension", "shown"),
    [("N", "N"), ("batch_size", "batch_size"), ("p2o.DynamicDimension.0", "?"), ("a" * 13, "?"), (None, "?"), (3, "3")],
)
def test_names_of_dimensions_are_shown_where_they_say_something(dimension: int | str | None, shown: str) -> None:
    assert str(Port("x", "float32", (dimension, 3))) == f"x: float32[{shown},3]"


def test_inputs_without_names_are_told_what_is_expected() -> None:
    with pytest.raises(ValueError, match=r"given by name, not as a list; expected x: float32\[N,3,\?\], sr: int64\[\]"):
        fitted([1, 2], BOTH)  # type: ignore[arg-type]


def test_what_is_not_known_of_a_port_is_not_checked() -> None:
    assert fit([[1.5, 2]], Port("v")).dtype == numpy.float64
    assert fit(numpy.zeros((2, 2), numpy.int8), Port("v", None, (None, 2))).dtype == numpy.int8


def test_describing_arrays_imports_no_numpy() -> None:
    program = "import sys; from lazyd.runtimes import arrays; print('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout == b"False\n"
