"""Requests to free models. A model named is freed even if pinned or resident; `all` and `idle`
leave those alone unless forced. What is busy drains until the deadline and then serves again;
only force and a stop end calls. Freeing what is cold is fine.
"""

from __future__ import annotations

from . import fetching, locks, requests
from .answers import Busy, Cancelled, ModelNotFound, Timeout, Unloaded
from .events import Cancel, Unload
from .holders import used
from .lifecycle import LOADS, PARKS, State
from .names import model_key
from .records import Instance, Model, Reason
from .world import UnloadWish, World


def unload(world: World, event: Unload) -> None:
    """Models are to be freed. The rules make them leave; `freed` and `deadline_passed` answer it."""
    models = chosen(world, event)
    if isinstance(models, ModelNotFound):
        world.answer(event.request, models)
        return
    wish = UnloadWish(
        request=event.request,
        since=world.now,
        deadline=event.deadline,
        force=event.force,
        named=bool(event.models),
        pending=[instance for instance in world.instances() if instance.model in models],
        stays={model_key(model.key) for model in models if any(life.model not in models for life in model.lives)},
    )
    for model in models:
        forget_failures(world, model)
        fetching.stop(world, model)
        model.dismissed = True
        instance = model.instance
        if locks.end_of(world, model.key, Reason.ASKED) and instance is None and not wish.waits_for(model.key):
            wish.unloaded.append(model.key)
        if instance is None or instance.state in LOADS | PARKS:
            requests.answer_all(world, model, Cancelled(model=model.key))  # an unload ends a load
        world.touch(model)
    if event.all and event.force:
        wish.unloaded += [key for key in locks.end_all(world, Reason.ASKED) if not wish.waits_for(key)]
    world.unloads[wish.request] = wish
    world.alarms.set(("unload", wish.request), wish.deadline)
    freed(world)


def cancel(world: World, event: Cancel) -> None:
    """A client that asked for an unload has gone: what still drains for it serves on."""
    if event.request in world.unloads:
        end(world, event.request)


def chosen(world: World, event: Unload) -> list[Model] | ModelNotFound:
    """The models that an `Unload` means."""
    if event.models:
        named: dict[str, Model] = {}
        for name in event.models:
            members = [model for model in world.models.values() if model.spec.is_family and model.spec.key == name]
            model = None if members else world.find_named(name)
            if model is not None:
                members = [model]
            elif not members and name not in world.config.models:
                return ModelNotFound(model=name, nearest=world.nearest(name))
            workers = [each for member in members for each in member.workers]
            named.update((each.key, each) for each in workers)
        return list(named.values())
    instances = [i for m in world.models.values() if (i := m.instance) is not None and (event.force or not m.kept)]
    if event.all:
        return [instance.model for instance in instances]
    return [instance.model for instance in instances if all(is_idle(world, life) for life in instance.model.lives)]


def is_idle(world: World, instance: Instance) -> bool:
    """Ready, and nothing protects it."""
    return instance.state is State.READY and instance.protected_until <= world.now and not instance.model.waiters


def forget_failures(world: World, model: Model) -> None:
    """A person who frees a failed model wants it to be tried again."""
    model.failures = model.ran_out = 0
    model.retry_at = 0.0
    model.ended = State.COLD
    world.alarms.clear(("retry", model.key))


def freed(world: World) -> None:
    """Answers every `Unload` whose models have all gone, or were pinned before they had."""
    for wish in list(world.unloads.values()):
        for instance in list(wish.pending):
            key = instance.model.key
            if instance.worker.instances.get(key) is not instance:
                wish.pending.remove(instance)
                if not wish.waits_for(key):
                    wish.unloaded.append(key)
            elif not wish.means(instance) and instance.state is not State.UNLOADING:
                wish.pending.remove(instance)
                wish.stays.add(model_key(key))
        if not wish.pending:
            end(world, wish.request)
            free = dict.fromkeys(key for key in map(model_key, wish.unloaded) if key not in wish.stays)
            world.answer(wish.request, Unloaded(unloaded=tuple(free)))


def deadline_passed(world: World, request: int) -> None:
    """What is still used or held serves on, and the request is answered `Busy` (an alarm)."""
    wish = world.unloads.get(request)
    if wish is None:
        return
    left = max(wish.pending, key=lambda instance: (instance.in_flight, instance.protected_until > world.now))
    reason = "; ".join(used(world, left)) or None if not left.in_flight else None
    is_used = left.in_flight > 0 or left.protected_until > world.now
    end(world, request)
    if is_used:
        world.answer(request, Busy(model=left.model.first.key, in_flight=left.in_flight, reason=reason))
    else:
        given_s = max(0.0, wish.deadline - wish.since)
        key = left.model.first.key
        world.answer(request, Timeout(model=key, phase=str(left.state), timeout_sec=given_s, reason=reason))


def end(world: World, request: int) -> None:
    wish = world.unloads.pop(request)
    world.alarms.clear(("unload", request))
    for instance in wish.pending:
        world.touch(instance.model)


def names_it(world: World, instance: Instance) -> bool:
    """Whether an `Unload` under way means this instance."""
    return any(wish.means(instance) for wish in world.unloads.values())


def may_end_calls(world: World, instance: Instance) -> bool:
    """Whether its calls may be ended: by force, or because the time for a stop is over."""
    if world.stop_deadline is not None and world.now >= world.stop_deadline:
        return True
    return any(wish.force and wish.means(instance) for wish in world.unloads.values())
