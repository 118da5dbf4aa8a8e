"""What has to be known of the machine and its models to play their history again."""

from __future__ import annotations

import msgspec

GIB = 1 << 30
UNKNOWN_LOAD_S = 5.0
"""A model that was never loaded."""
UNKNOWN_BYTES = 256 << 20
"""As models are booked of which nothing is known."""


class ModelFacts(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """What one model takes."""

    load_sec: float = UNKNOWN_LOAD_S
    ram_bytes: int = UNKNOWN_BYTES
    gpu_bytes: int = 0
    """On a GPU, if it goes to one."""


class DeviceFacts(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    name: str
    kind: str
    total_bytes: int


class Facts(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    devices: tuple[DeviceFacts, ...]
    models: dict[str, ModelFacts] = {}

    def of(self, model: str) -> ModelFacts:
        return self.models.get(model, ModelFacts())


class Use(msgspec.Struct, frozen=True):
    """One use of a model."""

    began: float
    """Seconds since 1970."""
    model: str
    busy_s: float = 0.0
