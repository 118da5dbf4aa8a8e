"""What answers in place of a model that cannot be had in time (docs/readiness.md: "Fallbacks").

A request that wants a lease takes the fallback of its model when it has waited for `after_s`, or for half of its own
limit if that is sooner; at once if the model is refused (`LoadFailed`, `NoRoom`), or if somebody has waited for
this load in vain already and it will take longer than `after_s` still. A value answers then. A model answers if it is
ready, or quick: no load of it is expected to take longer than what is left of the wanted one's. It is loaded
into room that the wanted one does not need (`seekers.py`). Until it is ready the request stands in both lines, and
whoever is ready first answers. A fallback that cannot be had, or not in its own `after_s`, gives way to its own
fallback, and so on.

The wanted model's load goes on, whoever has answered. A load or a warm-up that was asked for is never degraded.
"""

from __future__ import annotations

from . import cost, waiting
from .answers import LoadFailed, NoRoom, Outcome, Refusal, ShuttingDown, Substituted
from .lifecycle import LOADS, SERVES, State
from .names import split
from .records import FOREVER, Detour, Model, Waiter
from .wording import duration
from .world import World

INSTEAD_OF = (LoadFailed, NoRoom)
"""Refusals that a fallback takes the place of."""

LOOK_AGAIN_S = 1.0
"""When the wanted model should have been ready, and for so long at least, nothing else is looked for."""


def look(world: World, model: Model) -> None:
    """A rule about one model: who has waited long enough for it takes its fallback."""
    if model.spec.fallback is None:
        return
    for waiter in list(model.waiters):
        if not waiter.lease_wanted or wanted_answers(world, waiter):
            continue
        if waiter.falls_back is None:
            waiter.falls_back = moment(world, waiter, model.spec.fallback.after_s)
        if waiter.falls_back <= world.now:
            take(world, waiter)
        if waiter.falls_back < FOREVER and world.waiters.get(waiter.request) is not None:
            world.alarms.set_by(("fallback", waiter.request, model.key), waiter.falls_back)


def moment(world: World, waiter: Waiter, after_s: float) -> float:
    """When a waiter takes the fallback."""
    model = waiter.model
    if model.wish is not None:
        left_s = cost.left_s(model, world.now)
        if left_s is None or left_s > after_s:
            return world.now
    after = waiter.arrived + after_s
    if waiter.limit is None:
        return after
    return min(after, waiter.arrived + max(0.0, waiter.limit - waiter.arrived) / 2)


def take(world: World, waiter: Waiter) -> None:
    """Goes along the chain of fallbacks up to the first that may answer. There may be none."""
    detour = detour_of(waiter)
    waiter.falls_back = FOREVER
    model, seen = waiter.model, {waiter.model}
    while (fallback := model.spec.fallback) is not None:
        if fallback.model is None:
            answer_with(world, waiter, fallback.value)
            return
        found = world.find(fallback.model)
        if found is None or found in seen or found in detour.tried:
            break
        model = found
        seen.add(model)
        if not may_come(world, model):
            detour.tried.append(model)
        elif is_quick(world, model, detour):
            detour.tried.append(model)
            stand(world, waiter, model, detour)
            return
    left_s = cost.left_s(waiter.model, world.now)
    if left_s is not None and detour.refusal is None:
        waiter.falls_back = world.now + max(left_s, LOOK_AGAIN_S)


def detour_of(waiter: Waiter) -> Detour:
    """What the waiters of a request share, from now on."""
    if waiter.detour is None:
        waiter.detour = Detour(wanted=waiter.model, asked=waiter.arrived, standing=[waiter], tried=[waiter.model])
    return waiter.detour


def stand(world: World, waiter: Waiter, model: Model, detour: Detour) -> None:
    """The request waits for this model, too."""
    other = Waiter(
        request=waiter.request,
        model=model,
        arrived=world.now,
        deadline=waiter.deadline,
        lease_wanted=True,
        holder=waiter.holder,
        hold_s=waiter.hold_s,
        parent=waiter.parent,
        limit=waiter.limit,
        detour=detour,
    )
    detour.standing.append(other)
    waiting.join(world, other)


def may_come(world: World, model: Model) -> bool:
    """Nothing is known that keeps it from being loaded."""
    return not model.retired and model.retry_at <= world.now and not world.stopping


