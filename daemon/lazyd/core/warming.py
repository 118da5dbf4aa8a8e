"""What workers report of warm-ups.

A synchronous one is a part of the load: its model is `WARMING`, and whatever ends a load ends it. One
beside the calls of others changes nothing as long as it goes well; when it fails the model admits
nobody any more, finishes its calls, and leaves, failed and paused like after a failed load.

The limit of its time is that of all its calls together, and its own: `load_timeout` does not
count. Time in the calls of others is not its time. A warm-up that hangs holds up those who wait behind it
in the one thread of the model, so its worker is ended at once.
"""

from __future__ import annotations

from . import leases, lives, rules, shortage, warmups
from .events import ObjectReady, ObjectReport, ObjectWarming, RanOut, WarmupEnded
from .lifecycle import LOADS, SERVES, State
from .records import Instance, Warmth
from .wording import duration
from .world import World


def warming(world: World, event: ObjectWarming) -> None:
    """A call of a warm-up has begun or ended."""
    instance = world.instance(event.worker, event.model)
    if instance is None or instance.state not in LOADS | SERVES or instance.warmup is Warmth.FAILED:
        return
    instance.warmup = Warmth.RUNNING
    if instance.state in LOADS:
        begin(world, instance)
        instance.phase, instance.fraction = f"warm-up {event.call}/{event.calls}", (event.call - 1) / event.calls
        rules.tell_progress(world, instance)
    if event.runs:
        watch(world, instance, event.spent_s)
    else:
        world.alarms.clear(("warm", instance.worker.id, instance.model.key))


def begin(world: World, instance: Instance) -> None:
    """The load is done, and its warm-up begins."""
    if instance.state is State.LOADING:
        instance.loaded_s = world.now - instance.load_started
        world.enter(instance, State.WARMING)


def found(world: World, instance: Instance) -> None:
    """A warm-up was under way when its worker was found. What is left of its time is not known: it has all of it."""
    instance.warmup = Warmth.RUNNING
    begin(world, instance)
    watch(world, instance)


def watch(world: World, instance: Instance, spent_s: float = 0.0) -> None:
    """Its time runs. Where nothing is configured a warm-up of the model's own is as a load without progress."""
    warmup = instance.model.spec.warmup
    if warmup is not None:
        lives.end_watch(world, instance)
        key = ("warm", instance.worker.id, instance.model.key)
        world.alarms.set(key, world.now + max(0.0, warmup.timeout_s - spent_s))
    elif instance.state in LOADS:
        instance.progressed = world.now
        lives.watch_load(world, instance)


def took_too_long(world: World, worker_id: str, key: str) -> None:
    """A warm-up hangs (an alarm)."""
    instance = world.instance(worker_id, key)
    if instance is None or instance.warmup is not Warmth.RUNNING:
        return
    warmup = instance.model.spec.warmup
    limit = f" in {duration(warmup.timeout_s)}" if warmup is not None else ""
    reason = f"its warm-up has not ended{limit} (warmup.timeout)"
    if instance.state in SERVES:
        leases.bury(world, instance, None, None, reason)
        instance.leaving = None
    if instance.state in LOADS | SERVES:
        lives.failed(world, instance, reason)
        instance.warmup = Warmth.FAILED


def ready(world: World, instance: Instance, told: ObjectReady | ObjectReport) -> None:
    """A load has ended well, and its warm-up, if it is made before that."""
    instance.parks, instance.url = told.parks, told.url
    if told.warmup == "done":
        succeeded(world, instance, told)
    elif told.warmup in AS_TOLD and not instance.ready_since:  # it is not warmed up again when it was parked
        instance.warmup = AS_TOLD[told.warmup]
    lives.ready(world, instance)


AS_TOLD = {"": Warmth.NONE, "waiting": Warmth.RUNNING, "running": Warmth.RUNNING, "known": Warmth.DONE}


def succeeded(world: World, instance: Instance, told: ObjectReady | ObjectReport) -> None:
    """All calls of its warm-up were made, and what they answered is as expected."""
    instance.warmup = Warmth.DONE
    warmups.note_success(world, instance.model, told.warmup_s)
    warmups.remember(world, instance, told.runtime)


def too_late(world: World, instance: Instance, told: ObjectReady) -> None:
    """Its worker was ended before it had heard of that: it serves nobody, but its warm-up was made."""
    if told.warmup == "done":
        warmups.remember(world, instance, told.runtime)


def ended(world: World, event: WarmupEnded) -> None:
    """A warm-up beside the calls of others is over."""
    instance = world.instance(event.worker, event.model)
    if instance is None or instance.state not in SERVES or instance.warmup is not Warmth.RUNNING:
        return
    world.alarms.clear(("warm", event.worker, event.model))
    if event.problem is not None:
        if event.out_of_memory:
            shortage.call_ran_out(world, RanOut(worker=event.worker, model=event.model))
        unfit(world, instance, event.problem)
    else:
        instance.warmup = Warmth.DONE
        instance.worker.called = True
        warmups.note_success(world, instance.model, event.warmup_s)
        warmups.remember(world, instance, event.runtime)
        world.note("warmed up", instance.model, seconds=event.warmup_s)
        world.touch(instance.model)


def unfit(world: World, instance: Instance, problem: str) -> None:
    """It serves, and should not: it leaves when its calls have ended (`rules`), and is paused from now on."""
    warmups.note_failure(world, instance)
    instance.warmup, instance.problem = Warmth.FAILED, problem
    lives.pause(world, instance.model, problem, failures=instance.model.failures + 1)


def adopt(world: World, instance: Instance, told: ObjectReport) -> None:
    """An earlier manager had it warmed up, or was about to. It has counted that, if it has heard of it."""
    if instance.state is State.LOADING:
        instance.warmup = Warmth.PENDING if warmups.mode_of(instance.model) is not None else Warmth.NONE
    elif instance.state in SERVES and told.warmup == "done":
        instance.warmup = Warmth.DONE
        warmups.remember(world, instance, told.runtime)
    elif instance.state in SERVES:
        instance.warmup = AS_TOLD.get(told.warmup, Warmth.NONE)
        agree(world, instance, told)


def agree(world: World, instance: Instance, told: ObjectReport) -> None:
    """What a worker says of a warm-up beside the calls of others, when it is found (again)."""
    if told.warmup == "failed" and instance.warmup is not Warmth.FAILED:
        instance.warmup = Warmth.RUNNING
        unfit(world, instance, told.problem)
    if instance.warmup is not Warmth.RUNNING:
        return
    lives.end_watch(world, instance)
    if told.warmup == "running":
        watch(world, instance)
    elif told.warmup == "done":
        succeeded(world, instance, told)
