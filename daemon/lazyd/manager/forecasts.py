"""What is known of a model's needs, put together: for each way of loading the best that anybody says of it.

In this order: what was learned from loads of the same description and files; what its author has
declared; a dry run of its runtime; its files, times what loads of this runtime have taken more than that; a default.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from lazyd.core.events import Predicted
from lazyd.core.needs import GPU, RAM, Forecast, Layers, Need

from .lessons import Known

LEARNED, DECLARED, FILE_SIZE = "learned", "declared", "file size"
LEAST, MOST = 0.5, 4.0
"""A factor beyond these would say more of the estimate than of the loads."""


class Side(msgspec.Struct, frozen=True):
    """One way of loading, as runtimes tell it: bytes in RAM, and on each GPU."""

    ram: int
    gpu: tuple[int, ...] = ()

    @property
    def need(self) -> Need:
        return Need(ram_bytes=self.ram, gpu_bytes=self.gpu)


class Told(msgspec.Struct, frozen=True):
    """What a runtime tells of a model; see `lazyd.runtimes`."""

    source: str
    ram: Side | None = None
    gpu: Side | None = None
    layers: Layers | None = None
    files: dict[str, int] = {}

    @property
    def sides(self) -> dict[str, Side]:
        """By way, as far as these are possible."""
        return {way: side for way, side in ((RAM, self.ram), (GPU, self.gpu)) if side is not None}


def told(needs: Mapping[str, Any]) -> Told:
    """Raises `msgspec.ValidationError` for what no runtime should say."""
    return msgspec.convert(needs, Told)


def predicted(model: str, declared_bytes: int | None, by_files: Told, dry_run: Told | None, known: Known) -> Predicted:
    """The best of all."""
    best = dry_run or by_files
    ways: dict[str, Forecast] = {}
    for way, side in best.sides.items():
        if way not in known.ways:
            if declared_bytes is not None:
                ways[way] = Forecast(peak=_declared(declared_bytes, side, best.files), source=DECLARED)
            else:
                ways[way] = Forecast(peak=_scaled(side, best.source, known.factors), source=best.source)
    for way, learned in known.ways.items():
        service = learned.service and _at_most(learned.service, learned.peak)
        ways[way] = Forecast(peak=learned.peak, service=service, source=LEARNED)
    return Predicted(model=model, ways=ways, layers=best.layers, files=best.files)


def factors(way: str, measured: Need, by_files: Told) -> dict[str, float]:
    """How much more one load has taken than was estimated from its files, by kind of device."""
    side = by_files.sides.get(way)
    if side is None or by_files.source != FILE_SIZE:
        return {}
    if way == RAM:
        return {RAM: measured.ram_bytes / side.ram} if side.ram and measured.ram_bytes else {}
    estimated = sum(side.gpu)
    return {GPU: sum(measured.gpu_bytes) / estimated} if estimated and sum(measured.gpu_bytes) else {}


def _declared(declared_bytes: int, side: Side, files: Mapping[str, int]) -> Need:
    """It is all that the model takes of the device that it is on; files that it maps are booked apart."""
    if not side.gpu:
        return Need(ram_bytes=max(0, declared_bytes - sum(files.values())))
    return Need(ram_bytes=side.ram, gpu_bytes=(declared_bytes,))


def _scaled(side: Side, source: str, factors: Mapping[str, float]) -> Need:
    if source != FILE_SIZE:
        return side.need
    of_ram, of_gpu = (min(max(factors.get(device, 1.0), LEAST), MOST) for device in (RAM, GPU))
    if side.gpu:  # what a process has in RAM beside a GPU is little, and not what was measured
        return Need(ram_bytes=side.ram, gpu_bytes=tuple(int(n * of_gpu) for n in side.gpu))
    return Need(ram_bytes=int(side.ram * of_ram))


def _at_most(service: Need, peak: Need) -> Need:
    """A peak may have been learned without what comes after it, from a load that ran out of memory."""
    pairs = zip(service.gpu_bytes, peak.gpu_bytes, strict=False)
    return Need(ram_bytes=min(service.ram_bytes, peak.ram_bytes), gpu_bytes=tuple(min(pair) for pair in pairs))
