"""Why a model is where it is, in plain sentences: ``lazyctl status --why``.

All is read from the records as they are at that moment. Looking changes nothing.
"""

from __future__ import annotations

from . import cost, routes, swaps, wear
from .expecting import SETTLE_S, is_settling, spans
from .held_up import held_up
from .holders import keeps, purpose, unseen, waiting
from .lifecycle import LOADS, State
from .needs import GPU
from .readiness import readiness
from .records import Instance, Model, Prediction, Worker
from .rules import idle_until, own_time
from .uses import keepers
from .wording import amounts, duration, listed, sentence
from .world import World


def why(world: World, model: Model | None) -> list[str]:
    """Sentences about one model, the most telling first. None stands for one that nobody has asked for yet."""
    if model is None:
        return ["It is cold: nobody has asked for it yet."]
    instance = model.instance
    found = absent(world, model) if instance is None else present(world, instance)
    if model.key in world.wanting:
        found.append(f"It is wanted: {who_wants(world, model)}.")
        found += held_up(world, model)
    found += readiness(world, model)
    for worker in world.workers.values():
        other = worker.instances.get(model.key)
        if other is not None and other is not instance:
            found.append(f"an earlier life still holds {held(world, worker)}: {ending(world, other)}")
    return [sentence(clause) for clause in found]


def absent(world: World, model: Model) -> list[str]:
    """A model of which nothing is loaded."""
    found = []
    if model.ended is State.FAILED:
        found.append(f"it has failed: {model.last_error or 'unknown'}")
        if model.retry_at > world.now:
            found.append(f"it is tried again when it is asked for in {duration(model.retry_at - world.now)} or later")
        else:
            found.append("it is tried again when it is next asked for")
    elif model.left is not None:
        found.append(f"it is cold: it left {duration(world.now - model.left.at)} ago ({model.left.reason})")
    elif model.loads:
        found.append("it is cold")
    else:
        found.append("it is cold: it has not been loaded yet")
    if model.refused is not None:
        found.append(f"there was no room for it: {model.refused}")
    if model.retired:
        found.append("it is not configured any more")
    elif model.dismissed and model.kept:
        found.append("it was unloaded by name, and comes back when it is next asked for")
    return found


def who_wants(world: World, model: Model) -> str:
    """Who waits for it, and since when."""
    since = duration(world.now - (model.wanted_since or world.now))
    if routes.is_background(model):
        return f"{swaps.purpose(model)}, and others answer meanwhile; that has been so for {since}"
    if not model.waiters:
        return f"it is resident, and has been missing for {since}"
    if model.waiting == 0:
        return f"{waiting(model)}, the first {since} ago"
    return f"{waiting(model)}, the first for {since}"


def present(world: World, instance: Instance) -> list[str]:
    """A model of which something is in memory."""
    state = instance.state
    if state in LOADS:
        return loading(world, instance)
    if state is State.READY:
        return ready(world, instance)
    since = duration(world.now - instance.since)
    if state is State.DRAINING:
        calls = [reason for reason in keeps(world, instance) if not reason.startswith("it is leaving")]
        return [f"it has been leaving for {since}: {purpose(instance)}", *calls]
    if state is State.PARKED:
        left = f"it has been parked for {since}: its process stays, with {held(world, instance.worker)}"
        timeout_s = instance.model.spec.park_timeout_s
        if timeout_s is None:
            return [left]
        return [left, f"unless it is used, it leaves in {duration(timeout_s - (world.now - instance.since))}"]
    if state is State.PARKING:
        return [f"it has been giving back its device memory for {since}"]
    return [f"it has been leaving for {since} with {held(world, instance.worker)}: {ending(world, instance)}"]


def loading(world: World, instance: Instance) -> list[str]:
    """What is on its way in."""
    model = instance.model
    done = f", {instance.fraction:.0%} done" if instance.fraction is not None else ""
    usual = f" of {duration(model.expected_load_s)} as a rule" if model.expected_load_s is not None else ""
    found = [
        f"it has been loading for {duration(world.now - instance.load_started)}{usual} ({instance.phase}{done})",
        f"it is {placed(world, instance)}, booked with {held(world, instance.worker)}",
    ]
    if model.waiting:
        found.append(waiting(model))
    elif not model.waiters and not model.kept:
        found.append("nobody waits for it any more: it goes on loading until somebody else needs its memory")
    return found


