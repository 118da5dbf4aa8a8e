"""A model goes where it is booked, and options that say otherwise are told so."""

from __future__ import annotations

from typing import Any

import pytest

from lazyd.runtimes.llama_cpp_options import placed

GPU = {"on": "gpu"}
OVER_TWO = {"on": "gpu", "layers": [20, 13]}
PARTLY = {"on": "gpu", "layers": [20], "of": 33}
PARTLY_ON_TWO = {"on": "gpu", "layers": [12, 8], "of": 33}


@pytest.mark.parametrize(
    ("placement", "given"),
    [
        ({"on": "ram"}, {"n_gpu_layers": 0}),
        (GPU, {"n_gpu_layers": -1}),
        (OVER_TWO, {"n_gpu_layers": -1, "tensor_split": [20.0, 13.0]}),
        (PARTLY, {"n_gpu_layers": 20}),
        (PARTLY_ON_TWO, {"n_gpu_layers": 20, "tensor_split": [12.0, 8.0]}),
    ],
)
def test_the_library_is_told_where_the_layers_go(placement: dict[str, Any], given: dict[str, Any]) -> None:
    assert placed({"n_ctx": 5}, placement) == {"n_ctx": 5, **given}


def test_without_a_placement_options_are_as_given() -> None:
    assert placed({"n_gpu_layers": 7}, None) == {"n_gpu_layers": 7}


@pytest.mark.parametrize(
    ("options", "placement", "layers"),
    [
        ({"n_gpu_layers": 20}, GPU, 20),  # booked as it was asked for
        ({"n_gpu_layers": 20}, PARTLY, 20),
        ({"n_gpu_layers": -1}, PARTLY, 20),
        ({"n_gpu_layers": 99}, PARTLY, 20),  # all that there is room for
        ({"n_gpu_layers": 99}, OVER_TWO, -1),
        ({"n_gpu_layers": 20, "tensor_split": [1.0, 1.0]}, {"on": "ram"}, 0),
        ({"n_gpu_layers": 20, "main_gpu": 0}, GPU, 20),
    ],
)
def test_options_that_fit_the_booking_are_kept(options: dict[str, Any], placement: dict[str, Any], layers: int) -> None:
    assert placed(options, placement)["n_gpu_layers"] == layers


@pytest.mark.parametrize(
    ("options", "placement", "reason"),
    [
        ({"n_gpu_layers": 30}, PARTLY, "n_gpu_layers = 30 does not fit: room for 20 of 33 layers is booked"),
        ({"n_gpu_layers": 20}, OVER_TWO, "room for 33 of 33 layers is booked"),
        ({"tensor_split": [1.0, 1.0]}, OVER_TWO, "tensor_split and split_mode do not fit"),
        ({"split_mode": 2}, PARTLY, "leave them out"),
        ({"main_gpu": 1}, GPU, 'main_gpu = 1 does not fit: .*; say device = "gpu1"'),
    ],
)
def test_an_option_that_contradicts_the_booking_fails_the_load(
    options: dict[str, Any], placement: dict[str, Any], reason: str
) -> None:
    with pytest.raises(ValueError, match=reason):
        placed(options, placement)
