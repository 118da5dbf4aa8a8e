"""A day of names: the real core, while versions come and go, are promoted, fail and are replaced under calls.

It is a world of its own, small enough that what each name must mean is known: one device, models that all need the
same, messages that take no time, and the rules of real workers (`lazyd.worker.admission`). After every event what
docs/versions.md promises is checked (`naming_checks`).
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from lazyd.core import answers, effects, events
from lazyd.core.core import Core
from lazyd.core.names import model_key
from lazyd.core.needs import Forecast, Need
from lazyd.core.spec import MIB, WarmupMode
from lazyd.worker.records import Drop, Lease, Revoke, Tell, Warmth

from . import naming_checks
from .naming_clients import Session
from .naming_machine import OTHERS, VERSIONS, Process, config_of, said

SIZE = 100 * MIB
NAMES = ("v", "alias", "shared")
CLIENTS = 7
DAY_S = 240.0
PEACE_S = 700.0
"""Longer than any pause after failures."""


@dataclass(eq=False)
class Asked:
    """A request for a lease that is not answered."""

    number: int
    name: str
    sticky: str | None
    then: Callable[[answers.Granted], None]
    now: float


class Day:
    """One schedule, all of it from one seed."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.now = 1000.0
        self.seen: Counter[type] = Counter()
        self.room = self.rng.choice((2, 3, 4, 6))
        self.processes: dict[str, Process] = {}
        self.asked: dict[int, Asked] = {}
        self.kept: dict[str, Any] = {}
        self.at_work = True
        self._ids, self._numbers, self._order = itertools.count(1), itertools.count(1), itertools.count()
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self.flaws = {key: self.rng.choice((0.0, 0.0, 0.3, 1.0)) for key in (*VERSIONS, *OTHERS)}
        """How often a load, or the warm-up, of a model fails."""
        self.config = config_of(VERSIONS[:2], {"v:1": 3, "v:2": 1}, "v:1", self._replicas())
        self.checks = naming_checks.Checks(self)
        self.core = Core(self._new_id)
        self._start()

    def run(self) -> None:
        """A day, and then peace, in which everybody is answered."""
        for number in range(CLIENTS):
            self.at(self.rng.uniform(0.0, 2.0), self._client(number))
        self.at(5.0, self._person)
        self._until(self.now + DAY_S)
        self.at_work = False
        self.flaws = dict.fromkeys(self.flaws, 0.0)
        self._until(self.now + PEACE_S)
        self.checks.in_peace()

    def at(self, after_s: float, deed: Callable[[], None]) -> None:
        heapq.heappush(self._heap, (self.now + after_s, next(self._order), deed))

    def _until(self, end: float) -> None:
        while True:
            tick, next_deed = self.core.next_deadline(), self._heap[0][0] if self._heap else end + 1
            moment = min(next_deed, end + 1 if tick is None else tick)
            if moment > end:
                break
            self.now = max(self.now, moment)
            if next_deed <= moment:
                heapq.heappop(self._heap)[2]()
            else:
                self.tell(events.Tick())
        self.now = end

    def _new_id(self) -> str:
        return f"id{next(self._ids)}"

    # The configuration.

    def _person(self) -> None:
        """Somebody changes what names mean, or restarts the manager."""
        if not self.at_work:
            return
        self.at(self.rng.uniform(2.0, 15.0), self._person)
        deeds = (self._edit, self._edit, self._promote, self._promote, self._rollback, self._restart, self._crash)
        self.rng.choice(deeds)()

    def _edit(self) -> None:
        keys = tuple(key for key in VERSIONS if self.rng.random() < 0.7) or VERSIONS[:1]
        weights = {key: self.rng.randint(1, 9) for key in self.rng.sample(keys, min(2, len(keys)))}
        self.config = config_of(keys, weights, self.rng.choice(keys), self._replicas())
        self.tell(events.Configure(config=self.config))

    def _replicas(self) -> dict[str, int]:
        return {key: self.rng.choice((1, 2, 3)) for key in (*VERSIONS, *OTHERS)}

    def _crash(self) -> None:
        """A worker that is in use dies."""
        ready = [process for process in self.processes.values() if process.is_ready]
        if ready:
            self._end(self.rng.choice(ready), signal=11)

    def _promote(self) -> None:
        model = self.rng.choice((*self.config.models, "v:9", None))
        self.tell(events.Promote(request=next(self._numbers), name=self.rng.choice((*NAMES, "no")), model=model))

    def _rollback(self) -> None:
        self.tell(events.Rollback(request=next(self._numbers), name=self.rng.choice(NAMES)))

    def _restart(self) -> None:
        """The manager dies, and the next one finds what there is."""
        for process in self.processes.values():
            process.rules.manager_lost(self.now)
            process.rules.manager_found()
        lost, self.asked = list(self.asked.values()), {}
        self.core = Core(self._new_id)
        self._start()
        for asked in lost:
            self.get(asked.name, asked.sticky, asked.then)

    def _start(self) -> None:
        self.checks.forget()
        self.tell(events.MeaningsKept(kept=self.kept))
        self._sample()
        self.tell(events.Configure(config=self.config))
        self.tell(events.HostFound(workers=tuple(map(self._report, self.processes.values()))))

    def _report(self, process: Process) -> events.WorkerReport:
        told = {"worker": process.id, "pid": 1, "started": process.started, "endpoint": "/", "memo": process.memo}
        return msgspec.convert({**told, **process.rules.report()}, events.WorkerReport)

    # The core.

    def tell(self, event: events.Event) -> None:
        self.seen[type(event)] += 1
        self.checks.before(event)
        done = self.core.handle(event, self.now)
        for effect in done:
            self.seen[type(effect)] += 1
            self.checks.effect(effect)
            deed = DEEDS.get(type(effect))
            if deed is not None:
                deed(self, effect)
        self.checks.after()

    def _soon(self, event: events.Event) -> None:
        self.at(0.0, lambda: self.tell(event))

    def _sample(self) -> None:
        total = self.room * SIZE
        held = {p.id: SIZE for p in self.processes.values() if not p.gone}
        used = sum(held.values())
        sample = {"total_bytes": total, "used_bytes": used, "held_bytes": held, "begun": self.now}
        self.tell(events.DeviceSeen(name="ram", kind="host", **sample))  # type: ignore[arg-type]

    def _predict(self, effect: effects.Predict) -> None:
        ways = {"ram": Forecast(peak=Need(ram_bytes=SIZE))}
        self._soon(events.Predicted(model=effect.model, number=effect.number, ways=ways))

    def _look(self, _: effects.Sample) -> None:
        self.at(0.0, self._sample)

    def _keep(self, effect: effects.KeepMeanings) -> None:
        self.kept = effect.kept

    def _answer(self, effect: effects.Answer) -> None:
        self.seen[type(effect.outcome)] += 1
        asked = self.asked.pop(effect.request, None)
        if asked is not None and isinstance(effect.outcome, answers.Granted):
            granted = effect.outcome
            self.at(self.rng.uniform(0.0, 0.02), lambda: asked.then(granted))
        elif asked is not None:
            self.at(1.0, lambda: self.get(asked.name, asked.sticky, asked.then) if self.at_work else None)

    # Workers.

    def _start_worker(self, effect: effects.StartWorker) -> None:
        fails = self.rng.random() < self.flaws[model_key(effect.model)]
        self.processes[effect.worker] = Process(effect.worker, effect.model, effect.memo, self.now, fails)

    def _load(self, effect: effects.LoadObject) -> None:
        process = self.processes[effect.worker]
        process.rules.loading(effect.model, self.now)
        self.at(self.rng.uniform(0.2, 4.0), lambda: self._loaded(process, effect))

    def _loaded(self, process: Process, effect: effects.LoadObject) -> None:
        if process.gone or process.leaves or process.object is None or process.object.state != "loading":
            return
        if process.fails and effect.warmup != WarmupMode.ASYNC:
            process.rules.gone(process.key)
            self.tell(events.ObjectFailed(worker=process.id, model=process.key, reason="flawed"))
            return
        warmth = {"": "", WarmupMode.ASYNC: "waiting"}.get(effect.warmup, "done")
        process.rules.loaded(process.key, self.now, warmth=Warmth(warmth))
        self.tell(events.ObjectReady(worker=process.id, model=process.key, warmup=warmth))
        if warmth == "waiting":
            self.at(self.rng.uniform(0.1, 3.0), lambda: self._warmed_up(process))

    def _warmed_up(self, process: Process) -> None:
        known = process.object
        if process.gone or known is None or known.state != "ready":
            return
        problem = "flawed" if process.fails else ""
        known.warmth = Warmth("failed" if problem else "done", problem=problem)
        self.tell(events.WarmupEnded(worker=process.id, model=process.key, problem=problem or None))

    def _stop_worker(self, effect: effects.StopWorker) -> None:
        process = self.processes[effect.worker]
        if not process.leaves:
            process.leaves = True
            self.at(self.rng.uniform(0.01, 0.5), lambda: self._end(process, status=0))

    def _end(self, process: Process, **how: int) -> None:
        if process.gone:
            return
        process.gone = True
        process.rules.gone(process.key)
        del self.processes[process.id]
        self.tell(events.WorkerExited(worker=process.id, **how))

    def _grant(self, effect: effects.Grant) -> None:
        fields = {name: getattr(effect, name) for name in ("token", "model", "holder", "hold_until", "parent", "route")}
        self.processes[effect.worker].rules.grant(Lease(id=effect.lease, granted=self.now, **fields))
        if effect.shadow is not None and effect.route is not None:
            compared = events.Compared(equal=1)
            self._soon(events.Shadowed(name=effect.route, shadow=effect.shadow, compared=compared))

    def _revoke(self, effect: effects.Revoke) -> None:
        process = self.processes[effect.worker]
        self.act(process, process.rules.revoke(effect.lease))

    def _withdraw(self, effect: effects.Withdraw) -> None:
        process = self.processes[effect.worker]
        self.act(process, process.rules.withdraw(effect.lease))

    def _drain(self, effect: effects.Drain) -> None:
        process = self.processes[effect.worker]
        actions = process.rules.drain(effect.model, effect.drain, finish=effect.finish, now=self.now)
        self.act(process, actions)

    def _resume(self, effect: effects.Resume) -> None:
        self.processes[effect.worker].rules.resume(effect.model)

    def act(self, process: Process, actions: list[Any]) -> None:
        for action in actions:
            if isinstance(action, Tell):
                self._soon(said(process.id, action.message))
            elif isinstance(action, Revoke | Drop) and action.connection is not None:
                action.connection.is_open = False

    # Clients.

    def get(self, name: str, sticky: str | None, then: Callable[[answers.Granted], None]) -> None:
        number = next(self._numbers)
        self.asked[number] = Asked(number, name, sticky, then, self.now)
        self.tell(events.Get(request=number, model=name, holder=1, sticky=sticky))

    def _client(self, number: int) -> Callable[[], None]:
        """A client goes from session to session."""

        def ask() -> None:
            if not self.at_work:
                return
            name = self.rng.choice((*NAMES, *NAMES, *self.config.models))
            sticky = f"client {number}" if self.rng.random() < 0.3 else None
            self.get(name, sticky, lambda granted: Session(self, granted, name, sticky, ask).begin())

        return ask


DEEDS: dict[type[effects.Effect], Callable[[Day, Any], None]] = {
    effects.Answer: Day._answer,
    effects.Predict: Day._predict,
    effects.Sample: Day._look,
    effects.KeepMeanings: Day._keep,
    effects.StartWorker: Day._start_worker,
    effects.LoadObject: Day._load,
    effects.StopWorker: Day._stop_worker,
    effects.Grant: Day._grant,
    effects.Revoke: Day._revoke,
    effects.Withdraw: Day._withdraw,
    effects.Drain: Day._drain,
    effects.Resume: Day._resume,
}
