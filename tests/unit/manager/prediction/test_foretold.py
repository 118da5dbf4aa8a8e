"""What a load will need, as `Describe` tells it."""

from __future__ import annotations

from lazyd.core.needs import Forecast, Need
from lazyd.manager.prediction.foretold import shown


def test_each_way_tells_its_source_and_what_it_needs_of_each_device() -> None:
    ways = {
        "ram": Forecast(peak=Need(ram_bytes=5)),
        "gpu 3/4": Forecast(peak=Need(ram_bytes=5), factor=4 / 3),
        "gpu": Forecast(
            peak=Need(ram_bytes=1, gpu_bytes=(4,)), service=Need(ram_bytes=1, gpu_bytes=(3,)), source="learned"
        ),
        "gpu 20+12": Forecast(peak=Need(ram_bytes=1, gpu_bytes=(3, 2)), source="dry run"),
    }
    assert shown(ways) == {
        "ram": {"source": "file size", "peakBytes": {"ram": 5}},
        "gpu 3/4": {"source": "file size", "peakBytes": {"ram": 5}, "factor": 1.333},
        "gpu": {"source": "learned", "peakBytes": {"gpu": 4, "ram": 1}, "serviceBytes": {"gpu": 3, "ram": 1}},
        "gpu 20+12": {"source": "dry run", "peakBytes": {"gpu 1": 3, "gpu 2": 2, "ram": 1}},
    }


def test_a_file_that_is_mapped_is_told_of_the_ways_that_map_it() -> None:
    ways = {"ram": Forecast(peak=Need(ram_bytes=5)), "gpu 3/4": Forecast(peak=Need(ram_bytes=5))}
    told = shown({**ways, "gpu": Forecast(peak=Need(gpu_bytes=(4,)))}, {"1:2": 3, "1:3": 4})
    assert {way: of.get("fileBytes") for way, of in told.items()} == {"ram": 7, "gpu 3/4": 7, "gpu": None}
