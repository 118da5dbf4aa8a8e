"""Checks of loads: that they fit, happen once, and not too soon."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazyd.core import answers, effects, events

from .memory import RAM
from .told import Stage

if TYPE_CHECKING:
    from .world import World

SHORTEST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 300.0


def loads_wait_for_the_host(world: World, effect: effects.StartWorker) -> str | None:
    return None if world.manager.told.has_host else f"{effect.worker} is started, and no host is there"


def one_load(world: World, effect: effects.LoadObject) -> str | None:
    told = world.manager.told
    for name, worker in told.workers.items():
        thing = worker.objects.get(effect.model)
        if thing is None or worker.stopping or (name == effect.worker and thing.is_missing):
            continue
        if thing.stage is Stage.LOADING or (thing.stage is Stage.READY and told.is_current(worker, effect.model)):
            return f"{effect.model} is to be loaded by {effect.worker}, and is {thing.stage.value} in {name}"
    return None


def family_keeps_its_limit(world: World, effect: effects.LoadObject) -> str | None:
    told = world.manager.told
    worker = told.workers[effect.worker]
    spec = told.config.models.get(worker.key)
    if spec is None or spec.max_loaded is None:
        return None
    others = [model for model in worker.objects if model != effect.model]
    if len(others) >= spec.max_loaded:
        return f"{effect.model} joins {others}, and max_loaded is {spec.max_loaded}"
    return None


def failures_pause(world: World, effect: effects.LoadObject) -> str | None:
    count, at = world.manager.told.failures.get(effect.model, (0, 0.0))
    if not count:
        return None
    pause = min(LONGEST_PAUSE_S, SHORTEST_PAUSE_S * 2.0 ** (count - 1))
    if world.clock.now < at + pause:
        return f"{effect.model} is loaded {world.clock.now - at:.3f} s after it failed {count} times in a row"
    return None


def pins_leave_room(world: World, effect: effects.LoadObject | effects.Answer) -> str | None:
    """Asked when a kept model is loaded, and when a loaded model is pinned."""
    told = world.manager.told
    if isinstance(effect, effects.Answer):
        pending = world.control.by_number[effect.request]
        if pending.kind is not events.Pin or not isinstance(effect.outcome, answers.Done):
            return None
        model = told.resolve(pending.fields["model"])
        if not pending.fields["pinned"] or model is None or told.is_kept(model):
            return None
    else:
        model = effect.model
        if not told.is_kept(model):
            return None
    others, own = [], None
    for name, worker in told.workers.items():
        entry = told.books.entries.get(name)
        if entry is None or worker.stopping:
            continue
        if any(told.is_kept(other) for other in worker.objects if other != model):
            others.append(entry)
        elif model in worker.objects or getattr(effect, "worker", None) == name:
            own = entry
    if own is None:
        return None
    files = {file: n for entry in (*others, own) for file, n in entry.files.items()}
    for device in own.booking:
        held = sum(entry.booking.get(device, 0) for entry in (*others, own))
        held += sum(files.values()) if device == RAM else 0
        most = int(told.budget(device) * told.config.settings.max_pinned)
        if held > most:
            return f"with {model} pins and residents hold {held} of {device}, and may hold {most}"
    return None


def loaded_is_true(world: World, effect: effects.Answer) -> str | None:
    pending = world.control.by_number[effect.request]
    if not isinstance(effect.outcome, answers.Loaded):
        return None
    key = world.manager.told.resolve(pending.fields["model"])
    for worker in world.manager.told.workers.values():
        thing = worker.objects.get(key or "")
        if thing is not None and thing.stage is Stage.READY and not worker.stopping:
            return None
    return f"{pending} is told that the model is loaded"


def stop_is_a_stop(world: World, effect: effects.LoadObject | effects.StartWorker) -> str | None:
    return f"{effect} after a stop" if world.manager.told.stop_deadline is not None else None
