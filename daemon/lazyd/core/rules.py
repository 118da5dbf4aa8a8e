"""The rules about one model, such as how long it is kept, in the order in which they are applied to it.

After every event each model that was touched is looked at by every rule in `RULES`. A rule
compares what is with what should be and takes at most one step; a step touches the model again,
so the rules run until nothing is left to do. Making room concerns all models at once and
follows after (`room.py`).
"""

from __future__ import annotations

from collections.abc import Callable

from . import (
    cost,
    cycles,
    expecting,
    fallbacks,
    guesses,
    leases,
    lives,
    parking,
    plans,
    prewarming,
    promotions,
    replicas,
    requests,
    routes,
    swaps,
    unloads,
    uses,
    waiting,
    wear,
)
from .answers import Loaded, LoadFailed, ModelNotFound, ShuttingDown
from .lifecycle import LOADS, PARKS, State
from .records import FOREVER, NOBODY, Absent, Instance, Model, Prediction, Reason, Waiter, Warmth, Worker
from .spec import Tier
from .world import World


def must_leave(world: World, model: Model) -> Reason | None:
    """Why a loaded model has to go, whoever uses it."""
    instance = model.instance
    if world.stopping:
        return Reason.STOPPING
    if model.retired and not routes.answers_meanwhile(model):
        return Reason.REMOVED
    if instance is not None and is_on_lost_device(world, instance):
        return Reason.LOST
    if instance is not None and instance.outdated:
        return Reason.CHANGED
    if instance is not None and unloads.names_it(world, instance):
        return Reason.ASKED
    if instance is not None and instance.warmup is Warmth.FAILED:
        return Reason.UNFIT
    if instance is not None and wear.is_overdue(world, instance):
        return Reason.WORN
    return None


def is_on_lost_device(world: World, instance: Instance) -> bool:
    """The driver has lost a GPU that it is on."""
    return any(
        world.ledger.devices[gpu].lost is not None for gpu in instance.worker.gpus if gpu in world.ledger.devices
    )


def send_off(world: World, model: Model) -> None:
    """What must leave drains until its last call has ended, or leaves at once if it is forced to."""
    instance = model.instance
    reason = must_leave(world, model) if instance is not None else None
    if instance is None or reason is None:
        return
    if instance.state in LOADS or instance.state in PARKS:
        lives.unload(world, instance, reason, lives.ABORT_GRACE_S)
    elif instance.state in (State.READY, State.DRAINING):
        if reason is Reason.LOST or unloads.may_end_calls(world, instance):
            lives.unload(world, instance, reason, grace_s=0.0 if instance.in_flight else lives.GRACE_S)
        elif instance.leaving is None or not (instance.leaving.finish and instance.leaving.reason is reason):
            lives.drain(world, instance, reason, finish=True)


def let_stay(world: World, model: Model) -> None:
    """What had to leave, and need not any more, serves again: an unload that gave up, a pin in time."""
    instance = model.instance
    going = instance.leaving if instance is not None else None
    if instance is None or going is None:
        return
    if (going.reason in SPARES_KEPT and model.kept) or (going.reason in MUST and must_leave(world, model) is None):
        lives.resume(world, instance)


MUST = frozenset({Reason.ASKED, Reason.CHANGED, Reason.REMOVED, Reason.STOPPING, Reason.LOST, Reason.UNFIT})

YIELDS = frozenset({Reason.IDLE, Reason.REPLACED, Reason.CROWDED, Reason.PRESSURE, Reason.OUTGROWN})
"""Who leaves for these is rescued by the next request."""


SPARES_KEPT = YIELDS - {Reason.OUTGROWN}
"""What is kept does not leave for these."""


def let_go(world: World, model: Model) -> None:
    """What has drained unloads, unless somebody came for it in the meantime."""
    instance = model.instance
    if instance is None or instance.leaving is None or not instance.leaving.drained:
        return
    going = instance.leaving
    if instance.protected_until > world.now:
        # A nested lease was granted while the answer was on its way: it comes first.
        lives.drain_again(world, instance, going)
    elif going.reason in YIELDS and model.waiters:
        lives.resume(world, instance)
    elif going.reason is Reason.IDLE and parking.waits_for_sample(world, instance):
        return
    elif going.reason is Reason.IDLE and parking.may_park(world, instance):
        parking.park(world, instance, going.reason)
    elif going.reason is Reason.UNFIT:
        lives.end_failed(world, instance, instance.problem)
    elif going.plan is None:
        model.evictions += going.reason in (Reason.CROWDED, Reason.PRESSURE)
        if going.reason is Reason.WORN and not has_been_idle(world, instance):
            until = idle_until(world, instance)
            model.again_until = FOREVER if until is None else until
        lives.unload(world, instance, going.reason)