def is_quick(world: World, model: Model, detour: Detour) -> bool:
    """It is ready, or will be before what is wanted, as far as that is known. What was refused is not waited for."""
    instance = model.instance
    if detour.refusal is not None or (instance is not None and instance.state in SERVES):
        return True
    left_s, wanted_s = cost.left_s(model, world.now), cost.left_s(detour.wanted, world.now)
    return left_s is None or wanted_s is None or left_s <= wanted_s


def answer_with(world: World, waiter: Waiter, value: object) -> None:
    """A value is the answer."""
    detour = detour_of(waiter)
    name, version = split(detour.wanted.key)
    outcome = Substituted(
        model=name, version=version, degraded=why(world, detour), waited_s=world.now - detour.asked, value=value
    )
    leave_degraded(world, waiter)
    world.answer(waiter.request, outcome)


def leave_degraded(world: World, waiter: Waiter) -> None:
    """The request leaves all lines; what it wanted is still to come."""
    detour = detour_of(waiter)
    if detour.refusal is None and not world.stopping:
        waiting.keep_wish(world, detour.wanted)
    waiting.leave_line(world, waiter)


def stands_in(waiter: Waiter) -> bool:
    """Its request wants another model."""
    return waiter.detour is not None and waiter.detour.wanted is not waiter.model


def wanted_answers(world: World, waiter: Waiter) -> bool:
    """The model that its request wants has just become ready as well, and comes first."""
    detour = waiter.detour
    if detour is None or detour.wanted is waiter.model:
        return False
    instance = detour.wanted.instance
    is_open = detour.refusal is None or waiter.request in detour.wanted.elsewhere
    if not is_open or instance is None or instance.state is not State.READY:
        return False
    world.touch(detour.wanted)
    return True


def refuse(world: World, waiter: Waiter, refusal: Outcome) -> None:
    """A model cannot be had. Its fallback is taken, or the request goes on in other lines, or it is refused."""
    if waiter is waiter.model.wish:
        waiting.drop_wish(world, waiter.model)
        return
    if not goes_on(waiter, refusal):
        waiting.leave_line(world, waiter)
        world.answer(waiter.request, refusal)
        return
    detour = detour_of(waiter)
    if detour.wanted is waiter.model and isinstance(refusal, Refusal):
        detour.refusal = refusal
    if waiter.falls_back != FOREVER or len(detour.standing) == 1:
        take(world, waiter)
    if waiter.request not in world.waiters:
        return  # by a value
    if len(detour.standing) > 1:
        waiting.step_out(world, waiter)
        instance = waiter.model.instance
        if not stands_in(waiter) and (instance is None or instance.state not in SERVES):
            waiter.model.elsewhere[waiter.request] = waiter
        for other in detour.standing:
            world.touch(other.model)
    else:
        waiting.leave_line(world, waiter)
        world.answer(waiter.request, detour.refusal or refusal)


def goes_on(waiter: Waiter, refusal: Outcome) -> bool:
    """Whether a request may be answered otherwise, although a model is refused to it."""
    if stands_in(waiter):
        return not isinstance(refusal, ShuttingDown)
    has_other = waiter.detour is not None or (waiter.lease_wanted and waiter.model.spec.fallback is not None)
    return has_other and isinstance(refusal, INSTEAD_OF)


def note_degraded(world: World, waiter: Waiter) -> None:
    """What the answer will say, if another model gives it."""
    if waiter.detour is not None:
        waiter.detour.why = why(world, waiter.detour) if stands_in(waiter) else None


def why(world: World, detour: Detour) -> str:
    """Why the wanted model does not answer."""
    key, refusal = detour.wanted.key, detour.refusal
    if isinstance(refusal, LoadFailed):
        return f"{key} could not be loaded: {refusal.reason}"
    if isinstance(refusal, NoRoom):
        return f"there is no room for {key}: {refusal.reason}"
    waited = world.now - detour.asked
    after = f" after {duration(waited)}" if waited > 0 else ""
    return f"{key} is not ready{after} ({progress(detour.wanted)})"


def progress(model: Model) -> str:
    """How far it has come, as ``loading: weights 40 %``."""
    instance = model.instance
    if instance is None or instance.state not in LOADS:
        return "queued" if instance is None else f"it is {instance.state}"
    done = f" {instance.fraction:.0%}".replace("%", " %") if instance.fraction is not None else ""
    if instance.state is not State.LOADING:
        return instance.phase
    return f"loading{done}" if instance.phase == "loading" else f"loading: {instance.phase}{done}"
