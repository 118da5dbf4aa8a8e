"""Requests for a model: who waits, and until when. The rules (`rules.py`) answer them."""

from __future__ import annotations

from . import cost, expecting, fallbacks, held_up, leases, routes, waiting
from .answers import ModelNotFound, Outcome, ShuttingDown, Timeout
from .events import Cancel, Get, Load
from .lifecycle import GONE, LOADS
from .records import FOREVER, NOBODY, Fetching, Lease, Model, Waiter
from .world import World


def get(world: World, event: Get) -> None:
    """A lease is wanted. One that was granted before the manager restarted may be claimed again."""
    lease = world.leases.get(event.lease) if event.lease else None
    model = wanted(world, event.request, event.model)
    if model is None:
        return
    if lease is not None and lease.holder == event.holder and is_for(lease, event.model, model):
        world.answer(event.request, leases.granted(lease, cold_start=False, waited_s=0.0))
        return
    route = routes.route_of(world, event.model)
    chosen = routes.choose(world, route, event.sticky) if route is not None else None
    wait(world, chosen or model, event, lease_wanted=True)


def is_for(lease: Lease, name: str, model: Model) -> bool:
    """Whether a lease is one on what is asked for."""
    return not lease.revoked and (lease.route == name or lease.instance.model.first is model)


def load(world: World, event: Load) -> None:
    """The model is to be ready; no lease is wanted."""
    model = wanted(world, event.request, event.model)
    if model is not None:
        wait(world, model, event, lease_wanted=False)


def wanted(world: World, request: int, name: str) -> Model | None:
    """The model, or None if the request has been refused."""
    if world.stopping:
        world.answer(request, ShuttingDown())
        return None
    model = world.find_named(name)
    if model is None:
        world.answer(request, ModelNotFound(model=name, nearest=world.nearest(name)))
    return model


def wait(world: World, model: Model, event: Get | Load, *, lease_wanted: bool) -> None:
    """Joins the model's line; the rules serve it at once if the model is ready."""
    deadline = event.deadline
    if deadline is None:
        widened = world.settings.first_call_timeout_s
        deadline = FOREVER if widened is None else world.now + widened
    waiter = Waiter(
        request=event.request,
        model=model,
        arrived=world.now,
        deadline=deadline,
        lease_wanted=lease_wanted,
        holder=event.holder if isinstance(event, Get) else 0,
        hold_s=event.hold_s if isinstance(event, Get) else 0.0,
        parent=parent_of(world, event),
        limit=event.deadline,
        route=event.model if event.model in world.routes else None,
        sticky=event.sticky if isinstance(event, Get) else None,
    )
    if lease_wanted:
        expecting.arrived(world, model)
    waiting.join(world, waiter)


def parent_of(world: World, event: Get | Load) -> str | None:
    """The lease under whose call it is asked for. Which leases there are is not known before the host is found."""
    parent = event.parent if isinstance(event, Get) else None
    return parent if parent in world.leases or not world.host_found else None


def forget_unknown_parents(world: World) -> None:
    """The host is found: requests that came before name leases that there are, or are not nested."""
    for waiter in [waiter for model in world.models.values() for waiter in model.waiters]:
        if waiter.parent not in world.leases:
            waiter.parent = None


def watch_deadline(world: World, waiter: Waiter) -> None:
    """Only a request that really waits needs an alarm."""
    if waiter.deadline != FOREVER and waiter.request != NOBODY:
        world.alarms.set_by(("deadline", waiter.request), waiter.deadline)


def answer_all(world: World, model: Model, outcome: Outcome) -> None:
    """All who wait for a model get the same answer, unless a fallback takes its place."""
    for waiter in list(model.waiters):
        fallbacks.refuse(world, waiter, outcome)


def deadline_passed(world: World, request: int) -> None:
    """A request has waited as long as it would (an alarm). The load goes on."""
    waiter = world.waiters.get(request)
    if waiter is None:
        return
    detour = waiter.detour
    model, asked = (waiter.model, waiter.arrived) if detour is None else (detour.wanted, detour.asked)
    reasons = held_up.held_up(world, model, devices=1)
    waiting.leave_line(world, waiter)
    timeout = Timeout(
        model=model.key,
        phase=phase(model),
        timeout_sec=max(0.0, waiter.deadline - asked),
        reason="; ".join(reasons) or None,
        expected_sec=cost.left_s(model, world.now),
    )
    refusal = detour.refusal if detour is not None else None
    world.answer(request, refusal or timeout)


def phase(model: Model) -> str:
    """What a waiting request waits for."""
    instance = model.instance
    if isinstance(model.prediction, Fetching):
        return "fetching"
    if instance is None or instance.state in GONE:
        return "queued"
    return instance.phase if instance.state in LOADS else str(instance.state)


def cancel(world: World, event: Cancel) -> None:
    """A client that waited for a model has gone. The load goes on without it."""
    waiter = world.waiters.get(event.request)
    if waiter is not None:
        waiting.leave_line(world, waiter)
