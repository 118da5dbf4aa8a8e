"""Wrong versions of the core's functions, for `mutations`: each is one plausible mistake."""

from __future__ import annotations

from typing import Any
from unittest import mock

import msgspec

from lazyd.core import (
    alarms,
    configuring,
    core,
    deaths,
    eviction,
    expecting,
    fallbacks,
    growth,
    guesses,
    leases,
    ledger,
    lives,
    locks,
    plans,
    prewarming,
    records,
    remembering,
    reports,
    reservations,
    room,
    rules,
    strangers,
    unloads,
    view,
    waiting,
    world,
)
from lazyd.core.answers import Done, Loaded, NoRoom
from lazyd.core.effects import Drain
from lazyd.core.lifecycle import State


def released_at_stop(w: world.World, worker: records.Worker, grace_s: float) -> None:
    STOP_WORKER(w, worker, grace_s)
    w.ledger.rebook(worker.id, {}, w.now)


def answered_twice(self: world.World, request: int, outcome: Any) -> None:
    ANSWER(self, request, outcome)
    ANSWER(self, request, outcome)


def evicts_what_is_kept(w: world.World, instance: records.Instance, **how: Any) -> bool:
    if instance.model.kept and instance.leaving is None and instance.state is State.READY:
        return not instance.model.waiters and instance.protected_until <= w.now
    return MAY_LEAVE(w, instance, **how)


def goes_although_kept(victim: records.Instance, plan: records.Plan) -> bool:
    return victim.state is not State.READY and (victim.leaving is None or victim.leaving.plan is plan)


def idle_although_kept(instance: records.Instance, *more: Any) -> float | None:
    return instance.last_used + 5.0 if instance.model.kept else IDLE_UNTIL(instance, *more)


def idle_too_soon(instance: records.Instance, *_: Any) -> float | None:
    return None if instance.model.kept else instance.protected_until


def transient_like_others(instance: records.Instance, *_: Any) -> float | None:
    return None if instance.model.kept else instance.last_used + (instance.model.spec.idle_timeout_s or 0.0)


def leaves_without_asking(
    w: world.World, instance: records.Instance, reason: records.Reason, *, finish: bool, plan: Any = None
) -> None:
    DRAIN(w, instance, reason, finish=finish, plan=plan)
    if instance.leaving is not None:
        instance.leaving.drained = True
    w.out[:] = [effect for effect in w.out if not isinstance(effect, Drain)]


def load_although_loading(w: world.World, model: records.Model) -> None:
    WANT(w, model)
    if model.instance is not None and model.instance.state is State.LOADING and len(model.waiters) > 1:
        w.wanting[model.key] = model


def grant_after_the_answer(
    w: world.World, instance: records.Instance, waiter: records.Waiter, *, cold_start: bool
) -> None:
    GRANT(w, instance, waiter, cold_start=cold_start)
    w.out[-2], w.out[-1] = w.out[-1], w.out[-2]


def grant_without_hold(w: world.World, instance: records.Instance, waiter: records.Waiter, *, cold_start: bool) -> None:
    waiter.hold_s = 0.0
    GRANT(w, instance, waiter, cold_start=cold_start)


def release_by_anybody(w: world.World, event: Any) -> None:
    lease = w.leases.get(event.lease)
    if lease is not None:
        lease.holder = event.holder
    RELEASE(w, event)


def leaves_one_line(w: world.World, waiter: records.Waiter) -> None:
    if waiter is waiter.model.wish:
        waiting.drop_wish(w, waiter.model)
        return
    w.waiters.pop(waiter.request, None)
    w.alarms.clear(("deadline", waiter.request))
    waiting.step_out(w, waiter)


FALLBACKS_FIRST = (fallbacks.look, *(rule for rule in rules.RULES if rule is not fallbacks.look))


def waiting_for_no_host(w: world.World) -> None:
    w.host_found = True
    MAKE_ROOM(w)


def two_places_more(w: world.World, spec: Any) -> None:
    OFFER_PLACES(w, spec)
    if spec.max_loaded:
        device = w.ledger.devices[ledger.slots_of(spec.key)]
        device.budget_bytes = device.total_bytes = spec.max_loaded + 2


def loaded_before_ready(w: world.World, model: records.Model) -> None:
    for waiter in list(model.waiters) if model.instance is not None else []:
        if not waiter.lease_wanted:
            waiting.leave_line(w, waiter)
            w.answer(waiter.request, Loaded(state="ready", load_s=0.0))
    SERVE(w, model)


def looking_refreshes(c: core.Core, now: float) -> list[Any]:
    for instance in c.world.instances():
        instance.last_used = now
    return MODELS(c, now)


def illegal_step(w: world.World, instance: records.Instance, reason: str) -> None:
    SERVE_ON(w, instance, reason)
    w.enter(instance, State.LOADING)


def loads_although_stopping(w: world.World) -> None:
    with mock.patch.object(world.World, "stopping", False):
        SETTLE(w)


def forgets_the_room_alarm(self: alarms.Alarms, key: Any, when: float) -> None:
    if key != ("room",):
        SET(self, key, when)


def reports_without_an_end(w: world.World, event: Any) -> None:
    worker = w.workers.get(event.worker)
    if worker is not None and any(i.state is State.READY for i in worker.instances.values()):
        return
    WORKER_EXITED(w, event)


def all_are_stuck(_: world.World, waiting: dict[records.Instance, Any]) -> Any:
    return waiting