def turn_away(world: World, model: Model) -> None:
    """Nobody waits for what cannot come: the daemon stops, the model is gone, or it is paused."""
    if not model.waiters:
        return
    refusal: ShuttingDown | ModelNotFound | LoadFailed
    if world.stopping:
        refusal = ShuttingDown()
    elif model.retired and not routes.answers_meanwhile(model):
        refusal = ModelNotFound(model=model.key, nearest=world.nearest(model.key))
    elif model.retry_at > world.now and not (model.siblings and able(world, model)):
        reason = model.last_error or "unknown"
        refusal = LoadFailed(model=model.key, reason=reason, retry_after_sec=model.retry_at - world.now)
    else:
        return
    requests.answer_all(world, model, refusal)


def serve(world: World, model: Model) -> None:
    """A ready model answers all who wait for it; a nested request may enter a draining one."""
    instance = model.instance
    if model.siblings:
        instance = next(iter(able(world, model)), instance)
    if instance is None:
        return
    if model.elsewhere and instance.state is State.READY:
        waiting.come_back(world, model)
    if not model.waiters:
        return
    if instance.state is State.DRAINING and instance.leaving is not None:
        if yields(instance):
            lives.resume(world, instance)
        elif model.nested and instance.leaving.plan is not None and not finishes(instance):
            plans.abandon(world, instance.leaving.plan)
    for waiter in list(model.waiters):
        if waiter.detour is not None and fallbacks.wanted_answers(world, waiter):
            continue
        if instance.state is State.READY or (waiter.parent is not None and finishes(instance)):
            answer(world, instance_for(world, instance, waiter), waiter)


def able(world: World, model: Model) -> list[Instance]:
    """Of several workers those that can answer, the least busy first; or where none is open those that leave, and are
    rescued by the next request, so that none is loaded for it."""
    leaving = (life for life in model.lives if life.state is State.DRAINING and yields(life))
    return replicas.open_ones(model, world.now) or list(leaving)


def yields(instance: Instance) -> bool:
    """It leaves, and need not."""
    return instance.leaving is not None and instance.leaving.reason in YIELDS


def instance_for(world: World, instance: Instance, waiter: Waiter) -> Instance:
    """Of several workers the least busy one in which its call does not wait for itself."""
    if not instance.model.siblings:
        return instance
    lives_open = replicas.open_ones(instance.model, world.now)
    return next((life for life in lives_open if not cycles.closes_a_cycle(world, life, waiter)), instance)


def answer(world: World, instance: Instance, waiter: Waiter) -> None:
    """A lease for who wants one, unless its call would wait for itself."""
    if cycles.closes_a_cycle(world, instance, waiter):
        cycles.refuse_turn(world, instance, waiter)
        return
    if waiter.detour is not None:
        fallbacks.note_degraded(world, waiter)
    if waiter.detour is not None and waiter.detour.why is not None:
        fallbacks.leave_degraded(world, waiter)
    else:
        waiting.leave_line(world, waiter)
    if waiter.request == NOBODY:
        instance.last_used = world.now
    elif waiter.lease_wanted:
        leases.grant(world, instance, waiter, cold_start=waiter.arrived < instance.ready_since)
    else:
        instance.last_used = world.now
        world.answer(waiter.request, Loaded(state=str(instance.state), load_s=instance.load_s))


def finishes(instance: Instance) -> bool:
    """It finishes its calls, and has not yet said that it has."""
    going = instance.leaving
    return going is not None and going.finish and not going.drained


def want(world: World, model: Model) -> None:
    """A model is in the line for room while somebody waits for it and it has no life to wait for."""
    if model.wanted_since is not None and parking.is_away(world, model) and not model.retired and not world.stopping:
        world.wanting[model.key] = model
    else:
        if world.wanting.get(model.key) is model:  # not of a life that has been given up
            del world.wanting[model.key]
            if model.spec.uses:
                world.touch(model)  # and what it uses, which may not be wanted any more
    for waiter in model.waiters:
        requests.watch_deadline(world, waiter)


def retire_if_idle(world: World, model: Model) -> None:
    """A transient model leaves when its last lease has ended, any other when its idle time is over."""
    instance = model.instance
    if instance is None or instance.state is not State.READY or model.waiters:
        return
    ends_for = end_when_idle(instance)
    if ends_for is not None and end_idle(world, instance.worker, ends_for):
        return
    until = idle_until(world, instance)
    if until is None:
        return
    if until <= world.now:
        guesses.was_wrong(world, instance)
        lives.drain(world, instance, Reason.REPLACED if instance.replaced else Reason.IDLE, finish=False)
    elif until < float("inf"):
        world.alarms.set_by(("idle", instance.worker.id, model.key), until)


