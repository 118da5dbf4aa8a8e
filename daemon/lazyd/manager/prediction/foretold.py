"""What a load will need, in the shape in which `Describe` tells it: by way of loading, and device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lazyd.core.needs import GPU, RAM, Forecast, Need


def shown(ways: Mapping[str, Forecast]) -> dict[str, Any]:
    """``{"gpu": {"source": "learned", "peakBytes": {"gpu": …, "ram": …}, "serviceBytes": {…}}, …}``.

    What was estimated from files tells the ``factor`` that it was corrected by, once one has been learned.
    """
    return {way: _forecast(forecast) for way, forecast in ways.items()}


def _forecast(forecast: Forecast) -> dict[str, Any]:
    told: dict[str, Any] = {"source": forecast.source, "peakBytes": _by_device(forecast.peak)}
    if forecast.factor is not None:
        told["factor"] = round(forecast.factor, 3)
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
