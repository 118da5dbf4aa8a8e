"""What has to be known of the machine and its models to play their history again.

The structs are in the shape in which the method ``History`` tells them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from lazyd.core.cost import DISK_BYTES_PER_S, START_S
from lazyd.core.needs import GPU, RAM, Forecast, Layers, Need
from lazyd.core.spec import Config, ModelSpec

GIB = 1 << 30
UNKNOWN_LOAD_S = 5.0
UNKNOWN_BYTES = 256 << 20
"""Of a model of which nothing is known at all. As many bytes are booked for one of which nothing can be estimated."""


class ModelFacts(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What one model takes."""

    load_sec: float | None = None
    """Without the warm-up that is configured. None: never measured, and estimated from the bytes as the core does."""
    warmup_sec: float = 0.0
    """In the calls of the warm-up that is configured."""
    ways: dict[str, Forecast] = {}
    """By way of loading, see `lazyd.core.needs`; empty: unknown."""
    layers: Layers | None = None
    files: dict[str, int] = {}

    @property
    def possible(self) -> dict[str, Forecast]:
        """The ways, or what is booked where nothing can be estimated."""
        return self.ways or {RAM: Forecast(peak=Need(ram_bytes=UNKNOWN_BYTES), source="default")}

    @property
    def load_s(self) -> float:
        """How long a load takes, without the warm-up that is configured."""
        if self.load_sec is not None:
            return self.load_sec
        need = max((way.peak.ram_bytes + sum(way.peak.gpu_bytes) for way in self.possible.values()), default=0)
        return START_S + (need + sum(self.files.values())) / DISK_BYTES_PER_S


class DeviceFacts(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    name: str
    kind: str
    total_bytes: int
    alone: bool = False
    """See `lazyd.core.events.DeviceSeen`."""


def nothing_known(load_sec: float = UNKNOWN_LOAD_S, ram_bytes: int = UNKNOWN_BYTES) -> ModelFacts:
    """What is supposed of a model of which nothing is known."""
    return ModelFacts(load_sec=load_sec, ways={RAM: Forecast(peak=Need(ram_bytes=ram_bytes), source="default")})


class Facts(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """`models` are by key; what is told of a family holds for all its members of which nothing else is told."""

    devices: tuple[DeviceFacts, ...] = ()
    models: dict[str, ModelFacts] = {}
    otherwise: ModelFacts = msgspec.field(default_factory=nothing_known)

    def of(self, key: str, spec: ModelSpec) -> ModelFacts:
        """Those of a model. A member has its own times, and the bytes of its family's process."""
        own, kin = self.models.get(key), self.models.get(spec.key)
        if own is None or kin is None or own is kin:
            return own or kin or self.otherwise
        return msgspec.structs.replace(own, ways=own.ways or kin.ways, layers=kin.layers, files=kin.files)


class Use(msgspec.Struct, frozen=True, gc=False):
    """One use of a model."""

    began: float
    """Seconds since 1970."""
    model: str
    busy_s: float = msgspec.field(default=0.0, name="busySec")


class Told(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What the daemon tells beside the uses."""

    config: Config
    facts: Facts
    pins: tuple[str, ...] = ()
    """Models pinned by hand."""
    kept: int = 0
    """So many uses are kept by it."""


def told(reply: Mapping[str, Any]) -> Told:
    """The first reply of ``History``.

    Raises:
        ValueError: it is not what this version understands.
    """
    return msgspec.convert(reply, Told)


def uses(page: list[Any]) -> list[Use]:
    """One page of ``History``. Raises `ValueError` as `told`."""
    return msgspec.convert(page, list[Use])


def under(config: Config, facts: Facts, today: Config) -> Facts:
    """The facts for another configuration: where it declares other `memory` than today's, that is what is booked."""
    models = dict(facts.models)
    for key, spec in config.models.items():
        before = today.models.get(key)
        if spec.memory_bytes is not None and (before is None or before.memory_bytes != spec.memory_bytes):
            known = models.get(key, facts.otherwise)
            models[key] = msgspec.structs.replace(known, ways=_declared(spec.memory_bytes, known), layers=None)
    return msgspec.structs.replace(facts, models=models)


def _declared(count: int, known: ModelFacts) -> dict[str, Forecast]:
    """It is all that the model takes of the device that it is on; files that it maps are booked apart."""
    ways = {RAM: Forecast(peak=Need(ram_bytes=max(0, count - sum(known.files.values()))), source="declared")}
    on_gpu = known.ways.get(GPU)
    if on_gpu is not None:
        need = Need(ram_bytes=on_gpu.peak.ram_bytes, gpu_bytes=(count,))
        ways[GPU] = Forecast(peak=need, source="declared")
    return {way: ways[way] for way in ways if way in known.possible}
