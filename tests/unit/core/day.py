"""A story that goes on by itself: loads end, idle models leave when they are asked, processes exit."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from typing import Any

from lazyd.core import effects, events
from lazyd.core.answers import Granted
from lazyd.core.lifecycle import State
from lazyd.core.spec import ModelSpec

from .story import Story


class Day(Story):
    """A load takes `load_s`. `visit` is a client that comes, calls once and goes; `starts` says who found it cold."""

    def __init__(self, *specs: ModelSpec, load_s: float = 4.0, **fields: Any) -> None:
        self.load_s = load_s
        self.later: list[tuple[float, int, Callable[[], object]]] = []
        self.order = itertools.count()
        self.waits: dict[int, float] = {}
        """How long each visitor waited, by request."""
        self.visits: list[int] = []
        super().__init__(*specs, **fields)

    def tell(self, event: events.Event) -> list[effects.Effect]:
        found = super().tell(event)
        for effect in found:
            if isinstance(effect, effects.LoadObject):
                worker, model = effect.worker, effect.model
                self.after(self.load_s, lambda w=worker, m=model: self.tell(events.ObjectReady(worker=w, model=m)))  # type: ignore[misc]
            elif isinstance(effect, effects.Drain):
                drained = events.Drained(worker=effect.worker, model=effect.model, drain=effect.drain)
                self.after(0.0, lambda e=drained: self.tell(e))  # type: ignore[misc]
            elif isinstance(effect, effects.StopWorker):
                gone = events.WorkerExited(worker=effect.worker)
                self.after(0.1, lambda e=gone: self.tell(e))  # type: ignore[misc]
            elif isinstance(effect, effects.Answer) and effect.request in self.visits:
                self._serve(effect)
        return found

    def _serve(self, effect: effects.Answer) -> None:
        assert isinstance(effect.outcome, Granted), effect.outcome
        self.waits[effect.request] = effect.outcome.waited_s
        request = effect.request
        self.after(0.0, lambda: (self.call(request), self.end_call(request), self.close(request)))

    def after(self, seconds: float, what: Callable[[], object]) -> None:
        heapq.heappush(self.later, (self.now + seconds, next(self.order), what))

    def wait(self, seconds: float) -> None:
        end = self.now + seconds
        while True:
            due = self.core.next_deadline()
            tick = max(due, self.now) if due is not None and due <= end else end
            if self.later and self.later[0][0] <= tick:
                at, _, what = heapq.heappop(self.later)
                self.now = max(at, self.now)
                what()
            elif tick < end or due == end:
                self.now = tick
                self.tell(events.Tick())
            else:
                break
        self.now = end
        self.tell(events.Tick())

    def visit(self, model: str) -> int:
        """Somebody comes now."""
        request = next(self.requests)
        self.visits.append(request)
        self.tell(events.Get(request=request, model=model, holder=1000))
        return request

    def until(self, when: float) -> None:
        self.wait(when - self.now)

    def is_hot(self, model: str) -> bool:
        return self.state(model) is State.READY

    def notes(self, kind: str) -> list[effects.Note]:
        return [effect for effect in self.effects if isinstance(effect, effects.Note) and effect.kind == kind]
