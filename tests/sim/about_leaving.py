"""Checks of what leaves: only with a cause, never what is kept, and nobody is told too early."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazyd.core import answers, effects, events
from lazyd.core.spec import ModelSpec, PrewarmWhen, Tier

from . import about_guesses
from .memory import RAM
from .told import Stage, ToldObject, ToldWorker

if TYPE_CHECKING:
    from .world import World

Leaving = effects.Drain | effects.UnloadObject | effects.StopWorker

UNPRESENTED_S = 30.0
"""A lease that nobody presents ends after this time."""
IN_ONE_BREATH_S = 0.1
A_WHILE_S = 6.0
"""Longer than a lease is fresh."""
OUTGROWN = 1.25
"""A model with a hard limit is ended when it uses so much more than it was booked with."""
WORN_S = 15.0
"""The longest `max_wait` and call, and a load that joined before; who comes meanwhile waits for the next worker."""
A_MOMENT_S = 1e-6
"""For sums of floating point numbers that are formed in another order."""


def must_leave(world: World, worker: ToldWorker, model: str) -> bool:
    """A stop, an unload or a changed configuration wants it gone."""
    told = world.manager.told
    if told.stop_deadline is not None or worker.stopping or not told.is_current(worker, model):
        return True
    if worker.is_on(told.books.lost) or is_worn(world, worker, model):
        return True
    if (thing := worker.objects.get(model)) is not None and (thing.is_unfit or warmup_hangs(world, worker, model)):
        return True
    return any(
        unload.models or unload.force or not told.is_kept(model) for unload in told.unloads_of(worker.key, model)
    )


def is_worn(world: World, worker: ToldWorker, model: str) -> bool:
    """Its worker has answered as many calls as it may."""
    told = world.manager.told
    spec = told.spec_of(model)
    if spec is None or spec.max_calls is None:
        return False
    names = [name for name, known in told.workers.items() if known is worker and name in world.workers]
    return any(world.workers[name].admission.calls >= spec.max_calls for name in names)


def worn_leaves(world: World, _: events.Event) -> str | None:
    """What has answered as many calls as it may leaves when its calls have ended, at the latest after `max_wait`."""
    told, now = world.manager.told, world.clock.now
    for name, worker in told.workers.items():
        worn = [model for model in worker.objects if is_worn(world, worker, model)]
        if not worn or worker.stopping or not told.has_host or world.workers[name].silent_until is not None:
            told.worn_since.pop(name, None)
            continue
        told.restarted.update(worn)
        since = told.worn_since.setdefault(name, now)
        if now > since + WORN_S and not world.workers[name].protected_leases():
            return f"{world.workers[name]} has answered {world.workers[name].admission.calls} calls, and is still there"
    return None


def warmup_hangs(world: World, worker: ToldWorker, model: str) -> bool:
    """A call of its warm-up has taken longer than all of them may."""
    thing, spec = worker.objects.get(model), world.manager.told.spec_of(model)
    if thing is None or thing.warming is None or spec is None or spec.warmup is None:
        return False
    return world.clock.now >= thing.warming + spec.warmup.timeout_s - A_MOMENT_S


def kept_is_not_evicted(world: World, effect: Leaving) -> str | None:
    told = world.manager.told
    worker = told.workers.get(effect.worker)
    if worker is None:
        return None
    for model in list(worker.objects) if isinstance(effect, effects.StopWorker) else [effect.model]:
        thing = worker.objects.get(model)
        if thing is None or thing.stage is Stage.UNLOADING or not told.is_kept(model):
            continue
        if must_leave(world, worker, model) or (thing.stage is Stage.LOADING and _is_stuck(world, worker, model)):
            continue
        if _has_outgrown(world, effect.worker, model) or (thing.stage is Stage.PARKED and _is_asked_for(world, model)):
            continue  # in the second case it cannot come back where it was, and is loaded elsewhere
        return f"{model} is pinned or resident, and {effect} is ordered"
    return None


def _is_asked_for(world: World, model: str) -> bool:
    asked = (p.fields["model"] for p in world.control.by_number.values() if p.kind in (events.Get, events.Load))
    return any(world.manager.told.resolve(name) == model for name in asked)


def _is_stuck(world: World, worker: ToldWorker, model: str) -> bool:
    timeout_s = worker.spec.load_timeout_s if worker.spec is not None else None
    return timeout_s is not None and world.clock.now >= worker.objects[model].heard + timeout_s


def quantum_is_served(world: World, effect: effects.Drain) -> str | None:
    """A model that is neither asked to leave nor idle leaves for a rival, and may not do so too soon."""
    worker = world.manager.told.workers[effect.worker]
    if (
        must_leave(world, worker, effect.model)
        or _is_idle(world, effect)
        or _has_outgrown(world, effect.worker, effect.model)
        or worker.objects[effect.model].guess is not None
    ):
        return None
    thing = worker.objects[effect.model]
    spec = world.manager.told.spec_of(effect.model)
    quantum_s = max(spec.min_residency_s if spec is not None else 0.0, 2 * thing.load_s)
    if world.clock.now < thing.ready_at + quantum_s - A_MOMENT_S:
        served = world.clock.now - thing.ready_at
        return f"{effect.model} is evicted after {served:.3f} s, and its quantum is {quantum_s:.3f} s"
    return None


def busy_is_not_asked_again(world: World, effect: effects.Drain) -> str | None:
    """Who said that he is busy is not asked in the same breath, for a rival, whether he still is."""
    worker = world.manager.told.workers[effect.worker]
    said_busy = worker.objects[effect.model].said_busy
    if effect.finish or must_leave(world, worker, effect.model) or _is_idle(world, effect):
        return None
    if world.clock.now < said_busy + IN_ONE_BREATH_S:
        return f"{effect} is ordered {world.clock.now - said_busy:.4f} s after its worker said that it is busy"
    return None


def nothing_leaves_without_cause(world: World, effect: effects.Drain) -> str | None:
    told = world.manager.told
    worker = told.workers[effect.worker]
    if must_leave(world, worker, effect.model) or _is_idle(world, effect):
        return None
    if any(pending.kind in (events.Get, events.Load, events.Reserve) for pending in world.control.by_number.values()):
        return None
    if any(_is_still_wanted(world, model) for model in world.control.in_vain):
        return None
    if any(spec.tier is Tier.RESIDENT and not told.serves(spec.key) for spec in told.config.models.values()):
        return None
    if any(told.books.is_over(device) for device in told.books.entries[effect.worker].booking):
        return None
    if told.pressed or _has_outgrown(world, effect.worker, effect.model):
        return None
    if _leaves_for_a_guess(world, effect.model):
        return None  # `about_guesses` says who may
    return f"{effect} is ordered; {effect.model} is not idle, and nobody waits"


def _leaves_for_a_guess(world: World, model: str) -> bool:
    notes = [note for note in world.manager.steps[-1][2] if isinstance(note, effects.Note)]
    reasons = [note.reason or "" for note in notes if note.kind == "draining" and note.model == model]
    return any(
        reason.startswith("room for ") and about_guesses.is_guessed_at(world, reason.removeprefix("room for "))
        for reason in reasons
    )


def _is_still_wanted(world: World, model: str) -> bool:
    """A fallback has answered for it, and its load goes on."""
    limit_s = world.manager.told.config.settings.first_call_timeout_s or 0.0
    return not world.manager.told.serves(model) and world.clock.now <= world.control.in_vain[model] + limit_s


def _has_outgrown(world: World, worker: str, model: str) -> bool:
    """It is to be ended when it is idle, as it uses much more than it was booked with."""
    spec = world.manager.told.spec_of(model)
    entry = world.manager.told.books.entries[worker]
    measured = [*entry.load_peak.items(), *entry.service_peak.items()]
    grown = any(n > OUTGROWN * entry.promised.get(device, n) for device, n in measured)
    return spec is not None and spec.hard_limit and (grown or not entry.is_new)


def crowded_devices_shrink(world: World, _: events.Event) -> str | None:
    """Where a device has been too full for a while, with nothing on its way out, nothing idle is left."""
    told, now = world.manager.told, world.clock.now
    for device in told.books.seen:
        is_over = told.has_host and told.books.is_over(device)
        if not is_over or _anything_leaves(world, device):
            told.over_since.pop(device, None)
        elif now > told.over_since.setdefault(device, now) + A_WHILE_S:
            for name, worker in told.workers.items():
                entry = told.books.entries.get(name)
                if entry is not None and entry.booking.get(device) and _may_go(world, name, worker):
                    held = f"{told.books.booked_by_core(device)} of {device} are booked"
                    return f"{held}, {told.books.sure_most(device)} may be, and {world.workers[name]} stays"
            locks = told.books.locks if device == RAM else {}
            if any(not lock.leaves and told.books.freed_by(model) for model, lock in locks.items()):
                return f"{device} holds too much, and {locks} are locked"
    return None


def _anything_leaves(world: World, device: str) -> bool:
    locks = world.manager.told.books.locks.values() if device == RAM else ()
    return any(_leaves(world, name, device) for name in world.workers) or any(lock.leaves for lock in locks)


def _leaves(world: World, name: str, device: str) -> bool:
    """A worker on this device is on its way out, as far as the core has ordered and heard."""
    worker = world.manager.told.workers.get(name)
    entry = world.manager.told.books.entries.get(name)
    if entry is not None and not entry.booking.get(device):
        return False
    if worker is None or worker.stopping or not worker.objects:
        return True
    return all(thing.drain is not None or thing.stage is Stage.UNLOADING for thing in worker.objects.values())


def _may_go(world: World, name: str, worker: ToldWorker) -> bool:
    """All in it has been ready, idle and past its quantum for a while, and nothing is kept."""
    told, now = world.manager.told, world.clock.now
    if name not in world.workers or world.workers[name].protected_leases() or told.stop_deadline is not None:
        return False  # in the first case the news of its end is on the way
    waited_for = [told.resolve(p.fields["model"]) for p in world.control.by_number.values() if "model" in p.fields]
    for model, thing in worker.objects.items():
        spec = told.spec_of(model)
        if thing.stage is not Stage.READY or spec is None or told.is_kept(model) or model in waited_for:
            return False
        free_at = max(thing.ready_at + max(spec.min_residency_s, 2 * thing.load_s), thing.used, thing.said_busy)
        if now < free_at + A_WHILE_S:
            return False
    return True


def _is_idle(world: World, effect: effects.Drain) -> bool:
    """As far as the core was told, its idle time is over; or it is transient and nobody has a lease on it."""
    worker = world.workers.get(effect.worker)
    known = worker.objects.get(effect.model) if worker is not None else None
    spec = world.manager.told.spec_of(effect.model)
    if worker is None or known is None or spec is None or worker.was_silent:
        return True  # Its exit is on the way, or the manager could not know of all leases.
    if spec.tier is Tier.TRANSIENT and not any(_is_somebodys(world, name) for name in known.leases):
        return True
    if effect.model in world.manager.told.restarted:
        return True  # Its idle time goes on from before it was restarted.
    thing = world.manager.told.workers[effect.worker].objects[effect.model]
    return world.clock.now + A_MOMENT_S >= idle_at(world, effect.model, spec, thing)


def idle_at(world: World, model: str, spec: ModelSpec, thing: ToldObject) -> float:
    """When it may leave as idle, at the earliest, if nobody comes.

    A written idle time holds. Without one it is what its habit says; what a schedule names is kept longer by it.
    """
    timeout_s = float("inf") if spec.idle_timeout_s is None else spec.idle_timeout_s
    expectations = world.manager.told.expectations
    if thing.guess is not None:
        return thing.guess.until
    if spec.idle_written or spec.idle_timeout_s is None or spec.prewarm.when is PrewarmWhen.OFF:
        return thing.used + timeout_s
    if expectations.is_due(model):
        return float("inf")
    is_learned = spec.prewarm.when is PrewarmWhen.LEARNED and expectations.spans(model) is not None
    return thing.used + (min(about_guesses.SETTLE_S, timeout_s) if is_learned else timeout_s)


def _is_somebodys(world: World, lease: str) -> bool:
    """Its owner has not given it back, and it was presented or may still be."""
    truth = world.leases[lease]
    may_be_presented = world.clock.now < max(truth.granted + UNPRESENTED_S, truth.hold_until)
    return not truth.given_back and (truth.presented or may_be_presented)


def unloaded_is_free(world: World, effect: effects.Answer) -> str | None:
    if not isinstance(effect.outcome, answers.Unloaded):
        return None
    arrived = world.control.by_number[effect.request].arrived
    for worker in world.workers.values():
        for known in worker.objects.values():
            is_meant = known.model in effect.outcome.unloaded and known.since < arrived
            if is_meant and (known.state not in ("loading", "warming") or worker.ordered_to_stop):
                return f"{known.model} is told to be freed, and {worker} still has it"
    return None
