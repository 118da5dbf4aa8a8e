"""A machine as the core sees it, in virtual time: loads take what they took, processes exit, memory comes back.

Nothing goes wrong on it, and nobody else uses it. Its time is that of day, in seconds since 1970.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Collection

import msgspec

from lazyd.core import effects, events
from lazyd.core.answers import Outcome
from lazyd.core.core import Core
from lazyd.core.ledger import CUDA
from lazyd.core.spec import Config, ModelSpec, PrewarmWhen, WarmupMode

from .facts import Facts, ModelFacts

EXIT_S = 0.1
"""A process that is told to end takes so long."""
RUNTIME = "replay"
"""The version of every runtime."""

Deed = Callable[[], None]


class Machine:
    """Drives a core. `on_answer` hears of each answer, `on_note` of each event, and `on_held` of spans of time in which
    as much was booked as the ledger says."""

    def __init__(
        self,
        config: Config,
        facts: Facts,
        *,
        began: float,
        pins: Collection[str] = (),
        on_answer: Callable[[int, Outcome], None],
        on_note: Callable[[effects.Note], None],
        on_held: Callable[[float, float], None],
    ) -> None:
        ids = itertools.count(1)
        self.core = Core(lambda: f"{next(ids):x}")
        self.now = began
        self._facts = facts
        self._on_answer = on_answer
        self._on_note = on_note
        self._on_held = on_held
        self._later: list[tuple[float, int, Deed]] = []
        self._order = itertools.count()
        self._inbox: list[events.Event] = []
        self._tells = False
        self._drains: dict[tuple[str, str], effects.Drain] = {}
        """Those that wait for calls to end, by worker and model."""
        self._told_at = began
        self._gpus = tuple(device.name for device in facts.devices if device.kind == CUDA)
        self._devices = {device.name: device for device in facts.devices}
        for name in self._devices:
            self._sample(name)
        self.tell(events.Configure(config=config, pins=frozenset(pins)))
        self.tell(events.HostFound())
        self._follow_schedules(config)

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
        if self.now > self._told_at:
            self._on_held(self._told_at, self.now)
            self._told_at = self.now
        try:
            while self._inbox:
                for effect in self.core.handle(self._inbox.pop(0), self.now):
                    self._carry_out(effect)
        finally:
            self._tells = False

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
            case effects.LoadObject():
                self._load(effect)
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
        for name in self._gpus:
            self._sample(name)

    def _predicted(self, effect: effects.Predict) -> events.Predicted:
        known = self._known(effect.model)[0]
        return events.Predicted(
            model=effect.model, ways=known.possible, layers=known.layers, files=known.files, number=effect.number
        )

    def _known(self, key: str) -> tuple[ModelFacts, ModelSpec]:
        spec = self.core.world.models[key].spec
        first = self.core.world.models[key].first
        return self._facts.of(first.key, first.spec), spec

    def _load(self, effect: effects.LoadObject) -> None:
        """The weights come after so long, and then the warm-up that was ordered."""
        known, spec = self._known(effect.model)
        loaded = self.now + known.load_s
        self._make_progress(effect, spec.load_timeout_s, known.load_s)
        ready = events.ObjectReady(worker=effect.worker, model=effect.model, runtime=RUNTIME)
        replace = msgspec.structs.replace
        if not effect.warmup:
            self.at(loaded, lambda: self.tell(ready))
        elif effect.warmup == WarmupMode.ASYNC:
            ended = events.WarmupEnded(
                worker=effect.worker, model=effect.model, warmup_s=known.warmup_sec, runtime=RUNTIME
            )
            self.at(loaded, lambda: self.tell(replace(ready, warmup="waiting")))
            self.at(loaded + known.warmup_sec, lambda: self.tell(ended))
        elif RUNTIME in effect.warmed_by:
            self.at(loaded, lambda: self.tell(replace(ready, warmup="known")))
        else:
            warming = events.ObjectWarming(worker=effect.worker, model=effect.model, call=1, calls=1)
            done = replace(ready, warmup="done", warmup_s=known.warmup_sec)
            self.at(loaded, lambda: self.tell(warming))
            self.at(loaded + known.warmup_sec, lambda: self.tell(done))

    def _make_progress(self, effect: effects.LoadObject, timeout_s: float | None, load_s: float) -> None:
        """A load that took longer than a load may stand still has gone on all the time."""
        if timeout_s is None or load_s < timeout_s or not timeout_s:
            return
        told = events.LoadProgress(worker=effect.worker, model=effect.model, phase="loading")
        for step in range(1, int(2 * load_s / timeout_s) + 1):
            self.at(self.now + step * timeout_s / 2, lambda: self.tell(told))

    def _sample(self, name: str) -> None:
        """What is booked is what is held."""
        world, device = self.core.world, self._devices[name]
        bookings = world.ledger.bookings
        held = {
            worker.id: booked[name]
            for worker in world.workers.values()
            if worker.exited is None and name in (booked := bookings.get(worker.id, _NOTHING))
        }
        self.tell(
            events.DeviceSeen(
                name=name,
                kind=device.kind,
                total_bytes=device.total_bytes,
                used_bytes=sum(held.values()),
                begun=self.now,
                held_bytes=held,
                alone=device.alone,
            )
        )

    def _follow_schedules(self, config: Config) -> None:
        if any(spec.prewarm.when is PrewarmWhen.SCHEDULE for spec in config.models.values()):
            from lazyd.manager.readiness.schedules import Schedules

            Schedules(self.tell, _Clock(self)).put_in_force(config)


_NOTHING: dict[str, int] = {}


class _Clock:
    """The time of day on a machine, for schedules: its clock is never set, and it does not sleep."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._alarms = 0

    def now(self) -> float:
        return self._machine.now

    def monotonic(self, when: float) -> float:
        return when

    def ring_at(self, when: float, on_ring: Callable[[], None]) -> None:
        """Replaces the alarm."""
        self._alarms += 1
        number = self._alarms

        def ring() -> None:
            if number == self._alarms:
                on_ring()

        self._machine.at(when, ring)
