"""A machine as the core sees it, in virtual time: loads take what they took, processes exit, memory comes back.

Nothing goes wrong on it, and nobody else uses it.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable

from lazyd.core import effects, events
from lazyd.core.answers import Outcome
from lazyd.core.core import Core
from lazyd.core.ledger import CUDA, RAM
from lazyd.core.needs import GPU, Forecast, Need
from lazyd.core.spec import Config

from .facts import Facts

EXIT_S = 0.1
"""A process that is told to end."""

Deed = Callable[[], None]


class Machine:
    """Drives a core. `on_answer` hears of each answer; what it does happens after the core's other effects."""

    def __init__(
        self,
        config: Config,
        facts: Facts,
        on_answer: Callable[[int, Outcome], None],
        on_note: Callable[[effects.Note], None],
        began: float,
    ) -> None:
        ids = itertools.count(1)
        self.core = Core(lambda: f"{next(ids):x}")
        self.now = began
        self._facts = facts
        self._on_answer = on_answer
        self._on_note = on_note
        self._later: list[tuple[float, int, Deed]] = []
        self._order = itertools.count()
        self._inbox: list[events.Event] = []
        self._tells = False
        self._drains: dict[tuple[str, str], effects.Drain] = {}
        """Those that wait for calls to end, by worker and model."""
        self.held_byte_s = 0.0
        """What was booked, over time."""
        self._held_until = began
        for device in facts.devices:
            self._sample(device.name)
        self.tell(events.Configure(config=config))
        self.tell(events.HostFound())

    def at(self, when: float, deed: Deed) -> None:
        """Does something then."""
        heapq.heappush(self._later, (when, next(self._order), deed))

    def until(self, end: float) -> None:
        """Lets time pass; what is due at `end` happens."""
        while True:
            due = self.core.next_deadline()
            tick = max(due, self.now) if due is not None else float("inf")
            if self._later and self._later[0][0] <= min(tick, end):
                when, _, deed = heapq.heappop(self._later)
                self.now = max(when, self.now)
                deed()
            elif tick <= end:
                self.now = tick
                self.tell(events.Tick())
            else:
                break
        self.now = end

    def tell(self, event: events.Event) -> None:
        """Tells the core, and does what it wants done."""
        self._inbox.append(event)
        if self._tells:
            return
        self._tells = True
        self._hold()
        try:
            while self._inbox:
                for effect in self.core.handle(self._inbox.pop(0), self.now):
                    self._carry_out(effect)
        finally:
            self._tells = False

    def _hold(self) -> None:
        """Adds up what has been booked until now."""
        devices = self.core.world.ledger.devices
        booked = sum(devices[known.name].booked_bytes for known in self._facts.devices if known.name in devices)
        self.held_byte_s += booked * (self.now - self._held_until)
        self._held_until = self.now

    def _carry_out(self, effect: effects.Effect) -> None:
        match effect:
            case effects.Answer():
                self._on_answer(effect.request, effect.outcome)
            case effects.Note():
                self._on_note(effect)
            case effects.Predict():
                self._inbox.append(self._predicted(effect))
            case effects.Sample():
                self._sample(effect.device)
            case effects.LoadObject() | effects.UnparkObject():
                ready = events.ObjectReady(worker=effect.worker, model=effect.model)
                self.at(self.now + self._facts.of(effect.model).load_sec, lambda: self.tell(ready))
            case effects.UnloadObject():
                unloaded = events.ObjectUnloaded(worker=effect.worker, model=effect.model)
                self.at(self.now, lambda: self.tell(unloaded))
            case effects.Drain():
                self._drain(effect)
            case effects.StopWorker():
                exited = events.WorkerExited(worker=effect.worker)
                self.at(self.now + EXIT_S, lambda: self._exit(exited))
            case _:
                pass

    def idle(self, worker: str, model: str) -> None:
        """A call has ended: what drains until its last one is done may have drained."""
        waits = self._drains.pop((worker, model), None)
        if waits is not None:
            self._drain(waits)

    def _drain(self, effect: effects.Drain) -> None:
        instance = self.core.world.instance(effect.worker, effect.model)
        if instance is None or not instance.in_flight:
            self.tell(events.Drained(worker=effect.worker, model=effect.model, drain=effect.drain))
        elif effect.finish:
            self._drains[effect.worker, effect.model] = effect
        else:
            self.tell(events.StillBusy(worker=effect.worker, model=effect.model, drain=effect.drain))

    def _exit(self, exited: events.WorkerExited) -> None:
        self.tell(exited)
        for device in self._facts.devices:
            if device.kind == CUDA:
                self._sample(device.name)

    def _predicted(self, effect: effects.Predict) -> events.Predicted:
        known = self._facts.of(effect.model)
        ways = {RAM: Forecast(peak=Need(ram_bytes=known.ram_bytes + known.gpu_bytes))}
        if known.gpu_bytes:
            ways[GPU] = Forecast(peak=Need(ram_bytes=known.ram_bytes, gpu_bytes=(known.gpu_bytes,)))
        return events.Predicted(model=effect.model, ways=ways, number=effect.number)

    def _sample(self, name: str) -> None:
        """What is booked is what is held."""
        world = self.core.world
        held = {
            worker.id: booked[name]
            for worker in world.workers.values()
            if worker.exited is None and name in (booked := world.ledger.held(worker.id))
        }
        device = next(device for device in self._facts.devices if device.name == name)
        self.tell(
            events.DeviceSeen(
                name=name,
                kind=device.kind,
                total_bytes=device.total_bytes,
                used_bytes=sum(held.values()),
                begun=self.now,
                held_bytes=held,
            )
        )
