"""What is known of a model's needs, put together: for each way of loading the best that anybody says of it.

In this order: what was learned from loads of the same description and files; what its author has
declared; a dry run of its runtime; its files, times what loads of this runtime have taken more than that; a default.
A division that was never loaded is expected to take as much more or less than its runtime tells as the whole model is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from lazyd.core.events import Predicted
from lazyd.core.needs import GPU, MOST_BYTES, RAM, Forecast, Layers, Need, gpus_of

from .lessons import Known

LEARNED, DECLARED, FILE_SIZE = "learned", "declared", "file size"
LEAST, MOST = 0.5, 4.0
"""A factor beyond these would say more of the estimate than of the loads."""


Bytes = Annotated[int, msgspec.Meta(ge=0, le=MOST_BYTES)]


class Side(msgspec.Struct, frozen=True):
    """One way of loading, as runtimes tell it: bytes in RAM, and on each GPU."""

    ram: Bytes
    gpu: tuple[Bytes, ...] = ()

    @property
    def need(self) -> Need:
        return Need(ram_bytes=self.ram, gpu_bytes=self.gpu)


class Told(msgspec.Struct, frozen=True):
    """What a runtime tells of a model; see `lazyd.runtimes`."""

    source: str
    ram: Side | None = None
    gpu: Side | None = None
    layers: Layers | None = None
    files: dict[str, Bytes] = {}

    def __post_init__(self) -> None:
        for way, side in self.sides.items():
            if len(side.gpu) != gpus_of(way):
                raise ValueError(f"what is told of {way} is of {len(side.gpu)} GPUs")
        if self.layers is not None and not _make_sense(self.layers):
            raise ValueError("the layers that are told make no sense")

    @property
    def sides(self) -> dict[str, Side]:
        """By way, as far as these are possible."""
        return {way: side for way, side in ((RAM, self.ram), (GPU, self.gpu)) if side is not None}


def _make_sense(layers: Layers) -> bool:
    """There are some, each with its bytes wherever it may be."""
    on, stay = layers.gpu_layer_bytes, layers.ram_layer_bytes
    sizes = (layers.gpu_bytes, layers.ram_bytes, *on, *stay)
    return bool(on) and len(on) == len(stay) and all(0 <= n <= MOST_BYTES for n in sizes)


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
                ways[way] = _estimated(side, best.source, known.factors)
    for way, learned in known.ways.items():
        service = learned.service and _at_most(learned.service, learned.peak)
        ways[way] = Forecast(peak=learned.peak, service=service, source=LEARNED)
    layers = None if best.layers is None else _corrected(best.layers, *(_ratio(way, best, ways) for way in (GPU, RAM)))
    return Predicted(model=model, ways=ways, layers=layers, files=best.files)


def factors(way: str, measured: Need, by_files: Told) -> dict[str, float]:
    """How much more one load has taken than was estimated from its files, by kind of device. None counts for
    more than could be made use of, or one that leaked would be remembered for many lives."""
    side = by_files.sides.get(way)
    if side is None or by_files.source != FILE_SIZE:
        return {}
    if way == RAM:
        return {RAM: bounded(measured.ram_bytes / side.ram)} if side.ram and measured.ram_bytes else {}
    estimated = sum(side.gpu)
    return {GPU: bounded(sum(measured.gpu_bytes) / estimated)} if estimated and sum(measured.gpu_bytes) else {}


def bounded(factor: float) -> float:
    """One that may be made use of."""
    return min(max(factor, LEAST), MOST)


def _declared(declared_bytes: int, side: Side, files: Mapping[str, int]) -> Need:
    """It is all that the model takes of the device that it is on; files that it maps are booked apart."""
    if not side.gpu:
        return Need(ram_bytes=max(0, declared_bytes - sum(files.values())))
    return Need(ram_bytes=side.ram, gpu_bytes=(declared_bytes,))


def _ratio(way: str, told: Told, ways: Mapping[str, Forecast]) -> float:
    """How much more is expected of the whole model than was told. Its author may say whatever he likes."""
    side = told.sides.get(way)
    if side is None or way not in ways:
        return 1.0
    before, now = ((need.gpu_bytes[0] if way == GPU else need.ram_bytes) for need in (side.need, ways[way].peak))
    ratio = now / before if before else 1.0
    return ratio if ways[way].source == DECLARED else bounded(ratio)


def _corrected(layers: Layers, on_gpu: float, in_ram: float) -> Layers:
    """What a process has in RAM however it is divided is little, and not what was measured."""
    return Layers(
        gpu_layer_bytes=tuple(int(n * on_gpu) for n in layers.gpu_layer_bytes),
        ram_layer_bytes=tuple(int(n * in_ram) for n in layers.ram_layer_bytes),
        gpu_bytes=int(layers.gpu_bytes * on_gpu),
        ram_bytes=layers.ram_bytes,
    )


def _estimated(side: Side, source: str, factors: Mapping[str, float]) -> Forecast:
    device = GPU if side.gpu else RAM
    if source != FILE_SIZE or device not in factors:
        return Forecast(peak=side.need, source=source)
    factor = bounded(factors[device])
    if side.gpu:  # what a process has in RAM beside a GPU is little, and not what was measured
        need = Need(ram_bytes=side.ram, gpu_bytes=tuple(int(n * factor) for n in side.gpu))
    else:
        need = Need(ram_bytes=int(side.ram * factor))
    return Forecast(peak=need, source=source, factor=factor)


def _at_most(service: Need, peak: Need) -> Need:
    """A peak may have been learned without what comes after it, from a load that ran out of memory."""
    pairs = zip(service.gpu_bytes, peak.gpu_bytes, strict=False)
    return Need(ram_bytes=min(service.ram_bytes, peak.ram_bytes), gpu_bytes=tuple(min(pair) for pair in pairs))
