"""What a day of names is made of: versions and their configuration, and workers as they really are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from lazyd.core import events
from lazyd.core.names import model_key
from lazyd.core.spec import Config, ModelSpec, Prewarm, PrewarmWhen, Settings, Split, Swap, Warmup, WarmupMode
from lazyd.manager.processes.messages import FromWorker
from lazyd.worker.admission import Admission
from lazyd.worker.records import Object

VERSIONS = ("v:1", "v:2", "v:3", "v:4")
OTHERS = ("other", "another")


@dataclass(eq=False)
class Process:
    """A worker, as it really is."""

    id: str
    key: str
    memo: dict[str, Any]
    started: float
    fails: bool
    rules: Admission = field(default_factory=Admission)
    leaves: bool = False
    gone: bool = False

    @property
    def model(self) -> str:
        """Of which it is one of the workers."""
        return model_key(self.key)

    @property
    def object(self) -> Object | None:
        return self.rules.objects.get(self.key)

    @property
    def is_ready(self) -> bool:
        found = self.object
        return found is not None and found.shown == "ready" and not self.leaves

    @property
    def counts(self) -> bool:
        """It serves, or will."""
        found = self.object
        return found is not None and found.shown in ("loading", "ready") and not self.leaves

    @property
    def is_fit(self) -> bool:
        """Ready, and its warm-up has ended well."""
        return self.is_ready and self.object is not None and self.object.warmth.warmup in ("", "done")


def config_of(
    keys: tuple[str, ...], weights: dict[str, int], alias: str, replicas: Mapping[str, int] | None = None
) -> Config:
    """A configuration with these versions; what a name is to mean and is not there is replaced. `replicas`: of those
    that may have several workers."""
    specs = {key: spec_of(key, (replicas or {}).get(key, 1)) for key in (*keys, *OTHERS)}
    weights = {key: n for key, n in weights.items() if key in specs} or {keys[0]: 1}
    shadow = next((key for key in keys if key not in weights), None)
    aliases = {"alias": alias if alias in specs else keys[-1], "shared": max(weights, key=weights.__getitem__)}
    return Config(
        settings=Settings(budget={}),
        models=specs,
        aliases=aliases,
        splits={"shared": Split(weights=weights, shadow=shadow)},
    )


def spec_of(key: str, replicas: int = 1) -> ModelSpec:
    name, _, version = key.partition(":")
    return ModelSpec(
        name=name,
        version=version,
        runtime="python",
        idle_timeout_s=30.0,
        idle_written=True,
        prewarm=Prewarm(when=PrewarmWhen.OFF),
        warmup=Warmup(mode=WarmupMode.ASYNC) if key == "v:3" else None,
        swap=Swap.STOP_FIRST if key == "v:4" else Swap.OVERLAP,
        replicas=replicas,
    )


def said(worker: str, message: dict[str, Any]) -> events.Event:
    """What a worker tells its manager, as `manager.processes.messages` reads it."""
    found: Any = msgspec.convert(message, FromWorker)
    event: events.Event = found.event(worker)
    return event
