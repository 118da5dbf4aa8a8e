"""Checks of warm-ups: made as configured, once where that is enough, in their time, and believed if they fail."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazyd.core import effects, events
from lazyd.core.monitoring import NOTHING
from lazyd.core.spec import WarmupMode

from .memory import RAM
from .told import Stage
from .warmups import RUNTIME

if TYPE_CHECKING:
    from .world import World

A_MOMENT_S = 1e-6


def warmup_is_as_it_should(world: World, effect: effects.LoadObject) -> str | None:
    """As the spec says; before it is ready, where loads or warm-ups have gone wrong of late."""
    told = world.manager.told
    spec = told.spec_of(effect.model)
    if spec is None or effect.model not in told.config.models:
        return None
    if spec.warmup is None:
        return f"{effect}, and no warm-up is configured" if effect.warmup else None
    identity, past = told.pasts.get(effect.model, (spec.identity, NOTHING))
    if past is None:
        return None  # it was another model meanwhile
    fell_back = identity == spec.identity and past.fell_back is not None
    mode = WarmupMode.SYNC if fell_back else spec.warmup.mode
    return None if effect.warmup == mode else f"{effect}, and it should be {mode}, as {past}"


def warmed_up_once(world: World, effect: effects.LoadObject) -> str | None:
    """What was warmed up since the machine was started is known, also to the next manager; and nothing else is."""
    told = world.manager.told
    spec = told.spec_of(effect.model)
    if effect.warmup != WarmupMode.ON_DEMAND or spec is None or spec.is_family:
        return None
    is_known = (effect.model, spec.identity, is_on_gpu(world, effect.worker)) in told.warmed
    wanted = (RUNTIME,) if is_known else ()
    return None if effect.warmed_by == wanted else f"{effect}, and {wanted} should be known"


def is_on_gpu(world: World, worker: str) -> bool:
    return any(device != RAM for device in world.manager.told.workers[worker].devices)


def warmups_end(world: World, _: events.Event) -> str | None:
    """One that takes longer than all its calls may is ended."""
    told, now = world.manager.told, world.clock.now
    if not told.has_host:
        return None
    for name, worker in told.workers.items():
        for model, thing in worker.objects.items():
            spec = told.spec_of(model)
            if thing.warming is None or worker.stopping or spec is None or spec.warmup is None or thing.is_unfit:
                continue
            if thing.stage in (Stage.LOADING, Stage.READY) and now > thing.warming + spec.warmup.timeout_s + A_MOMENT_S:
                return f"{model} in {name} is warmed up since {thing.warming:.3f}"
    return None


def unfit_serves_nobody(world: World, effect: effects.Grant) -> str | None:
    """A model whose warm-up has failed admits nobody but calls within its calls."""
    thing = world.manager.told.workers[effect.worker].objects.get(effect.model)
    if thing is not None and thing.is_unfit and effect.parent is None:
        return f"{effect}, and its warm-up has failed"
    return None
