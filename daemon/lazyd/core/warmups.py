"""Which warm-up a load is ordered with, and what is remembered of those that were made.

In mode ``sync`` a model is ready only after its warm-up, in ``async`` it serves while the warm-up goes
on beside the calls of others. In ``on-demand`` one is made as in ``sync``, but only for what has not
been warmed up since the machine started: the same model with the same files and options, the same calls,
on the same kind of device, by the same version of its runtime. That version only the worker knows.

What workers report of warm-ups stands in `warming`.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from ..digest import digest_of
from . import cost, monitoring
from .effects import KeepPast, LoadObject, WarmedUp
from .monitoring import Past
from .needs import GPU
from .records import Instance, Model, Warmth, Worker
from .spec import WarmupMode
from .world import World

MOST_WARMED = 10_000
"""So many records are kept, the newest."""


def order(world: World, instance: Instance) -> LoadObject:
    """The order to load, with the warm-up that is due."""
    model, worker = instance.model, instance.worker
    mode = mode_of(model)
    instance.warmup = Warmth.PENDING if mode is not None else Warmth.NONE
    instance.warmed_as = subject(model, worker) if mode is not None else ""
    return LoadObject(
        worker=worker.id,
        model=model.key,
        warmup=str(mode) if mode is not None else "",
        table=model.spec.warmup,
        warmed_by=world.warmed.get(instance.warmed_as, ()) if mode is WarmupMode.ON_DEMAND else (),
    )


def mode_of(model: Model) -> WarmupMode | None:
    """When its calls are made; None: nothing is configured, and its runtime knows."""
    warmup = model.spec.warmup
    if warmup is None:
        return None
    return WarmupMode.SYNC if fell_back(model) is not None else warmup.mode


def fell_back(model: Model) -> str | None:
    """Why its warm-up is synchronous although another mode is configured; None: it is not."""
    return model.past.fell_back if may_fall_back(model) else None


def may_fall_back(model: Model) -> bool:
    """Another mode is configured."""
    return model.spec.warmup is not None and model.spec.warmup.mode is not WarmupMode.SYNC


def subject(model: Model, worker: Worker) -> str:
    """A digest of what a warm-up is a warm-up of."""
    warmup = model.spec.warmup
    calls = (warmup.method, warmup.calls, warmup.args, warmup.kwargs, warmup.expect) if warmup is not None else ()
    kind = GPU if worker.gpus else "ram"
    made_of = msgspec.json.encode([model.first.key, worker.identity, worker.digest, kind, calls], order="deterministic")
    return digest_of(made_of)


def remember(world: World, instance: Instance, runtime: str) -> None:
    """A warm-up has succeeded."""
    what = instance.warmed_as or subject(instance.model, instance.worker)
    known = world.warmed.pop(what, ())
    world.warmed[what] = known if runtime in known else (*known, runtime)
    if runtime not in known:
        world.emit(WarmedUp(model=instance.model.key, subject=what, runtime=runtime))
    while len(world.warmed) > MOST_WARMED:
        del world.warmed[next(iter(world.warmed))]


def remembered(world: World, warmed: Mapping[str, tuple[str, ...]], pasts: Mapping[str, tuple[str, Past]]) -> None:
    """What an earlier manager has kept. What this one has learned since is newer. Of each model, with the
    identity of its spec, how its loads went."""
    world.warmed = {**warmed, **world.warmed}
    for key, (identity, past) in pasts.items():
        model = world.find(key)
        if model is not None and model.key == key and model.identity == identity and not model.past.loads_s:
            model.past = past
            cost.recall(model, usual_s(model))


def usual_s(model: Model) -> float:
    """How long a load takes longer for its warm-up, as a rule. One ``on-demand`` is rarely made."""
    is_made = model.spec.warmup is None or mode_of(model) is WarmupMode.SYNC
    return (monitoring.middle(model.past.warmups_s) or 0.0) if is_made else 0.0


def note_load(world: World, instance: Instance) -> None:
    """It has become ready, for the first time in its life: how long the load took, the warm-up not counted."""
    model, seconds = instance.model, instance.loaded_s if instance.loaded_s is not None else instance.load_s
    reason = monitoring.slow(model.past, seconds, model.spec.load_slow_above)
    past = monitoring.loaded(model.past, seconds)
    keep(world, model, went_wrong(model, past, reason) if reason else monitoring.went_well(past))


def note_success(world: World, model: Model, seconds: float) -> None:
    """A warm-up has succeeded, in so many seconds of calls."""
    keep(world, model, monitoring.warmed(model.past, seconds))


def note_failure(world: World, instance: Instance) -> None:
    """A load, or the warm-up that has begun, has failed or was ended as it hung."""
    model = instance.model
    past, warmup, reason = model.past, model.spec.warmup, None
    if instance.warmup is Warmth.RUNNING:
        past = monitoring.warmup_failed(past)
        reason = monitoring.unreliable(past, warmup.fail_above) if warmup is not None else None
    keep(world, model, went_wrong(model, past, reason))


def went_wrong(model: Model, past: Past, reason: str | None) -> Past:
    return monitoring.went_wrong(past, reason if may_fall_back(model) else None)


def keep(world: World, model: Model, past: Past) -> None:
    """Takes what is known now of its loads, and says whether its warm-ups have become synchronous by it."""
    if past == model.past:
        return
    before, model.past = fell_back(model), past
    now = fell_back(model)
    if now is not None and before is None:
        world.note("fell back", model, f"fell back to sync: {now}")
    elif now is None and before is not None:
        reason = f"the last {monitoring.RECOVERED} loads went well: its warm-ups are as configured again"
        world.note("recovered", model, reason)
    world.emit(KeepPast(model=model.key, identity=model.identity, past=past))
