"""Warm-ups, as dice make them: before a model is ready or beside the calls of others; they may fail or hang."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lazyd.core import effects, events
from lazyd.core.spec import WarmupMode
from lazyd.worker.records import Object, Warmth

if TYPE_CHECKING:
    from .worker import SimWorker

RUNTIME = "1.0"
LONGEST_S = 1.5
PROBLEM = "warm-up: output is not finite (call 1 of 1)"


def due(worker: SimWorker, model: str) -> effects.LoadObject | None:
    """The order of a load whose warm-up has to be made."""
    order = worker.orders.get(model)
    if order is None or not order.warmup:
        return None
    return None if is_known(order) else order


def is_known(order: effects.LoadObject) -> bool:
    return order.warmup == WarmupMode.ON_DEMAND and RUNTIME in order.warmed_by


def before(worker: SimWorker, known: Object) -> None:
    """The load is done; the model is ready after this."""
    worker.admission.warming(known.model, worker.world.clock.now)
    worker.reporter.note(at_once=True)
    begins(worker, known)
    seconds = drawn_s(worker)
    if seconds is None:
        return  # It hangs.
    if fails(worker):
        worker.later(seconds, known, worker.world.host.loads.fails, PROBLEM)
    else:
        worker.later(seconds, known, worker.world.host.loads.done, Warmth("done", seconds, RUNTIME))


def beside(worker: SimWorker, known: Object) -> None:
    """The model serves already."""
    if worker.gone or worker.objects.get(known.model) is not known or known.state != "ready":
        return
    known.warmth = Warmth("running", 0.0, RUNTIME)
    worker.reporter.note(at_once=True)
    begins(worker, known)
    seconds = drawn_s(worker)
    if seconds is not None:
        worker.world.clock.after(seconds, ends, worker, known, seconds, PROBLEM if fails(worker) else "")


def ends(worker: SimWorker, known: Object, seconds: float, problem: str) -> None:
    """A warm-up beside the calls of others is over, unless its model has left meanwhile."""
    if worker.gone or worker.objects.get(known.model) is not known or known.state != "ready":
        return
    if known.warmth.warmup != "running":
        return  # it was parked, and is back
    known.warmth = Warmth("failed" if problem else "done", seconds, RUNTIME, problem)
    worker.reporter.note(at_once=True)
    about: Any = {"worker": worker.id, "model": known.model}
    worker.say(events.WarmupEnded(**about, warmup_s=seconds, runtime=RUNTIME, problem=problem or None))


def begins(worker: SimWorker, known: Object) -> None:
    worker.say(events.ObjectWarming(worker=worker.id, model=known.model, call=1, calls=1))


def fails(worker: SimWorker) -> bool:
    return worker.world.rng.random() < worker.world.scenario.profile.warmup_fails


def drawn_s(worker: SimWorker) -> float | None:
    """How long it takes; None: it hangs."""
    rng = worker.world.rng
    if rng.random() < worker.world.scenario.profile.warmup_sticks:
        return None
    return rng.uniform(0.05, LONGEST_S)
