"""Which of the things that are said of a model's needs counts."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from lazyd.core.needs import Forecast, Layers, Need
from lazyd.manager.prediction import forecasts
from lazyd.manager.prediction.forecasts import Side, Told
from lazyd.manager.prediction.lessons import Known, Peak

LAYERS = Layers(gpu_layer_bytes=(10, 10, 5), ram_layer_bytes=(1, 1, 0), gpu_bytes=50, ram_bytes=7)
BY_FILES = Told("file size", ram=Side(100), gpu=Side(20, (500,)), layers=LAYERS, files={"1:2": 40})
DRY_RUN = Told("dry run", ram=Side(110), gpu=Side(25, (550,)), layers=LAYERS, files={"1:2": 40})


NOTHING = Known()


def ways(
    known: Known = NOTHING, *, declared: int | None = None, by_files: Told = BY_FILES, dry_run: Told | None = None
) -> dict[str, Forecast]:
    return forecasts.predicted("m", declared, by_files, dry_run, known).ways


def test_files_are_the_last_resort() -> None:
    assert ways() == {
        "ram": Forecast(peak=Need(100), source="file size"),
        "gpu": Forecast(peak=Need(20, (500,)), source="file size"),
    }


def test_a_dry_run_goes_before_files() -> None:
    found = forecasts.predicted("m", None, BY_FILES, DRY_RUN, Known(factors={"ram": 2.0}))
    assert found.ways["ram"] == Forecast(peak=Need(110), source="dry run")
    assert (found.layers, found.files) == (LAYERS, {"1:2": 40})


def test_a_declared_peak_goes_before_a_dry_run() -> None:
    found = ways(declared=1000, dry_run=DRY_RUN)
    assert found["ram"] == Forecast(peak=Need(1000 - 40), source="declared")  # the file's pages are booked apart
    assert found["gpu"] == Forecast(peak=Need(25, (1000,)), source="declared")


def test_a_declared_peak_may_be_smaller_than_the_file() -> None:
    assert ways(declared=30)["ram"].peak == Need(0)


def test_a_learned_peak_goes_before_everything_for_its_way_alone() -> None:
    known = Known(ways={"ram": Peak(Need(300), Need(250))})
    found = ways(known, declared=1000, dry_run=DRY_RUN)
    assert found["ram"] == Forecast(peak=Need(300), service=Need(250), source="learned")
    assert found["gpu"].source == "declared"


def test_divisions_that_were_learned_are_told() -> None:
    known = Known(ways={"gpu 2/3": Peak(Need(9, (70,)))})
    assert ways(known)["gpu 2/3"] == Forecast(peak=Need(9, (70,)), source="learned")


def test_what_is_needed_in_service_is_never_more_than_the_peak() -> None:
    known = Known(ways={"gpu": Peak(Need(10, (70,)), Need(20, (80,)))})
    assert ways(known)["gpu"].service == Need(10, (70,))


@pytest.mark.parametrize(("factor", "applied"), [(1.5, 1.5), (0.1, 0.5), (9.0, 4.0)])
def test_what_loads_of_a_runtime_have_taken_corrects_its_estimates_within_bounds(factor: float, applied: float) -> None:
    found = ways(Known(factors={"ram": factor, "gpu": factor}))
    assert found["ram"] == Forecast(peak=Need(int(100 * applied)), source="file size", factor=applied)
    assert found["gpu"] == Forecast(peak=Need(20, (int(500 * applied),)), source="file size", factor=applied)


def test_a_kind_of_device_of_which_nothing_was_learned_is_not_corrected() -> None:
    found = ways(Known(factors={"ram": 2.0}))
    assert (found["ram"].factor, found["gpu"].factor) == (2.0, None)
    assert found["gpu"].peak == Need(20, (500,))


SAYS_MORE = Known(ways={"gpu": Peak(Need(20, (750,)))})


@pytest.mark.parametrize(
    ("known", "declared", "dry_run", "on_gpu", "in_ram"),
    [
        (NOTHING, None, None, 1, 1),
        (NOTHING, None, DRY_RUN, 1, 1),
        (NOTHING, 1000, None, 2, (1000 - 40) / 100),
        (Known(factors={"gpu": 1.5}), None, None, 1.5, 1),
        (Known(factors={"ram": 3.0}), None, None, 1, 3),
        (Known(factors={"gpu": 1.5, "ram": 3.0}), None, DRY_RUN, 1, 1),
        (SAYS_MORE, 1000, None, 1.5, (1000 - 40) / 100),
        (Known(ways={"gpu": Peak(Need(20, (5000,)))}), None, None, 4, 1),
    ],
    ids=["nothing", "a dry run", "declared", "gpu", "ram", "not of a dry run", "learned", "within bounds"],
)
def test_a_division_takes_as_much_more_as_the_whole_does(
    known: Known, declared: int | None, dry_run: Told | None, on_gpu: float, in_ram: float
) -> None:
    found = forecasts.predicted("m", declared, BY_FILES, dry_run, known).layers
    assert found == Layers(
        gpu_layer_bytes=tuple(int(n * on_gpu) for n in (10, 10, 5)),
        ram_layer_bytes=tuple(int(n * in_ram) for n in (1, 1, 0)),
        gpu_bytes=int(50 * on_gpu),
        ram_bytes=7,
    )


def test_layers_of_what_was_told_to_take_nothing_stay_as_they_are() -> None:
    nothing = msgspec.structs.replace(BY_FILES, ram=None, gpu=Side(20, (0,)))
    assert forecasts.predicted("m", 1000, nothing, None, NOTHING).layers == LAYERS


def test_a_default_is_not_corrected() -> None:
    found = ways(Known(factors={"ram": 3.0}), by_files=Told("default", ram=Side(256)))
    assert found == {"ram": Forecast(peak=Need(256), source="default")}


@pytest.mark.parametrize(
    ("way", "measured", "factors"),
    [
        ("ram", Need(150), {"ram": 1.5}),
        ("gpu", Need(999, (250,)), {"gpu": 0.5}),
        ("gpu 2/3", Need(1, (70,)), {}),
        ("ram", Need(0), {}),
        ("gpu", Need(5, (0,)), {}),
        ("ram", Need(100_000), {"ram": 4.0}),  # it leaked
        ("gpu", Need(5, (1,)), {"gpu": 0.5}),
    ],
)
def test_a_factor_is_what_was_measured_over_what_was_estimated(
    way: str, measured: Need, factors: dict[str, float]
) -> None:
    assert forecasts.factors(way, measured, BY_FILES) == factors


def test_a_default_teaches_no_factor() -> None:
    assert forecasts.factors("ram", Need(1000), Told("default", ram=Side(256))) == {}


def test_what_runtimes_tell_is_checked() -> None:
    side: dict[str, Any] = {"ram": 5, "gpu": [7]}
    fields = msgspec.to_builtins(LAYERS)
    told = {"ram": None, "gpu": side, "layers": fields, "files": {}, "source": "dry run"}
    assert forecasts.told(told) == Told("dry run", gpu=Side(5, (7,)), layers=LAYERS)
    with pytest.raises(msgspec.ValidationError):
        forecasts.told({**told, "ram": {"ram": "much"}})


@pytest.mark.parametrize(
    "nonsense",
    [
        {"gpu": {"ram": 5}},
        {"gpu": {"ram": 5, "gpu": [1, 2]}},
        {"ram": {"ram": 5, "gpu": [1]}},
        {"ram": {"ram": -5}},
        {"ram": {"ram": 1 << 51}},
        {"files": {"1:2": -1}},
        {"layers": {"gpu_layer_bytes": [], "ram_layer_bytes": [], "gpu_bytes": 1, "ram_bytes": 1}},
        {"layers": {"gpu_layer_bytes": [1, 2], "ram_layer_bytes": [1], "gpu_bytes": 1, "ram_bytes": 1}},
        {"layers": {"gpu_layer_bytes": [-1], "ram_layer_bytes": [1], "gpu_bytes": 1, "ram_bytes": 1}},
    ],
)
def test_what_no_load_can_need_is_not_understood(nonsense: dict[str, Any]) -> None:
    told = {"ram": {"ram": 5}, "source": "dry run"}
    assert forecasts.told(told).ram == Side(5)
    with pytest.raises(msgspec.ValidationError):
        forecasts.told({**told, **nonsense})
