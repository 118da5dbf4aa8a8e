"""What must hold after every event: one small function each, and the sentence it comes from.

A check looks at an effect before it is carried out, or at the world after an event. It returns
what is wrong, or None. The sentences are those of docs/architecture.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lazyd.core import answers, effects, events, view
from lazyd.core.spec import Tier

from .truth import Violation

if TYPE_CHECKING:
    from .world import World

LOOK_EVERY = 25

Check = Callable[["World", Any], str | None]


@dataclass(frozen=True, slots=True)
class Invariant:
    name: str
    sentence: str
    effects: tuple[type[effects.Effect], ...] = ()
    """Kinds of effects that `check` looks at; none: it looks at the world after each event."""
    check: Check | None = None
    """None: it is checked where the truth is, in the module that raises the `Violation`."""


def limit(world: World, device: str) -> int:
    """What bookings may reach on a device, by the last configuration and sample that the core was told of."""
    told = world.manager.told
    seen, settings = told.devices[device], told.config.settings
    budget = settings.budget.get(device, seen.total_bytes)
    budget_bytes = int(budget * seen.total_bytes) if isinstance(budget, float) else budget
    margin = settings.gpu_margin_bytes if seen.kind == "cuda" else 0
    return min(budget_bytes, seen.total_bytes - margin - seen.foreign_bytes)


def admission_fits(world: World, effect: effects.StartWorker) -> str | None:
    booking = world.booked_in(effect.memo)
    if set(booking) != set(effect.devices) or not booking:
        return f"{effect.worker} is booked on {booking} and is to use {effect.devices}"
    for device, n in booking.items():
        booked, most = world.booked(device), limit(world, device)
        if booked + n > most:
            return f"{effect.model} is given {n} of {device}: {booked} are booked and {most} is the limit"
    return None


def loads_wait_for_the_host(world: World, effect: effects.StartWorker) -> str | None:
    return None if world.manager.told.has_host else f"{effect.worker} is started, and no host is there"


def one_load(world: World, effect: effects.LoadObject) -> str | None:
    for name, worker in world.manager.told.workers.items():
        if effect.model in worker.loading and not worker.stopping:
            return f"{effect.model} is loaded by {effect.worker}, and {name} loads it already"
        if effect.model in worker.ready and not worker.stopping and world.manager.told.is_current(worker, effect.model):
            return f"{effect.model} is loaded by {effect.worker}, and {name} has it already"
    return None


def family_keeps_its_limit(world: World, effect: effects.LoadObject) -> str | None:
    told = world.manager.told
    worker = told.workers[effect.worker]
    spec = told.config.models.get(worker.key)
    if spec is None or spec.max_loaded is None:
        return None
    inside = {**worker.loading, **worker.ready, **worker.unloading}
    if len(inside) >= spec.max_loaded:
        return f"{effect.model} joins {sorted(inside)}, and max_loaded is {spec.max_loaded}"
    return None


def answered_once(world: World, effect: effects.Answer | effects.Progress) -> str | None:
    if effect.request not in world.control.by_number:
        return f"request {effect.request} is not waiting for an answer"
    return None


def answered_in_time(world: World, event: events.Event) -> str | None:
    now = world.clock.now
    for pending in world.control.by_number.values():
        if pending.deadline is not None and (pending.deadline < now or world.manager.deadline > pending.deadline):
            return f"{pending} is not answered at {now}, and the next alarm is at {world.manager.deadline}"
    return None


def wait_is_bounded(world: World, event: events.Event) -> str | None:
    if isinstance(event, events.Get | events.Load):
        pending = world.control.by_number.get(event.request)
        if pending is not None:
            pending.bound_s = world.bound.of(world, pending)
    now = world.clock.now
    for pending in world.control.by_number.values():
        if pending.bound_s and now - pending.arrived > pending.bound_s:
            return f"{pending} has waited for {now - pending.arrived:.2f} s, the bound is {pending.bound_s:.2f} s"
    return None


def ready_answers_at_once(world: World, event: events.Event) -> str | None:
    told = world.manager.told
    if told.stop_deadline is not None:
        return None
    for pending in world.control.by_number.values():
        if pending.kind in (events.Get, events.Load):
            key = told.resolve(pending.fields["model"])
            if key is not None and told.ready_worker(key) is not None:
                return f"{pending} waits, and {key} is ready"
    return None


def busy_is_protected(world: World, effect: effects.StopWorker | effects.UnloadObject) -> str | None:
    worker = world.workers.get(effect.worker)
    if worker is None:
        return None
    only = effect.model if isinstance(effect, effects.UnloadObject) else None
    for lease in worker.protected_leases():
        if (only is None or lease.model == only) and not world.may_end_calls(worker, lease.model):
            return f"{lease.model} in {worker} leaves, and {lease.lease} is busy, fresh or held"
    return None


def lease_is_not_taken(world: World, effect: effects.Withdraw) -> str | None:
    lease = world.leases.get(effect.lease)
    if lease is None or lease.is_over:
        return None
    if any(p.kind is events.Release and p.fields["lease"] == effect.lease for p in world.control.by_number.values()):
        return None
    if lease.presented or lease.is_protected(world.clock.now):
        return f"{effect.lease} on {lease.model} is withdrawn, and its owner still has it"
    return None


def kept_is_not_evicted(world: World, effect: effects.Drain | effects.UnloadObject | effects.StopWorker) -> str | None:
    told = world.manager.told
    worker = told.workers[effect.worker]
    if told.stop_deadline is not None or worker.stopping:
        return None
    inside = (*worker.loading, *worker.ready)
    for model in inside if isinstance(effect, effects.StopWorker) else (effect.model,):
        if model not in inside or not told.is_kept(model) or told.is_named(worker.key, model) or not told.is_current(worker, model):
            continue
        silent_since = worker.loading.get(model)
        timeout_s = worker.spec.load_timeout_s if worker.spec is not None else None
        if silent_since is not None and timeout_s is not None and world.clock.now >= silent_since + timeout_s:
            continue  # No progress: that load has failed.
        return f"{model} is pinned or resident, and {effect} is ordered"
    return None


def names_what_exists(world: World, effect: Any) -> str | None:
    worker = world.manager.told.workers.get(effect.worker)
    if worker is None:
        return f"{effect} names a worker that is gone"
    if worker.stopping and isinstance(effect, effects.LoadObject | effects.Grant | effects.Drain | effects.Resume):
        return f"{effect} names a worker that was told to stop"
    return None


def granted_is_valid(world: World, effect: effects.Grant | effects.Answer) -> str | None:
    told = world.manager.told
    if isinstance(effect, effects.Grant):
        worker = told.workers[effect.worker]
        if effect.model not in worker.ready:
            return f"{effect} names a model that is not ready"
        if effect.model in worker.drains and effect.parent is None:
            return f"{effect} names a model that drains"
        return None
    outcome = effect.outcome
    if not isinstance(outcome, answers.Granted):
        return None
    lease, pending = world.leases.get(outcome.lease), world.control.by_number[effect.request]
    if lease is None or (lease.token, lease.worker.id) != (outcome.token, outcome.worker):
        return f"{outcome} was never granted so to a worker"
    key = f"{outcome.model}:{outcome.version}" if outcome.version else outcome.model
    if lease.model != key or told.resolve(pending.fields["model"]) != key or lease.holder != pending.fields["holder"]:
        return f"{outcome} is not what {pending} asked for"
    return None


def loaded_is_true(world: World, effect: effects.Answer) -> str | None:
    pending = world.control.by_number[effect.request]
    if not isinstance(effect.outcome, answers.Loaded):
        return None
    key = world.manager.told.resolve(pending.fields["model"])
    ready = any(key in worker.ready for worker in world.manager.told.workers.values() if not worker.stopping)
    return None if ready else f"{pending} is told that the model is loaded"


def unloaded_is_free(world: World, effect: effects.Answer) -> str | None:
    if not isinstance(effect.outcome, answers.Unloaded):
        return None
    arrived = world.control.by_number[effect.request].arrived
    for worker in world.workers.values():
        for known in worker.objects.values():
            if known.model in effect.outcome.unloaded and known.since < arrived:
                if known.state != "loading" or worker.ordered_to_stop:
                    return f"{known.model} is told to be freed, and {worker} still has it"
    return None


def only_the_holder_releases(world: World, effect: effects.Answer) -> str | None:
    pending = world.control.by_number[effect.request]
    if pending.kind is not events.Release or not isinstance(effect.outcome, answers.Done):
        return None
    lease = world.leases.get(pending.fields["lease"])
    if lease is None or lease.holder != pending.fields["holder"]:
        return f"{pending} is answered Done"
    return None


def stop_is_a_stop(world: World, effect: effects.LoadObject | effects.StartWorker) -> str | None:
    return f"{effect} after a stop" if world.manager.told.stop_deadline is not None else None


def looking_changes_nothing(world: World, event: events.Event) -> str | None:
    if world.manager.events % LOOK_EVERY:
        return None
    core, now = world.manager.core, world.clock.now
    before = (repr(core), core.next_deadline())
    shown = view.devices(core), view.models(core, now), view.model(core, "strategy/never-heard-of", now)
    if (repr(core), core.next_deadline()) != before:
        return f"the core was {before} and is {core!r}, {core.next_deadline()} after {event}"
    for device in shown[0] if world.manager.told.has_host else ():
        really = sum(world.workers[w].booked.get(device.name, 0) for w in world.manager.told.workers if w in world.workers)
        if device.booked_bytes < really:
            return f"{device} is shown, and {really} are really booked"
    return None


WITH_A_WORKER = (
    effects.StopWorker,
    effects.LoadObject,
    effects.UnloadObject,
    effects.Grant,
    effects.Withdraw,
    effects.Drain,
    effects.Resume,
)
ENDS = (effects.StopWorker, effects.UnloadObject)

INVARIANTS: tuple[Invariant, ...] = (
    Invariant(
        "answered_once",
        "every request is answered exactly once",
        (effects.Answer, effects.Progress),
        answered_once,
    ),
    Invariant(
        "names_what_exists",
        "The new manager asks the host for its workers (an order never names a worker that is gone)",
        WITH_A_WORKER,
        names_what_exists,
    ),
    Invariant(
        "admission_fits",
        "no admission makes booked + foreign + margin exceed the device",
        (effects.StartWorker,),
        admission_fits,
    ),
    Invariant(
        "loads_wait_for_the_host",
        "Before HostFound loads wait",
        (effects.StartWorker,),
        loads_wait_for_the_host,
    ),
    Invariant("one_load", "at most one load of a model version is under way", (effects.LoadObject,), one_load),
    Invariant(
        "family_keeps_its_limit",
        "its objects come and go inside it (max_loaded)",
        (effects.LoadObject,),
        family_keeps_its_limit,
    ),
    Invariant(
        "busy_is_protected",
        "nothing with a call in flight or a fresh lease is unloaded (a forced unload aside)",
        ENDS,
        busy_is_protected,
    ),
    Invariant(
        "lease_is_not_taken",
        "until its first call (5 s at most) it cannot be revoked; then that connection is the lease",
        (effects.Withdraw,),
        lease_is_not_taken,
    ),
    Invariant(
        "kept_is_not_evicted",
        "no pinned model is evicted; resident: loaded at start and always",
        (effects.Drain, *ENDS),
        kept_is_not_evicted,
    ),
    Invariant(
        "granted_is_valid",
        "The lease exists before `ready` is visible (the worker hears of it before the client)",
        (effects.Grant, effects.Answer),
        granted_is_valid,
    ),
    Invariant("loaded_is_true", "Load answers once the model is ready", (effects.Answer,), loaded_is_true),
    Invariant(
        "unloaded_is_free",
        "its bytes stay booked until they are seen to be free",
        (effects.Answer,),
        unloaded_is_free,
    ),
    Invariant(
        "only_the_holder_releases",
        "Only the uid that got a lease may release it",
        (effects.Answer,),
        only_the_holder_releases,
    ),
    Invariant(
        "stop_is_a_stop",
        "on a stop waiters are answered ShuttingDown and calls drained",
        (effects.LoadObject, effects.StartWorker),
        stop_is_a_stop,
    ),
    Invariant("answered_in_time", "every request is answered within its deadline", (), answered_in_time),
    Invariant(
        "wait_is_bounded",
        "every waiting request is served or refused within the stated bound",
        (),
        wait_is_bounded,
    ),
    Invariant(
        "ready_answers_at_once",
        "The hot path never queues behind another model's load or unload; waiters are always woken",
        (),
        ready_answers_at_once,
    ),
    Invariant(
        "looking_changes_nothing",
        "Looking never loads, wakes or refreshes anything",
        (),
        looking_changes_nothing,
    ),
    Invariant("core_never_raises", "Transitions stand in one table; anything else is a bug and raises"),
    Invariant("timers_move_on", "next_deadline says when a Tick is due: after the Tick it is later"),
    Invariant("everything_is_answered", "waiters are always woken: in peace no request stays"),
    Invariant("idle_gets_cold", "with no requests left, everything on-demand is cold after its idle time"),
    Invariant("nothing_lingers", "Per device the ledger knows what is booked: at rest, what is really there and no more"),
    Invariant("residents_stand", "A resident is a standing request: loaded at start and always"),
    Invariant("stop_frees_everything", "a stop frees everything"),
)

NAMES = frozenset(invariant.name for invariant in INVARIANTS)
CHECKS = [(invariant.name, invariant.effects, invariant.check) for invariant in INVARIANTS if invariant.check]
BY_EFFECT: dict[type, list[tuple[str, Check]]] = {}
for _name, _kinds, _check in CHECKS:
    for _kind in _kinds:
        BY_EFFECT.setdefault(_kind, []).append((_name, _check))
AFTER = [(name, check) for name, kinds, check in CHECKS if not kinds]


def check_effect(world: World, effect: effects.Effect) -> None:
    for name, check in BY_EFFECT.get(type(effect), ()):
        problem = check(world, effect)
        if problem is not None:
            raise Violation(name, problem)


def check_after(world: World, event: events.Event) -> None:
    for name, check in AFTER:
        problem = check(world, event)
        if problem is not None:
            raise Violation(name, problem)


def stays_loaded(world: World, key: str) -> bool:
    """What may be in memory although nobody asks for it."""
    told = world.manager.told
    spec = told.spec_of(key)
    return spec is not None and (told.is_kept(key) or (spec.idle_timeout_s is None and spec.tier is not Tier.TRANSIENT))
