"""What a load will need, in the shape in which `Describe` tells it: by way of loading, and device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lazyd.core.needs import GPU, RAM, Forecast, Need, maps_files


def shown(ways: Mapping[str, Forecast], files: Mapping[str, int] | None = None) -> dict[str, Any]:
    """``{"gpu": {"source": "learned", "peakBytes": {"gpu": …, "ram": …}, "serviceBytes": {…}}, …}``.

    What was estimated from files tells the ``factor`` that it was corrected by, once one has been learned.
    The bytes are without the `files` that it maps (their sizes), which are booked once for all who do: where it maps
    them ``fileBytes`` tells how much that is.
    """
    mapped = sum((files or {}).values())
    return {way: _forecast(forecast, mapped if maps_files(way) else 0) for way, forecast in ways.items()}


def _forecast(forecast: Forecast, file_bytes: int) -> dict[str, Any]:
    told: dict[str, Any] = {"source": forecast.source, "peakBytes": _by_device(forecast.peak)}
    if forecast.factor is not None:
        told["factor"] = round(forecast.factor, 3)
    if file_bytes:
        told["fileBytes"] = file_bytes
    if forecast.service is not None:
        told["serviceBytes"] = _by_device(forecast.service)
    return told


def _by_device(need: Need) -> dict[str, int]:
    """Of several GPUs each has a number, in the order of the way's name."""
    if len(need.gpu_bytes) == 1:
        gpus = {GPU: need.gpu_bytes[0]}
    else:
        gpus = {f"{GPU} {number}": count for number, count in enumerate(need.gpu_bytes, 1)}
    return {**gpus, RAM: need.ram_bytes}
