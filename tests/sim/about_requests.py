"""Checks of requests: one answer each, in time, at once if the model is ready."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazyd.core import answers, effects, events, view

if TYPE_CHECKING:
    from .control import Pending
    from .world import World

A_MOMENT_S = 1e-6
LOOK_EVERY = 25
"""The core is looked at after every so many events."""


def answered_once(world: World, effect: effects.Answer | effects.Progress) -> str | None:
    if effect.request not in world.control.by_number:
        return f"request {effect.request} is not waiting for an answer"
    return None


def may_answer(world: World, pending: Pending, *, is_degraded: bool) -> list[str]:
    """The models that may: the one that is asked for, or, if the answer is marked, one of its chain of fallbacks."""
    chain = world.manager.told.chain(pending.fields["model"])
    return chain[1:] if is_degraded else chain[:1]


def degraded_is_true(world: World, effect: effects.Answer) -> str | None:
    """What is asked for was not ready, and had been waited for as long as it should be, or was refused."""
    outcome, told = effect.outcome, world.manager.told
    if not isinstance(outcome, answers.Granted | answers.Substituted) or outcome.degraded is None:
        return None
    pending = world.control.by_number[effect.request]
    key = told.resolve(pending.fields["model"]) or ""
    spec = told.spec_of(key)
    if pending.kind is not events.Get or spec is None or spec.fallback is None:
        return f"{pending} is answered with {outcome}, and nothing may stand in for {key}"
    if "a cycle of waiting" in outcome.degraded:
        return None  # It may be ready, but would wait for its caller.
    if told.serves(key):
        return f"{pending} is answered with {outcome}, and {key} is ready"
    limit_s = float("inf") if pending.deadline is None else pending.deadline - pending.arrived
    waits_s = min(spec.fallback.after_s, limit_s / 2)
    waited_s = world.clock.now - pending.arrived
    in_vain = key in world.control.in_vain or key in told.has_failed or "no room" in outcome.degraded
    if waited_s < waits_s - A_MOMENT_S and not in_vain:
        return f"{pending} is answered with {outcome} after {waited_s:.3f} s, and should wait for {waits_s:.3f} s"
    return None


def answered_in_time(world: World, _: events.Event) -> str | None:
    now, alarm = world.clock.now, world.manager.deadline
    for pending in world.control.by_number.values():
        if pending.deadline is not None and (pending.deadline < now or alarm > pending.deadline):
            return f"{pending} is not answered at {now}, and the next alarm is at {alarm}"
    return None


def wait_is_bounded(world: World, event: events.Event) -> str | None:
    if isinstance(event, events.Get | events.Load):
        pending = world.control.by_number.get(event.request)
        if pending is not None:
            pending.bound_s = world.bound.of(world)
    now = world.clock.now
    for pending in world.control.by_number.values():
        if pending.bound_s and now - pending.arrived > pending.bound_s:
            return f"{pending} has waited for {now - pending.arrived:.2f} s, the bound is {pending.bound_s:.2f} s"
    return None


def ready_answers_at_once(world: World, _: events.Event) -> str | None:
    told = world.manager.told
    if told.stop_deadline is not None:
        return None
    for pending in world.control.by_number.values():
        if pending.kind is events.Get or pending.kind is events.Load:
            key = told.resolve(pending.fields["model"])
            if key is not None and told.serves(key) and not _waits_for_another(world, pending, key):
                return f"{pending} waits, and {key} is ready"
    return None


def _waits_for_another(world: World, pending: Pending, key: str) -> bool:
    """A nested request whose turn would never come waits for the fallback, if there is one."""
    spec = world.manager.told.spec_of(key)
    return bool(pending.fields.get("parent")) and spec is not None and spec.fallback is not None


def looking_changes_nothing(world: World, event: events.Event) -> str | None:
    if world.manager.events % LOOK_EVERY:
        return None
    core, now = world.manager.core, world.clock.now
    before = fingerprint(world)
    view.devices(core)
    view.models(core, now)
    view.model(core, "strategy/never-heard-of", now)
    after = fingerprint(world)
    return None if before == after else f"the core was {before} and is {after}, after {event}"


def fingerprint(world: World) -> tuple[object, ...]:
    """What looking might change: what there is, what is due, and when things were last used."""
    core = world.manager.core
    used = [(i.model.key, i.state, i.last_used) for i in core.world.instances()]
    return repr(core), core.next_deadline(), list(core.world.models), list(core.world.touched), used


def found_is_kept(world: World, event: events.Event) -> str | None:
    """After a host was found, the ledger and, for a new manager, the leases are at least what was reported."""
    if not isinstance(event, events.HostFound):
        return None
    core, told = world.manager.core, world.manager.told
    for device in view.devices(core):
        really = told.books.booked(device.name)
        if device.booked_bytes < really:
            return f"{device} is shown, and what was found holds {really}"
    if told.hosts_found > 1:
        return None
    shown = {
        model.name + (f":{model.version}" if model.version else ""): model.leases for model in view.models(core, 0)
    }
    for report in event.workers:
        worker = told.workers[report.worker]
        for thing in report.objects:
            reported = sum(1 for lease in report.leases if lease.model == thing.model)
            serves = thing.state == "ready" and not worker.stopping and told.is_current(worker, thing.model)
            if serves and told.serves(thing.model) and shown.get(thing.model, 0) < reported and not told.unloads:
                return f"{thing.model} is shown with {shown.get(thing.model)} leases, and was found with {reported}"
    return None
