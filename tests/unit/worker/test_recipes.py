"""Arguments of warm-ups are made from recipes, with numpy and without it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy
import pytest

from lazyd.config.recipes import DTYPES
from lazyd.runtimes.texts import repeated
from lazyd.wire.values import Array
from lazyd.worker import recipes


def made(value: Any, call: int = 0) -> Any:
    return recipes.made(value, call, repeated)


@pytest.fixture
def without_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recipes, "_numpy", lambda: None)


def test_recipes_are_found_wherever_they_stand_and_all_else_stays() -> None:
    x = {"x": [{"shape": [2], "fill": "ones"}], "n": 3, "text": "as it is"}
    found = made(x)
    assert found["x"][0].tolist() == [1.0, 1.0]
    assert (found["n"], found["text"]) == (3, "as it is")


def test_several_shapes_are_taken_in_turn() -> None:
    recipe = {"shape": [[1, 2], [3]]}
    assert [made(recipe, call).shape for call in range(3)] == [(1, 2), (3,), (1, 2)]


@pytest.mark.parametrize("fill", ["zeros", "ones", 1, "random"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_dtype_can_be_filled_as_numpy_would(dtype: str, fill: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = {"shape": [2, 5], "dtype": dtype, "fill": fill}
    array = made(recipe)
    assert (array.dtype, array.shape) == (numpy.dtype(dtype), (2, 5))
    monkeypatch.setattr(recipes, "_numpy", lambda: None)
    plain = made(recipe)
    assert isinstance(plain, Array)
    assert numpy.dtype(plain.dtype) == array.dtype
    again = numpy.frombuffer(plain.data, plain.dtype).reshape(plain.shape)
    if fill != "random":
        assert (again == array).all()
    assert (abs(array) <= 127).all()
    assert (abs(again) <= 127).all()


def test_what_is_random_is_the_same_in_every_warm_up_and_another_in_every_call() -> None:
    recipe = {"shape": [50], "fill": "random"}
    assert (made(recipe) == made(recipe)).all()
    assert (made(recipe, 0) != made(recipe, 1)).any()
    first, second = made([recipe, recipe])
    assert (first != second).any()


@pytest.mark.usefixtures("without_numpy")
def test_so_it_is_without_numpy() -> None:
    recipe = {"shape": [50], "fill": "random"}
    assert made(recipe).data == made(recipe).data
    assert made(recipe, 0).data != made(recipe, 1).data


def test_files_are_arrays_texts_or_values(tmp_path: Path) -> None:
    numpy.save(tmp_path / "a.npy", numpy.arange(3))
    (tmp_path / "a.txt").write_text("grüß\n")
    (tmp_path / "a.json").write_text(json.dumps({"shape": [1]}))
    assert made({"file": str(tmp_path / "a.npy")}).tolist() == [0, 1, 2]
    assert made({"file": str(tmp_path / "a.txt")}) == "grüß\n"
    assert made({"file": str(tmp_path / "a.json")}) == {"shape": [1]}


@pytest.mark.usefixtures("without_numpy")
def test_a_file_of_numpys_needs_numpy(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no numpy"):
        made({"file": str(tmp_path / "a.npy")})


def test_an_array_that_was_pickled_is_not_read(tmp_path: Path) -> None:
    numpy.save(tmp_path / "a.npy", numpy.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match="allow_pickle"):
        made({"file": str(tmp_path / "a.npy")})


def test_a_text_repeats_its_words() -> None:
    assert made({"tokens": 5, "text": "one two"}) == "one two one two one"