def ready(world: World, instance: Instance) -> list[str]:
    """What serves."""
    model, now = instance.model, world.now
    found = [
        f"it has been ready for {duration(now - instance.ready_since)}, and was last used "
        f"{duration(now - instance.last_used)} ago",
        f"it is {placed(world, instance)}, and its leaving would give back {given_back(world, instance)}",
    ]
    reasons = keeps(world, instance)
    if reasons:
        found.append(f"it does not leave for another: {'; '.join(reasons)}")
    else:
        cost_s, load_s = cost.cost_of(world, instance), cost.expected_load_s(world, instance)
        found.append(
            f"it may leave for another, at a cost of {cost_s:.2g} s: a load takes {duration(load_s)}, "
            f"and the chance that it is wanted again soon is {cost.chance_of_use(model, now):.0%}"
        )
    worn = wear.why_worn(instance.worker)
    if worn is not None:
        found.append(f"{worn}: it is restarted when it is idle, or when its calls have ended")
    until = idle_until(world, instance)
    if instance.in_flight:
        return found
    if until is not None and instance.guess is None and is_settling(instance, now):
        found.append(f"when it leaves is decided {duration(SETTLE_S)} after its last use (prewarm)")
    elif until is None and not model.kept:
        found.append(f"it does not leave for being idle ({idle_rule(world, instance, until)})")
    elif until is not None and now < until < float("inf"):
        found.append(f"unless it is used, it leaves in {duration(until - now)} ({idle_rule(world, instance, until)})")
    return found


def idle_rule(world: World, instance: Instance, until: float | None) -> str:
    """Which key of the configuration says until when it stays. What uses it may stay for longer."""
    spec = instance.model.spec
    if until != own_time(instance, world.now):
        return f"{listed([user.model.key for user in keepers(world, instance.model)])} uses it"
    is_default = spec.idle_timeout_s is not None and until == instance.last_used + spec.idle_timeout_s
    is_guess = instance.guess is not None and not instance.guess.again
    if is_guess or not (spec.idle_written or is_default or spans(instance.model) is None):
        return "prewarm"
    return "idle_timeout" if instance.leases or spec.idle_timeout_s is not None else "transient"


def placed(world: World, instance: Instance) -> str:
    """How it is on its devices, and why there."""
    worker = instance.worker
    if worker.spec.is_family and len(worker.instances) > 1:
        return f"in the worker of {worker.spec.key}, with {len(worker.instances) - 1} more of the family"
    gpus = listed(list(worker.gpus))
    if "/" in worker.way:
        return f"partly on {gpus} ({worker.way.removeprefix(GPU).strip()} layers), as no GPU had room for all of it"
    if "+" in worker.way:
        return f"divided over {gpus} ({worker.way.removeprefix(GPU).strip()} layers), as no GPU had room for all of it"
    return f"on {gpus}{why_that_gpu(world, instance)}" if gpus else f"in RAM{why_in_ram(world, instance)}"


def why_that_gpu(world: World, instance: Instance) -> str:
    """What had it put on a certain GPU, as far as that can still be told."""
    model, gpu = instance.model, instance.worker.gpus[0]
    if model.spec.device:
        return f" (device = {', '.join(model.spec.device)})"
    beside = [
        name
        for name in model.spec.beside
        if (other := world.models.get(name)) is not None
        and other.instance is not None
        and gpu in world.ledger.held(other.instance.worker.id)
    ]
    return f", beside {listed(beside)}" if beside else ""


def why_in_ram(world: World, instance: Instance) -> str:
    """What kept it off the GPUs, as far as that can still be told."""
    model = instance.model
    if not any(device.kind == "cuda" for device in world.ledger.devices.values()):
        return ""
    if model.spec.device:
        return f" (device = {', '.join(model.spec.device)})"
    if isinstance(model.prediction, Prediction) and GPU not in model.prediction.ways:
        return ", as it cannot be loaded on a GPU"
    return ", as no GPU had room for it then"


def given_back(world: World, instance: Instance) -> str:
    """What its leaving frees: of a family all but the last object only their places."""
    if all(other is instance for other in instance.worker.instances.values()):
        return held(world, instance.worker)
    return "its place" if world.ledger.held(instance.holder) else "what it uses of its worker"


def held(world: World, worker: Worker) -> str:
    return amounts(world.ledger.freed_by(worker.id)) or "nothing"


def ending(world: World, instance: Instance) -> str:
    """How far an instance that unloads has come."""
    if instance.worker.exited is not None:
        return unseen(world, instance.worker)
    return "its process is ending" if instance.worker.stopping else "its worker is freeing it"
