"""Workers that have served long enough: `max_calls` and `max_growth`.

What leaks goes with its process. So a worker that has answered so many calls, or has grown by so much since it was
ready, is restarted: when all in it is next idle, or, if that does not come, once `max_wait_s` has passed, when its
calls have ended. No call fails, as it drains. What would not have left for being idle is loaded again at once
(`prewarming.comes_again`), so that its next user finds it hot, and leaves when it would have left.
"""

from __future__ import annotations

from collections.abc import Mapping

from .events import WorkerUsed
from .lifecycle import SERVES
from .records import Instance, Worker
from .spec import ModelSpec
from .wording import size
from .world import World


def used(world: World, event: WorkerUsed) -> None:
    """So many calls have ended in it."""
    worker = world.workers.get(event.worker)
    if worker is not None and worker.exited is None:
        worker.calls = max(worker.calls, event.calls)
        look(world, worker)


def measured(world: World, worker: Worker, by_device: Mapping[str, int]) -> None:
    """What it has grown by since it was ready. What comes or goes with an object of a family is no growth: meanwhile
    nothing is counted, and then from what is measured next (`begin_anew`)."""
    if not worker.instances or any(instance.state not in SERVES for instance in worker.instances.values()):
        return
    for name, n in by_device.items():
        base = worker.base_bytes.setdefault(name, n - worker.grown_bytes.get(name, 0))
        worker.grown_bytes[name] = n - base
    look(world, worker)


def begin_anew(worker: Worker) -> None:
    """An object has come or gone: what is measured next is no growth."""
    worker.base_bytes.clear()


def look(world: World, worker: Worker) -> None:
    """Whether it has served long enough. That is said once; a changed limit may take it back."""
    why = why_worn(worker)
    if why is None:
        worker.worn_since = None
    elif worker.worn_since is None:
        worker.worn_since = world.now
        world.note("worn", worker.spec.key, f"{why}: it is restarted when it is idle", worker=worker.id)
        world.alarms.set(("worn", worker.id), world.now + limits(worker).max_wait_s)
        touch(world, worker)


def why_worn(worker: Worker) -> str | None:
    """Which limit it has reached."""
    limit = limits(worker)
    if limit.max_calls is not None and worker.calls >= limit.max_calls:
        return f"it has answered {worker.calls} calls (max_calls)"
    if limit.max_growth_bytes is not None:
        for name, n in worker.grown_bytes.items():
            if n >= limit.max_growth_bytes:
                return f"it has grown by {size(n)} on {name} since it was ready (max_growth)"
    return None


def limits(worker: Worker) -> ModelSpec:
    """The spec as it is now: the limits may have been changed since the worker was started."""
    return next((instance.model.spec for instance in worker.instances.values()), worker.spec)


def is_overdue(world: World, instance: Instance) -> bool:
    """It has served long enough, and has not been idle since for as long as a request waits (`max_wait_s`)."""
    worker = instance.worker
    if worker.worn_since is None or why_worn(worker) is None:
        return False
    return world.now >= worker.worn_since + limits(worker).max_wait_s


def has_waited(world: World, worker_id: str) -> None:
    """It was not idle for long (an alarm)."""
    worker = world.workers.get(worker_id)
    if worker is not None:
        touch(world, worker)


def touch(world: World, worker: Worker) -> None:
    for instance in worker.instances.values():
        world.touch(instance.model)