def full_is_too_small(w: world.World, model: records.Model, device_name: str, needed: int) -> Any:
    device = w.ledger.devices[device_name]
    if needed > device.free_bytes:
        return NoRoom(model=model.key, device=device_name, needed_bytes=needed, free_bytes=0, reason="full")
    return None


def nothing_is_unloaded_unasked(w: world.World, event: Any) -> None:
    reports.object_gone(w, w.instance(event.worker, event.model))


def only_memory_is_waited_for(*_: Any) -> bool:
    return False


def kept_on_any_device(*_: Any) -> Any:
    return ()


def one_plan_is_for_ever(w: world.World, plan: records.Plan) -> None:
    if not plan.committed:
        ADVANCE(w, plan)


ADVANCE, ANSWER, DRAIN, GRANT = plans.advance, world.World.answer, lives.drain, leases.grant
IDLE_UNTIL, MAKE_ROOM, MAY_LEAVE, MODELS = rules.own_time, room.make_room, eviction.may_leave, view.models
OFFER_PLACES, RELEASE, SERVE, SERVE_ON = configuring.offer_places, leases.release, rules.serve, lives.serve_on
SET, SETTLE, STOP_WORKER, WANT = alarms.Alarms.set, core.settle, lives.stop_worker, rules.want
WORKER_EXITED = deaths.worker_exited


def believed_at_once(w: world.World, device: Any, seen: Any) -> None:
    ACCOUNT(w, device, seen)
    device.sure_foreign_bytes = device.lower_bytes


def surely_foreign(w: world.World, device: Any, seen: Any) -> None:
    ACCOUNT(w, device, seen)
    device.foreign_bytes = device.sure_foreign_bytes


def rebooked_beside(self: ledger.Ledger, holder: str, booking: Any, now: float) -> None:
    before = dict(self.bookings[holder])
    REBOOK(self, holder, booking, now)
    self._add({name: n for name, n in before.items() if name not in booking}, 1)


def claims_are_new(w: world.World, event: Any) -> None:
    RESERVE(w, msgspec.structs.replace(event, resume=None))


def half_is_learned(worker: records.Worker, by_device: Any) -> Any:
    return AS_NEED(worker, {name: n // 2 for name, n in by_device.items()})


ACCOUNT, REBOOK = strangers.account, ledger.Ledger.rebook
AS_NEED, RESERVE = growth.as_need, reservations.reserve
BUDGET_ALONE = property(lambda device: device.budget_bytes)
NO_MARGIN = property(lambda device: min(device.budget_bytes, device.total_bytes - device.foreign_bytes))


def unfit_goes_on(w: world.World, model: records.Model, reason: str, failures: int, forgiven: int = 0) -> None:
    PAUSE(w, model, reason, failures, forgiven)
    if model.instance is not None and model.instance.warmup is records.Warmth.FAILED and not model.failures > 9:
        model.instance.warmup = records.Warmth.DONE
        model.retry_at = 0.0


def never_the_same(_: records.Model, worker: records.Worker) -> str:
    return worker.id


def remembers_no_warmups(w: world.World, event: Any) -> None:
    REMEMBERED(w, msgspec.structs.replace(event, warmed={}))


def settles_nothing(model: records.Model, left: float, now: float) -> Any:  # noqa: ARG001
    return SETTLE_GUESS(model, guesses.left_s(model, now), now)


def begins_in_silence(w: world.World, model: records.Model, placement: Any) -> None:
    BEGIN_GUESS(w, model, placement)
    w.out[:] = [effect for effect in w.out if getattr(effect, "kind", "") != "prewarm"]


def guess_is_a_use(w: world.World, model: records.Model, placement: Any) -> None:
    BEGIN_GUESS(w, model, placement)
    model.heat.used(w.now)


def guesses_stay(instance: records.Instance, *more: Any) -> float | None:
    return None if instance.guess is not None else IDLE_UNTIL(instance, *more)


def written_or_not(instance: records.Instance, now: float) -> float | None:
    """A span that has not ended counts beside what was written down."""
    until = KEPT_UNTIL(instance, now)
    ends = [span.end for span in expecting.spans(instance.model) or () if span.end > now]
    return until if until is None or not ends else max(until, ends[0])


def settled_is_enough(instance: records.Instance, now: float) -> float | None:
    known = expecting.spans(instance.model)
    return KEPT_UNTIL(instance, now) if known is None else instance.last_used + expecting.SETTLE_S


def books_no_files(w: world.World, wish: Any) -> None:
    files, wish.files = wish.files, {}
    BOOK_LOCK(w, wish)
    wish.files = files


def locks_beside(w: world.World, wish: Any, known: Any) -> None:  # noqa: ARG001
    locks.settle(w, wish, Done())


PAUSE, REMEMBERED, SETTLE_GUESS = lives.pause, remembering.remembered, guesses.settle
BEGIN_GUESS, KEPT_UNTIL, BOOK_LOCK = prewarming.begin, expecting.kept_until, locks.book


def expects_what_was_unloaded(model: records.Model) -> bool:
    with mock.patch.object(model, "dismissed", False):
        return MAY_BE_EXPECTED(model)


def guesses_are_kept(w: world.World, instance: records.Instance, **how: Any) -> bool:
    return instance.guess is None and MAY_LEAVE(w, instance, **how)


MAY_BE_EXPECTED = prewarming.may_be_expected


def unloaded_too_soon(w: world.World) -> None:
    for wish in w.unloads.values():
        for instance in [instance for instance in wish.pending if instance.state is State.UNLOADING]:
            wish.pending.remove(instance)
            wish.unloaded.append(instance.model.key)
    FREED(w)


FREED = unloads.freed
