"""The end of workers and of the host, and what it means for the models in them.

A worker that dies has a cause, and its models pause if it is not the first time; one that is lost with its host
is no fault of its models. What it held is free as soon as that is seen (`release.py`).
"""

from __future__ import annotations

from . import growth, leases, lives, locks, release, shortage, warmups
from .events import HostAway, HostLost, WorkerExited
from .lifecycle import LOADS, SERVES, State
from .records import Instance, Warmth, Worker
from .world import World

FAULT = "Fatal Python error: "
FORGIVEN_DEATHS = 1
"""A worker that dies while it serves is an accident the first time."""


def worker_exited(world: World, event: WorkerExited) -> None:
    """The process is gone, and all that was in it; what it held is free as soon as that is seen."""
    worker = world.workers.get(event.worker)
    if worker is None or worker.exited is not None:
        return
    if worker.had_room is None:  # else what it has taught is told already, and with more to spare
        growth.learn(world, worker)
    worker.stopping = True
    for instance in list(worker.instances.values()):
        instance_died(world, instance, event)
    release.begin(world, worker)


def instance_died(world: World, instance: Instance, event: WorkerExited) -> None:
    """What the end of its worker means for a model, by the state it was in. What was on its way out
    stays so until its bytes are seen to be free."""
    model = instance.model
    cause = describe_exit(event)
    if instance.state in LOADS and event.out_of_memory:
        shortage.load_ran_out(world, instance, cause)
    elif instance.state in LOADS:
        warmups.note_failure(world, instance)
        lives.pause(world, model, cause, failures=model.failures + 1)
        lives.gone(world, instance, State.FAILED, cause)
    elif instance.state not in lives.ENDING:
        if instance.warmup is Warmth.RUNNING:
            warmups.note_failure(world, instance)
        leases.bury(world, instance, event.status, event.signal, event.log)
        for each in dict.fromkeys((model, model.first)):  # the calls may kill one replica after the other
            lives.pause(world, each, cause, failures=each.failures + 1, forgiven=FORGIVEN_DEATHS)
        fails = model.retry_at and instance.state is not State.PARKING
        lives.gone(world, instance, State.FAILED if fails else State.COLD, cause)


def describe_exit(event: WorkerExited) -> str:
    """One line: how the worker ended, and what it said of it."""
    if event.signal is not None:
        how = f"the worker was killed by signal {event.signal}"
    elif event.status is not None:
        how = f"the worker exited with status {event.status}"
    else:
        how = "the worker ended"
    last = last_words(event.log)
    return f"{how}: {last}" if last else how


def last_words(log: str) -> str:
    """The last line of a log; or where a signal ended the interpreter, the line that names the fault.

    The interpreter writes it first, and then where each thread was.
    """
    lines = log.strip().split("\n")
    return next((line for line in reversed(lines) if line.startswith(FAULT)), lines[-1]).strip()


def host_away(world: World, _: HostAway) -> None:
    """Nobody hears what is ordered now. What serves goes on; who waits for a load goes on waiting."""
    world.host_found = False


def host_lost(world: World, _: HostLost) -> None:
    """The host died, and all workers with it."""
    world.host_found = False
    for worker in list(world.workers.values()):
        worker_lost(world, worker, "the worker host died")
    locks.host_lost(world)


def worker_lost(world: World, worker: Worker, reason: str) -> None:
    """A worker is gone through no fault of its models; who waits for them goes on waiting."""
    if worker.exited is not None:
        return
    worker.stopping = True
    for instance in list(worker.instances.values()):
        if instance.state in SERVES:
            leases.bury(world, instance, None, None, reason)
        if instance.state not in lives.ENDING:
            lives.gone(world, instance, State.COLD, reason)
    release.begin(world, worker)