def end_when_idle(instance: Instance) -> Reason | None:
    """Why its worker is ended when it is idle, however short a time that is."""
    worker = instance.worker
    if worker.worn_since is not None and wear.why_worn(worker) is not None:
        return Reason.WORN
    return Reason.OUTGROWN if worker.outgrown and instance.model.spec.hard_limit else None


def end_idle(world: World, worker: Worker, reason: Reason) -> bool:
    """Ends a worker if all in it is idle; one object of a family alone would only be loaded into it again."""
    inside = list(worker.instances.values())
    if not all(i.state is State.READY and not i.model.waiters and may_end(world, i) for i in inside):
        return False
    for instance in inside:
        lives.drain(world, instance, reason, finish=False)
    return True


def has_been_idle(world: World, instance: Instance) -> bool:
    """It would have left for being idle by the time it were loaded again, or nobody has come for it at all."""
    until = idle_until(world, instance)
    again_at = world.now + cost.expected_load_s(world, instance)
    is_guess = instance.guess is not None and not instance.guess.again
    return is_guess or (until is not None and until <= again_at)


def end_parking(world: World, model: Model) -> None:
    """What has been parked for its time exits, unless it is kept or somebody waits for it."""
    instance = model.instance
    if instance is None or instance.state is not State.PARKED or model.kept or model.waiters:
        return
    until = parking.parked_until(instance)
    if until <= world.now:
        lives.unload(world, instance, "parked for long enough (park_timeout)")
    elif until < float("inf"):
        world.alarms.set_by(("park", instance.worker.id, model.key), until)


def give_up_parking(world: World, model: Model) -> None:
    """What takes longer to park than a load may stand still is ended: nothing tells how far it has come."""
    instance, timeout_s = model.instance, model.spec.load_timeout_s
    if instance is None or instance.state is not State.PARKING or timeout_s is None:
        return
    until = instance.since + timeout_s
    if until <= world.now:
        lives.unload(world, instance, f"it has not parked for {timeout_s:g} s (load_timeout)", lives.ABORT_GRACE_S)
    else:
        world.alarms.set_by(("park", instance.worker.id, model.key), until)


def may_end(world: World, instance: Instance) -> bool:
    """It is idle now, and was not busy a moment ago."""
    until = max(instance.protected_until, instance.ask_again)
    if world.now < until < float("inf"):
        world.alarms.set_by(("idle", instance.worker.id, instance.model.key), until)
    return until <= world.now


def idle_until(world: World, instance: Instance) -> float | None:
    """When an idle model has been idle long enough, at the earliest, and so have those that use it; None: never, as
    far as is known now."""
    keepers = uses.keepers(world, instance.model)
    moments = [own_time(instance, world.now)]
    moments += [idle_until(world, user) if user.state is State.READY else None for user in keepers]
    known = [moment for moment in moments if moment is not None]
    return max(known) if len(known) == len(moments) else None


def own_time(instance: Instance, now: float) -> float | None:
    """The same without those that use it."""
    model = instance.model
    if model.kept:
        return None
    if instance.replaced:
        return max(instance.ask_again, instance.protected_until)
    if model.spec.tier is Tier.TRANSIENT and instance.served and not instance.leases:
        return max(instance.last_used, instance.ask_again)
    guess = instance.guess
    until = guess.until if guess is not None and not guess.beside else expecting.kept_until(instance, now)
    if until is None:
        return None
    return until if until > now else max(until, instance.protected_until)


def forget_needs(world: World, model: Model) -> None:
    """What a load needs is asked anew when somebody wants it: its file may be another one by then."""
    if model.instance is not None or not isinstance(model.prediction, Prediction | Absent):
        return
    if model.wanted_since is None and model not in world.guesses and not uses.is_wanted_with(world, model):
        model.prediction = None


def forget_retired(world: World, model: Model) -> None:
    """A model that is no longer configured is forgotten when its last life has ended, and those of its replicas."""
    is_gone = not model.lives if model is model.first else model.instance is None
    if model.retired and is_gone and world.models.get(model.key) is model:
        del world.models[model.key]
        if model is not model.first:
            world.link(model.first.key)


def tell_progress(world: World, instance: Instance) -> None:
    """How far a load has come, for those who wait for it."""
    waiting.tell(world, instance.model, str(instance.state), instance.phase, instance.fraction)


RULES: tuple[Callable[[World, Model], None], ...] = (
    promotions.look,
    swaps.look,
    send_off,
    let_stay,
    let_go,
    turn_away,
    serve,
    want,
    fallbacks.look,
    retire_if_idle,
    end_parking,
    give_up_parking,
    prewarming.expect,
    forget_needs,
    forget_retired,
)
