"""What the configuration says of a model, and of the daemon.

Everything here is frozen: a changed configuration is a new `Config`, never an edited one.
Durations are seconds, sizes bytes; ``None`` as a duration means never.
"""

from __future__ import annotations

import enum
from typing import Any

import msgspec

MADE_FROM = (
    "name", "version", "runtime", "path", "factory", "device", "memory_bytes",
    "env", "env_file", "python", "python_path", "options",
)  # fmt: skip
"""The fields of a spec that a loaded model was made from."""

MIB = 1024 * 1024
GIB = 1024 * MIB


class Tier(enum.StrEnum):
    """How a model is kept."""

    RESIDENT = "resident"
    """Loaded at start and always."""
    ON_DEMAND = "on-demand"
    """Loaded at first use, freed after `idle_timeout_s`."""
    TRANSIENT = "transient"
    """Freed as soon as its last lease ends."""


class ModelSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One model as configured.

    `name` may be a family pattern such as ``strategy/*``: its members share one worker. There may
    be 10,000 specs and none has a cycle, so the garbage collector leaves them alone.
    """

    name: str
    version: str = ""
    runtime: str
    path: str | None = None
    factory: str | None = None
    tier: Tier = Tier.ON_DEMAND
    idle_timeout_s: float | None = 600.0
    load_timeout_s: float | None = 120.0
    """Time without progress after which a load has failed."""
    device: tuple[str, ...] = ()
    """Devices it may use, or ``gpu`` for any GPU; empty: any."""
    memory_bytes: int | None = None
    """A declared peak."""
    hard_limit: bool = False
    """Once it has outgrown its booking it is ended when it is idle."""
    beside: tuple[str, ...] = ()
    """Models that it is used with: their GPU is preferred."""
    park_timeout_s: float | None = 600.0
    """How long it stays parked, if its runtime can park."""
    pin: bool = False
    min_residency_s: float = 0.0
    max_wait_s: float = 2.0
    max_loaded: int | None = None
    """Objects that a family keeps at once."""
    idempotent: tuple[str, ...] = ()
    env: dict[str, str] = {}
    env_file: str | None = None
    python: str | None = None
    """Another interpreter; ``None``: lazyd's own."""
    python_path: tuple[str, ...] = ()
    options: dict[str, Any] = {}
    source: str = ""
    """The file that configured it."""

    @property
    def key(self) -> str:
        """``name`` or ``name:version``: how the model is called everywhere."""
        return f"{self.name}:{self.version}" if self.version else self.name

    @property
    def is_family(self) -> bool:
        return "*" in self.name

    @property
    def identity(self) -> str:
        """A digest of what a loaded model was made from: if it differs, the model is another one.

        How long it is kept, or who waits how long for it, is policy and not part of it.
        """
        import hashlib  # 3 ms that the start of a daemon with nothing loaded need not pay

        made_from = [getattr(self, field) for field in MADE_FROM]
        return hashlib.blake2s(msgspec.json.encode(made_from, order="deterministic"), digest_size=8).hexdigest()


class Settings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The daemon's own settings: the tables ``[daemon]`` and ``[budget]``."""

    first_call_timeout_s: float | None = 300.0
    linger_s: float | None = 600.0
    max_zygotes: int = 4
    budget: dict[str, float | int] = msgspec.field(default_factory=lambda: {"ram": 0.8})
    """Per device: a float is a fraction of the device, an int is bytes."""
    gpu_margin_bytes: int = 512 * MIB
    max_pinned: float = 0.75
    """The part of a device's budget that pinned and resident models may hold together."""
    max_reserved: float = 0.75
    """The part of a device's budget that reservations of one user may hold together."""
    max_hold_s: float = 600.0


class Config(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An accepted configuration."""

    settings: Settings = Settings()
    models: dict[str, ModelSpec] = {}
    """By `ModelSpec.key`."""
    aliases: dict[str, str] = {}
