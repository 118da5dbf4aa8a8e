"""Checks that what is expected is there in time, and that what is only held ready gives way to who waits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from lazyd.core import events
from lazyd.core.spec import ModelSpec, PrewarmWhen, Tier

from . import about_guesses
from .about_leaving import idle_at
from .memory import CUDA, RAM
from .told import Stage

if TYPE_CHECKING:
    from .control import Pending
    from .world import World

SOON_S = 3.0
"""Until it is known what is needed, and the devices have been looked at."""
LATE_S = 15.0
"""What is idle is asked whether it is, and a driver may hang."""


def expected_is_loaded(world: World, _: events.Event) -> str | None:
    """What is due is loaded, where there is room for it and nobody waits."""
    if not world.scenario.profile.expects:
        return None
    told, now = world.manager.told, world.clock.now
    expectations = told.expectations
    for key in told.config.models:
        if told.objects_of(key):
            expectations.cold_since[key] = now
        if not _could_be_expected(world, key):
            expectations.due_since.pop(key, None)
        elif now > expectations.due_since.setdefault(key, now) + SOON_S:
            return (
                f"{key} is expected at {expectations.spans(key)}, and is cold since {expectations.cold_since.get(key)}"
            )
    return None


def _could_be_expected(world: World, key: str) -> bool:
    """It has been cold for so long that its load should have begun; nothing speaks against it, and it would fit."""
    told = world.manager.told
    spec, expectations = told.config.models[key], told.expectations
    if spec.tier is not Tier.ON_DEMAND or spec.is_family or spec.prewarm.when is PrewarmWhen.OFF or told.is_kept(key):
        return False
    cold_since = max(expectations.began, expectations.cold_since.get(key, 0.0)) + expectations.lead_s
    due = [end - start for start, end in expectations.spans(key) or () if cold_since < start <= world.clock.now < end]
    if (
        not due
        or key in told.dismissed
        or key in told.perhaps_unloaded
        or key in told.has_failed
        or told.objects_of(key)
    ):
        return False
    if spec.prewarm.when is PrewarmWhen.LEARNED and due[0] + expectations.lead_s > expectations.left_s(key):
        return False
    return _is_quiet(world) and any(_fits(world, key, spec, device, {}) for device in told.books.seen)


def _is_quiet(world: World) -> bool:
    """Nobody waits, all residents are there, and all drivers answer."""
    told = world.manager.told
    if not told.has_host or told.stop_deadline is not None or any(map(world.drivers.is_silent, world.memory)):
        return False
    if world.control.by_number:
        return False
    if any(key in world.control.in_vain for key in told.config.models):
        return False
    return all(told.serves(spec.key) for spec in told.config.models.values() if told.is_kept(spec.key))


def _fits(world: World, key: str, spec: ModelSpec, device: str, more: dict[str, int]) -> bool:
    """Whether a model fits on a device, whole, as it is foretold, beside all that is booked, with so much more."""
    told = world.manager.told
    books, predicted = told.books, told.predicted.get(key)
    is_gpu = books.seen[device].kind == CUDA
    forecast = predicted.ways.get("gpu" if is_gpu else "ram") if predicted is not None else None
    if predicted is None or forecast is None or not told.allows(spec, device) or device in books.lost:
        return False
    wanted = {RAM: forecast.peak.ram_bytes}
    if is_gpu:
        wanted[device] = forecast.peak.gpu_bytes[0]
    else:
        wanted[RAM] += sum(n for file, n in predicted.files.items() if file not in books.mapped())
    ledger = world.manager.core.world.ledger
    return all(n <= ledger.devices[name].free_bytes + more.get(name, 0) for name, n in wanted.items())


def ready_gives_way(world: World, _: events.Event) -> str | None:
    """Guesses and locked files make way at once for a request that could be had without them."""
    profile = world.scenario.profile
    if not (profile.expects or profile.locks):
        return None
    told, now = world.manager.told, world.clock.now
    expectations = told.expectations
    waiting = [p for p in world.control.by_number.values() if p.kind in (events.Get, events.Load, events.Reserve)]
    if len(waiting) != 1 or not _could_be_had(world, waiting[0]):
        expectations.waits_since = None
        return None
    number = waiting[0].number
    if expectations.waits_since is None or expectations.waits_since[0] != number:
        expectations.waits_since = number, now
    if now > expectations.waits_since[1] + SOON_S:
        guesses = [name for name, _, _ in about_guesses.unproven(world)]
        return f"{waiting[0]} waits, {guesses} are guesses, and {told.books.locks} are locked"
    return None


def _could_be_had(world: World, pending: Pending) -> bool:
    """It waits for room alone, and there is enough with what is only held ready."""
    told = world.manager.told
    if not told.has_host or told.stop_deadline is not None or any(map(world.drivers.is_silent, world.memory)):
        return False
    ready = held_ready(world)
    if pending.kind is events.Reserve or any(key in world.control.in_vain for key in told.config.models):
        return False
    key = told.resolve(pending.fields["model"]) or ""
    spec = told.config.models.get(key)
    if spec is None or spec.is_family or spec.fallback is not None or told.is_kept(key) or told.objects_of(key):
        return False
    if not ready or key in told.failures or key in told.ran_out or key in told.has_failed:
        return False
    if _is_still_released(world, key):
        return False
    return any(_fits(world, key, spec, device, ready) for device in told.books.seen)


def _is_still_released(world: World, key: str) -> bool:
    """Its last worker has ended, and its driver has not shown its memory to be free: until then, for 5 s at most, it is
    not loaded anew."""
    model = world.manager.core.world.models.get(key)
    return model is not None and model.instance is not None and model.instance.worker.exited is not None


def held_ready(world: World) -> dict[str, int]:
    """Bytes by device of guesses that nobody uses and that stay, and of files that are locked and mapped by nobody."""
    told, found = world.manager.told, dict[str, int]()
    ledger = world.manager.core.world.ledger
    for name, worker, thing in about_guesses.unproven(world):
        if len(worker.objects) > 1 or thing.drain is not None or thing.stage not in (Stage.LOADING, Stage.READY):
            continue
        if told.is_kept(next(iter(worker.objects))):
            continue
        for device, n in ledger.freed_by(name).items():
            found[device] = found.get(device, 0) + n
    locked = sum(told.books.freed_by(model) for model, lock in told.books.locks.items() if not lock.leaves)
    if locked:
        found[RAM] = found.get(RAM, 0) + locked
    return found


def idle_time_is_kept(world: World, _: events.Event) -> str | None:
    """A written idle time is no longer than it is written, whatever was learned."""
    told, now = world.manager.told, world.clock.now
    if not world.scenario.profile.expects or told.stop_deadline is not None or not told.has_host:
        return None
    for name, model in _idle(world):
        spec, thing = told.spec_of(model), told.workers[name].objects[model]
        if spec is None or not spec.idle_written or spec.tier is not Tier.ON_DEMAND or told.is_kept(model):
            continue
        if now > max(idle_at(world, model, spec, thing), thing.said_busy, thing.ready_at) + LATE_S:
            return f"{model} in {name} was used at {thing.used:.3f}, and its idle time is {spec.idle_timeout_s} s"
    return None


def _idle(world: World) -> Iterator[tuple[str, str]]:
    """What is ready, and neither used nor on its way out."""
    for name, worker in world.manager.told.workers.items():
        really = world.workers.get(name)
        if really is None or worker.stopping or really.was_silent or really.protected_leases():
            continue
        for model, thing in worker.objects.items():
            if thing.stage is Stage.READY and thing.drain is None:
                yield name, model
