"""What the configuration says of a model, and of the daemon.

Everything here is frozen: a changed configuration is a new `Config`, never an edited one.
Durations are seconds, sizes bytes; ``None`` as a duration means never.
"""

from __future__ import annotations

import enum
from typing import Any

import msgspec

from ..digest import digest_of
from .names import model_key
from .services import Busy, Deed, Ready, Stop

MADE_FROM = (
    "version", "runtime", "path", "factory", "device", "memory_bytes",
    "env", "env_file", "python", "python_path", "imports", "trust", "options", "concurrency",
    "command", "directory", "ready", "busy", "park", "unpark", "stop",
)  # fmt: skip
"""The fields of a spec that a loaded model was made from."""

REGISTERED = "registered"
"""The source of what a client has registered."""

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


class WarmupMode(enum.StrEnum):
    """When the calls of a warm-up are made."""

    SYNC = "sync"
    """Before it is ready."""
    ASYNC = "async"
    """Once it is ready, between the calls of others."""
    ON_DEMAND = "on-demand"
    """As `SYNC`, but only for what has not been warmed up since the machine started."""


class Warmup(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Calls that are made before others may rely on a model."""

    mode: WarmupMode = WarmupMode.SYNC
    method: str | None = None
    """``None``: what the runtime has for it."""
    calls: int = 1
    args: tuple[Any, ...] = ()
    """Positional arguments; a table in them may be a recipe of an array or a text, see docs/readiness.md."""
    kwargs: dict[str, Any] = {}
    expect: dict[str, Any] = {}
    """What must be true of every output."""
    timeout_s: float = 60.0
    """For all calls together."""
    fail_above: float = 0.2
    """If a larger part of the recent warm-ups failed, the next ones are made in mode `SYNC`."""


class PrewarmWhen(enum.StrEnum):
    """How it is known when a model will be needed."""

    LEARNED = "learned"
    SCHEDULE = "schedule"
    OFF = "off"


class Prewarm(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """When a model is loaded before it is asked for."""

    when: PrewarmWhen = PrewarmWhen.LEARNED
    schedule: tuple[str, ...] = ()
    """Cron lines."""
    time_zone: str | None = None
    """As ``Europe/Berlin``; ``None``: the machine's."""


class Fallback(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What answers when a model cannot be had in time: another model, or a value."""

    model: str | None = None
    value: Any = None
    after_s: float = 5.0


class Swap(enum.StrEnum):
    """How a name goes over to another version of what it means."""

    OVERLAP = "overlap"
    """The old one serves until the new one is loaded and warmed up."""
    STOP_FIRST = "stop-first"
    """The old one finishes and leaves, then the new one is loaded."""


class Split(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """An alias that means several models."""

    weights: dict[str, int] = {}
    """By name of a model, in the order in which they were written."""
    shadow: str | None = None
    """A model that repeats the calls of the others; its answers are compared and thrown away."""


class ModelSpec(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One model as configured.

    `name` may be a family pattern such as ``strategy/*``: its members share one worker. There may
    be 10,000 specs and none has a cycle, so the garbage collector leaves them alone.
    """

    name: str
    version: str = ""
    runtime: str
    path: str | None = None
    sha256: str | None = None
    """Of the file that a URL in `path` names."""
    fetched: str | None = None
    """Where that is found once it has been fetched: the manager says so, and no configuration."""
    factory: str | None = None
    tier: Tier = Tier.ON_DEMAND
    idle_timeout_s: float | None = 600.0
    idle_written: bool = False
    """It was written down, for this model or for all: what is learned does not replace it."""
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
    uses: tuple[str, ...] = ()
    """Models that its calls call: they are admitted with it, see `uses`."""
    park_timeout_s: float | None = 600.0
    """How long it stays parked, if its runtime can park."""
    priority: int = 0
    """Residents are loaded in its order, the highest first."""
    ram_lock: bool = False
    """``warm --tier ram`` locks its files in memory."""
    load_slow_above: float = 3.0
    """A load that takes so many times the median of those before is slow, see `monitoring`."""
    warmup: Warmup | None = None
    prewarm: Prewarm = Prewarm()
    fallback: Fallback | None = None
    pin: bool = False
    min_residency_s: float = 0.0
    max_wait_s: float = 2.0
    max_loaded: int | None = None
    """Objects that a family keeps at once."""
    swap: Swap = Swap.OVERLAP
    """When a name that meant another version goes over to this one."""
    max_calls: int | None = None
    """A worker that has answered so many calls is restarted, see `wear`."""
    max_growth_bytes: int | None = None
    """The same of one that has grown by so much since it was ready."""
    concurrency: int = 1
    """Calls that one object answers at once."""
    replicas: int = 1
    """So many workers of it at most, see `replicas`."""
    idempotent: tuple[str, ...] = ()
    env: dict[str, str] = {}
    env_file: str | None = None
    python: str | None = None
    """Another interpreter; ``None``: lazyd's own."""
    python_path: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()
    """Modules that its zygote imports beside what its runtime needs."""
    trust: bool = False
    """Its file may run code of its author when it is loaded."""
    options: dict[str, Any] = {}
    command: tuple[str, ...] = ()
    """The program of a service, and its arguments."""
    directory: str | None = None
    """Where a service is started."""
    ready: Ready | None = None
    """``None``: when its port is open."""
    busy: Busy | None = None
    park: Deed | None = None
    unpark: Deed | None = None
    stop: Stop | None = None
    proxy: str | None = None
    """Where HTTP clients find a service, as ``host:port``."""
    version_policy: str | tuple[str, ...] | None = None
    """Which of the versions that are found are configured: ``latest`` (as ``None``), ``all``, or these."""
    found_by: str = ""
    """The pattern of paths by which its file was found; empty: it was written down."""
    source: str = ""
    """The file that configured it, or `REGISTERED`."""

    @property
    def key(self) -> str:
        """``name`` or ``name:version``: how the model is called everywhere."""
        return f"{self.name}:{self.version}" if self.version else self.name

    @property
    def stop_grace_s(self) -> float:
        """How much longer its worker is given to leave: as long as it was told that its program may take."""
        return self.stop.grace_s if self.stop is not None else 0.0

    @property
    def is_family(self) -> bool:
        return "*" in self.name

    @property
    def identity(self) -> str:
        """A digest of what a loaded model was made from: if it differs, the model is another one.

        How long it is kept, or who waits how long for it, is policy and not part of it.
        """
        made_from = [model_key(self.name), *(getattr(self, field) for field in MADE_FROM)]  # its replicas are the same
        if self.sha256 is not None:
            made_from.append(self.sha256)
        return digest_of(msgspec.json.encode(made_from, order="deterministic"))


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
    fetch_disk: float | int = 0.5
    """What fetched files may hold of the disk that they are on; a float is a fraction of it."""
    revalidate_s: float | None = 600.0
    """How long what was fetched counts as what is there."""
    history: int = 200_000
    """So many uses are kept, for ``lazyctl simulate``; 0: none."""


class Config(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An accepted configuration."""

    settings: Settings = Settings()
    models: dict[str, ModelSpec] = {}
    """By `ModelSpec.key`."""
    templates: tuple[ModelSpec, ...] = ()
    """Specs whose path is a pattern: each file that it finds makes a model, which is among `models`."""
    defaults: dict[str, Any] = {}
    """Fields that every spec has which does not say otherwise: they stand under ``[daemon]``."""
    aliases: dict[str, str] = {}
    """What other names name, a model or another alias; of one that is split, the model with the largest weight."""
    splits: dict[str, Split] = {}
    """Aliases that mean several models."""
