"""Loads, as dice make them: they take memory step by step, and may fail, hang, crawl or kill their worker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazyd.core import events
from lazyd.core.spec import WarmupMode
from lazyd.worker.records import Object, Warmth

from . import warmups
from .consumption import RAMP
from .memory import RAM
from .scenario import LONGEST_CRAWL_S

if TYPE_CHECKING:
    from .host import SimHost
    from .worker import SimWorker

KILLED, CRASHED = 9, 11
UNPARKING = 0.3
"""Coming back from being parked takes so much of a load's time."""
LAST = len(RAMP) - 1
SEEN_S = 0.1
"""A peak that lasts so long is seen on a GPU, which is looked at twenty times a second then."""


class Loads:
    """Of the workers of one host. A worker does them; what comes of them is drawn here."""

    def __init__(self, host: SimHost) -> None:
        self.host = host
        self.world = host.world

    def begin(self, worker: SimWorker, known: Object, *, is_parked: bool) -> None:
        profile, rng = self.world.scenario.profile, self.world.rng
        seconds = rng.uniform(*self.world.character(worker.key).load_s) * (UNPARKING if is_parked else 1.0)
        if not self._takes(worker, known, 0, is_parked):
            return
        dice = rng.random()
        if (dice := dice - profile.load_fails) < 0:
            worker.later(seconds, known, self.fails, "the weights are damaged")
        elif (dice := dice - profile.load_sticks) < 0:
            return  # It hangs.
        elif (dice := dice - profile.load_kills) < 0:
            worker.later(seconds, known, lambda w, _: self.host.exit(w, None, CRASHED))
        else:
            if dice - profile.load_crawls < 0:
                seconds = rng.uniform(4.0, LONGEST_CRAWL_S)
            worker.later(seconds / 2, known, self._is_half_done, is_parked)
            self._progress(worker, known, seconds, is_parked)

    def _is_half_done(self, worker: SimWorker, known: Object, is_parked: bool) -> None:
        self._takes(worker, known, 1, is_parked)

    def _progress(self, worker: SimWorker, known: Object, left_s: float, is_parked: bool) -> None:
        """Progress is told every second or so, until the object is ready."""
        step = self.world.rng.uniform(0.5, 1.5)
        if left_s <= step:
            last_s = max(left_s * 0.1, SEEN_S if self.world.scenario.profile.polite else 0.0)
            worker.later(left_s * 0.9, known, self._is_nearly_done, last_s, is_parked)
        else:
            worker.later(step, known, self._goes_on, left_s - step, is_parked)

    def _goes_on(self, worker: SimWorker, known: Object, left_s: float, is_parked: bool) -> None:
        worker.say(events.LoadProgress(worker=worker.id, model=known.model, phase="weights", fraction=0.5))
        self._progress(worker, known, left_s, is_parked)

    def _is_nearly_done(self, worker: SimWorker, known: Object, left_s: float, is_parked: bool) -> None:
        if self._takes(worker, known, LAST, is_parked):
            worker.later(left_s, known, self._loaded, is_parked)

    def _takes(self, worker: SimWorker, known: Object, step: int, is_parked: bool) -> bool:
        """The next part of what a load needs. Where there is not so much, it fails for want of memory."""
        take = worker.consumption.unpark if is_parked else worker.consumption.load
        device = take(known.model, step)
        if device is None:
            return True
        self.world.ran_short(worker.id, device)
        if device == RAM or self.world.rng.random() < 0.5:
            self.host.exit(worker, None, KILLED, out_of_memory=True)
        else:
            self.fails(worker, known, "out of memory", out_of_memory=True)
        return False

    def _loaded(self, worker: SimWorker, known: Object, is_parked: bool) -> None:
        """Its weights are there; it is ready, unless it is warmed up before."""
        order = None if is_parked else warmups.due(worker, known.model)
        if order is not None and order.warmup != WarmupMode.ASYNC:
            warmups.before(worker, known)
        elif order is not None:
            self.done(worker, known, Warmth("waiting", 0.0, warmups.RUNTIME))
            self.world.clock.after(self.world.rng.uniform(0.0, 0.5), warmups.beside, worker, known)
        else:
            is_known = not is_parked and known.model in worker.orders and bool(worker.orders[known.model].warmup)
            self.done(worker, known, Warmth("known" if is_known else "", 0.0, warmups.RUNTIME))

    def done(self, worker: SimWorker, known: Object, warmth: Warmth) -> None:
        """It is ready."""
        if any(self.world.memory[device].is_lost for device in worker.devices):
            self.fails(worker, known, "the GPU is lost")
            return
        parks = self.world.character(worker.key).parks
        worker.consumption.rest(known.model)
        worker.admission.loaded(known.model, self.world.clock.now, parks=parks, warmth=warmth)
        worker.reporter.note(at_once=True)
        worker.say_ready(known)

    def fails(self, worker: SimWorker, known: Object, reason: str, *, out_of_memory: bool = False) -> None:
        failure = events.ObjectFailed(worker=worker.id, model=known.model, reason=reason, out_of_memory=out_of_memory)
        worker.forget(known.model, failure)
