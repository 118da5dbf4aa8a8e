"""Replicas: a model that may have several workers (`replicas`), of which the least busy answers.

Each worker but the first is a model of its own to the rules, named ``x#2``: it has its own life, booking, pause and
idle time, and no client can name it. Requests stand in the line of the first alone, and whichever is ready and least
busy answers them, of equals the one with the lowest number, so that the last ones fall idle first.

One more is loaded while more calls are in flight, or about to begin, than all that are there or on their way answer at
once. It is loaded as a guess is (`prewarming.py`), into what is free: what other models hold, even idly, makes a call
of theirs quick, and a second worker makes one of this model's less slow. So it never makes anybody wait for room
either, and leaves for whoever wants its memory until it has been used. Nobody waits for it: the call that it is loaded
for is given to one that is ready.

What is said of keeping a model (tier, pin, prewarm, min_residency) holds for its first worker. The others are used when
they are needed.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from . import parking
from .lifecycle import LOADS, State
from .names import MARK, replica_key, split
from .records import FRESH_LEASE_S, Instance, LeaseStage, Model, Warmth
from .spec import ModelSpec, Prewarm, PrewarmWhen, Tier
from .world import World

NEVER_EXPECTED = Prewarm(when=PrewarmWhen.OFF)


def with_replicas(models: Mapping[str, ModelSpec]) -> Mapping[str, ModelSpec]:
    """All specs, with those of replicas."""
    more = [spec_of(spec, number) for spec in models.values() for number in range(2, spec.replicas + 1)]
    return {**models, **{spec.key: spec for spec in more}} if more else models


def spec_of(spec: ModelSpec, number: int) -> ModelSpec:
    """What is configured for a model's worker of that number, which is not the first."""
    return msgspec.structs.replace(
        spec,
        name=replica_key(spec.name, number),
        tier=Tier.ON_DEMAND if spec.tier is Tier.RESIDENT else spec.tier,
        pin=False,
        prewarm=NEVER_EXPECTED,
        min_residency_s=0.0,
        ram_lock=False,
        fallback=None,
        proxy=None,
        replicas=1,
    )


def spec_named(key: str, spec: ModelSpec | None) -> ModelSpec | None:
    """The spec of a replica by its name, and that of its model; None: it is not configured any more."""
    number = int(split(key)[0].rpartition(MARK)[2])
    return spec_of(spec, number) if spec is not None and number <= spec.replicas else None


def crowd(instance: Instance, now: float) -> int:
    """Its calls that are in flight, and those that its new leases are for."""
    return sum(lease.is_busy or is_about_to_call(lease.stage, lease.granted, now) for lease in instance.leases.values())


def is_about_to_call(stage: LeaseStage, granted: float, now: float) -> bool:
    """The first call under a new lease is on its way."""
    return stage in (LeaseStage.GRANTED, LeaseStage.PRESENTED) and now < granted + FRESH_LEASE_S


def open_ones(model: Model, now: float) -> list[Instance]:
    """Those that admit calls, the least busy first; of equals the one with the lowest number."""
    ready = [life for life in model.lives if is_open(life)]
    return sorted(ready, key=lambda life: crowd(life, now)) if len(ready) > 1 else ready


def is_open(life: Instance) -> bool:
    """It is ready, and nothing is known for which it has to leave."""
    return life.state is State.READY and life.warmup is not Warmth.FAILED and not life.model.retired


def is_wanted(world: World, model: Model) -> bool:
    """Whether this one is to be loaded: all that are there, or on their way, are too few for the calls that there
    are. The lowest numbers come first."""
    if not model.siblings or not may_join(world, model):
        return False
    at_once = model.spec.concurrency
    there = [life for life in model.lives if life.state in LOADS or life.state is State.READY]
    calls = sum(crowd(life, world.now) for life in there)
    lacking = -(-(calls - at_once * len(there)) // at_once)
    if lacking <= 0:
        return False
    return model in [other for other in model.siblings if may_join(world, other)][:lacking]


def may_join(world: World, model: Model) -> bool:
    """It is not there, and nothing else brings it or keeps it away."""
    is_paused = max(model.retry_at, model.first.retry_at) > world.now
    return parking.is_away(world, model) and model.wanted_since is None and not model.retired and not is_paused
