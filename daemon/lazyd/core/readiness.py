"""What is done so that a model is there when it is needed, in plain sentences: its warm-up, who answers in its place,
and when it is expected. A part of `why`. Looking changes nothing.
"""

from __future__ import annotations

from . import expecting, fallbacks, guesses, monitoring, prewarming, warmups
from .lifecycle import LOADS, State
from .records import FOREVER, Instance, Model, Warmth
from .spec import PrewarmWhen, Tier, WarmupMode
from .wording import duration, listed
from .world import World

TO_COME = {
    WarmupMode.SYNC: "it serves only after its warm-up",
    WarmupMode.ASYNC: "it serves as soon as it is loaded, and is warmed up beside the calls of others",
    WarmupMode.ON_DEMAND: "it serves only after its warm-up, unless that has been made since the machine started",
}


def readiness(world: World, model: Model) -> list[str]:
    """Clauses; none where nothing of all that is configured, known or under way."""
    return [*warm_up(model), *stand_in(world, model), *expectation(world, model)]


def warm_up(model: Model) -> list[str]:
    """How far its warm-up has come, and whether it is made otherwise than configured."""
    found = [] if model.instance is None else under_way(model.instance)
    reason = warmups.fell_back(model)
    if reason is not None and model.spec.warmup is not None:
        left = monitoring.RECOVERED - model.past.good
        until = "one more load goes well" if left == 1 else f"{left} more loads in a row go well"
        found.append(
            f"its warm-ups are made in mode sync instead of {model.spec.warmup.mode} until {until}, because {reason}"
        )
    return found


def under_way(instance: Instance) -> list[str]:
    """The warm-up of one life."""
    mode = warmups.mode_of(instance.model)
    if instance.warmup is Warmth.PENDING and mode is not None:
        return [TO_COME[mode]]
    if instance.warmup is Warmth.RUNNING and instance.state in LOADS:
        return ["its warm-up is running, and it serves when that is over"]
    if instance.warmup is Warmth.RUNNING:
        return ["its warm-up is running: it serves meanwhile, and the calls of others go first"]
    return [f"its warm-up has failed: {instance.problem}"] if instance.problem else []


def stand_in(world: World, model: Model) -> list[str]:
    """Who answers in its place, or will, and in whose place it answers."""
    found = []
    wanted = sorted({w.detour.wanted.key for w in model.waiters if w.detour is not None and fallbacks.stands_in(w)})
    if wanted:
        found.append(f"it is waited for as the fallback of {listed(wanted)}")
    if model.spec.fallback is None:
        return found
    other = model.spec.fallback.model or "a value"
    if model.wish is not None:
        missing = duration(world.now - model.wish.arrived)
        found.append(
            f"its fallback answers in its place ({other}) until it is there; it has been missing for {missing}"
        )
    elif model.instance is None and model.retry_at > world.now:
        found.append(f"until it is tried again its fallback answers ({other})")
    if model.elsewhere or any(w.detour is not None and len(w.detour.standing) > 1 for w in model.waiters):
        found.append(f"its fallback is waited for as well ({other}): who is ready first answers")
    moments = [w.falls_back for w in model.waiters if w.falls_back is not None and world.now < w.falls_back < FOREVER]
    if moments:
        left = duration(min(moments) - world.now)
        found.append(f"its fallback answers in {left} ({other}), unless it is ready by then")
    return found


def expectation(world: World, model: Model) -> list[str]:
    """When it is expected to be asked for, and what is done about that."""
    instance, now = model.instance, world.now
    found = []
    due = next_use(model, now)
    if due is not None:
        at, within_s = due
        when = f"in {duration(at - now)}" if at > now else "now"
        within = f", give or take {duration(within_s)}" if within_s else ""
        source = "schedule" if model.spec.prewarm.when is PrewarmWhen.SCHEDULE else "habit"
        found.append(f"its next use is expected {when}{within} ({source})")
    if instance is not None and instance.guess is not None:
        why = "it was restarted (max_calls, max_growth)" if instance.guess.again else "it is expected"
        found.append(f"it was loaded because {why}, and nobody has come yet")
    elif model in world.guesses:
        found.append("it is to be loaded for that now, as soon as there is room that nobody waits for")
    elif due is not None and (instance is None or instance.state is State.PARKED):
        found += before_it_comes(model, due[0], now)
    return found


def next_use(model: Model, now: float) -> tuple[float, float] | None:
    """When, give or take so many seconds; where that is not known, when it begins to be worth being hot."""
    found = expecting.expected(model, now)
    span = expecting.next_span(model, now)
    if found is None and span is not None:
        return max(span.expected or span.start, now), span.within_s
    return found


def before_it_comes(model: Model, at: float, now: float) -> list[str]:
    """Whether it is loaded in time, and if not, why."""
    if model.waiters or model.kept:
        return []
    if model.spec.tier is Tier.TRANSIENT:
        return ["it is transient, and is not loaded before somebody asks for it"]
    if model.dismissed:
        return ["it was unloaded by name, and is not loaded before somebody asks for it"]
    span = expecting.next_span(model, now)
    if span is None or not prewarming.may_be_expected(model):
        return []
    begin = prewarming.begins(model, span)
    if not guesses.affords(model, span.end, max(begin, now)):
        return [f"it is not loaded for that: {spent(model)}"]
    if begin > now:
        return [f"it is loaded {duration(at - begin)} before that, into room that nobody waits for"]
    return ["it is not loaded for that any more, as it had to leave in that time"]


def spent(model: Model) -> str:
    """Why no guess is made."""
    waste = model.waste
    wrong = f"{waste.wrong} of {waste.guesses} guesses were wrong, and " if waste is not None else ""
    return f"{wrong}too little is left of its budget for such ones, which fills again in a day"
