"""A large machine in virtual time: clients, workers and drivers, as the decision core sees them.

It plays everything around one `Core` and answers its effects as quickly as real ones do. Only the time
that `Core.handle` takes is real, and it is noted for every event.
"""

from __future__ import annotations

import heapq
import itertools
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from lazyd.core import effects, events
from lazyd.core.answers import Granted, Outcome
from lazyd.core.core import Core
from lazyd.core.needs import Forecast, Need
from lazyd.core.pace import pace_s
from lazyd.core.spec import GIB, MIB, Config, ModelSpec, Settings

LOAD_BYTES_PER_S = 1.5e9
START_S = 0.4
EXIT_S = 0.15
RELEASE_S = (0.5, 1.5)
"""Drivers show memory to be free so long after the exit."""
CALL_S = (0.05, 4.0)
MEASURE_S = 5.0
USED = 0.94
"""The part of a booking that a worker really uses."""
RAM = "ram"


@dataclass(frozen=True)
class Plant:
    """What there is of everything."""

    models: int
    gpus: int
    gpu_gib: float = 80.0
    ram_gib: float = 1024.0
    requests_per_s: float = 8.0
    calls: int = 3
    """Calls under a lease, on average."""
    patience_s: float = 60.0


@dataclass(slots=True)
class Process:
    """A worker, as the machine has it."""

    worker: str
    model: str
    holds: dict[str, int]
    leases: dict[str, bool] = field(default_factory=dict)
    """By lease: whether a call is in flight."""
    draining: int | None = None
    """The drain that waits for the last call."""
    gone: bool = False


class Machine:
    """Everything that the core talks to. `spent_ns` has what each event took, in order, and `computed_ns` how much
    of that the processor worked on it: on a machine that others use, too, the rest is theirs."""

    def __init__(self, plant: Plant, seed: int) -> None:
        self.plant = plant
        self.rng = random.Random(seed)
        self.now = 1000.0
        ids = itertools.count(1)
        self.core = Core(lambda: f"#{next(ids)}")
        self.kinds: list[str] = []
        self.spent_ns: list[int] = []
        self.computed_ns: list[int] = []
        self.waited: list[bool] = []
        """Whether anybody stood in the line for room, before or after it."""
        self.lines: list[int] = []
        """How many stood there after it."""
        self.outcomes: dict[str, int] = {}
        self.requests = itertools.count(1)
        self.coming: list[tuple[float, int, Callable[[], None]]] = []
        self.serial = itertools.count()
        self.processes: dict[str, Process] = {}
        self.stuck: dict[str, int] = {}
        self.needs = {f"m{number:04}": self.size_of(number) for number in range(plant.models)}
        self.weights = list(itertools.accumulate(1 / (rank + 5) for rank in range(plant.models)))
        self.names = self.rng.sample(sorted(self.needs), plant.models)
        self.devices = {RAM: int(plant.ram_gib * GIB)}
        self.devices |= {f"gpu{number}": int(plant.gpu_gib * GIB) for number in range(plant.gpus)}
        self.set_up()

    def size_of(self, number: int) -> dict[str, Forecast]:
        """Most models are on a GPU, some small ones in RAM alone."""
        if number % 4 == 3 or not self.plant.gpus:
            need = Need(ram_bytes=int(self.rng.lognormvariate(0.3, 0.8) * GIB))
            return {"ram": Forecast(peak=need)}
        gpu = min(0.8 * self.plant.gpu_gib, self.rng.lognormvariate(1.6, 0.9))
        return {"gpu": Forecast(peak=Need(ram_bytes=int(0.05 * gpu * GIB) + 300 * MIB, gpu_bytes=(int(gpu * GIB),)))}

    def set_up(self) -> None:
        for name in self.devices:
            self.sample(name)
        specs = {name: ModelSpec(name=name, runtime="python", factory="any:load") for name in self.needs}
        self.tell(events.Configure(config=Config(settings=Settings(budget={}), models=specs)))
        self.tell(events.HostFound())
        self.after(0.0, self.arrive)
        self.after(0.0, self.measure)

    # Time

    def after(self, delay_s: float, step: Callable[[], None]) -> None:
        heapq.heappush(self.coming, (self.now + delay_s, next(self.serial), step))

    def run(self, count: int) -> None:
        """Goes on until the core has handled so many events more."""
        end = len(self.spent_ns) + count
        while len(self.spent_ns) < end:
            due = self.core.next_deadline()
            if due is not None and due <= self.coming[0][0]:
                self.now = max(self.now, due)
                self.tell(events.Tick())
            else:
                self.now, _, step = heapq.heappop(self.coming)
                step()

    def tell(self, event: events.Event) -> None:
        """Has the core handle an event, and answers what it wants done."""
        waited = bool(self.core.world.wanting)
        began, computed = time.perf_counter_ns(), time.thread_time_ns()
        found = self.core.handle(event, self.now)
        self.computed_ns.append(time.thread_time_ns() - computed)
        self.spent_ns.append(time.perf_counter_ns() - began)
        self.lines.append(len(self.core.world.wanting))
        self.waited.append(waited or self.lines[-1] > 0)
        self.kinds.append(type(event).__name__)
        for effect in found:
            react = REACTIONS.get(type(effect))
            if react is not None:
                react(self, effect)

    # Clients

    def arrive(self) -> None:
        """Somebody asks for a model; some are asked for much more often than others."""
        self.after(self.rng.expovariate(self.plant.requests_per_s), self.arrive)
        name = self.rng.choices(self.names, cum_weights=self.weights)[0]
        deadline = self.now + self.plant.patience_s
        self.tell(events.Get(request=next(self.requests), model=name, holder=1000, deadline=deadline))

    def answered(self, effect: effects.Answer) -> None:
        outcome: Outcome = effect.outcome
        kind = type(outcome).__name__
        self.outcomes[kind] = self.outcomes.get(kind, 0) + 1
        if isinstance(outcome, Granted):
            self.after(0.0002, lambda: self.present(outcome.worker, outcome.lease))

    def present(self, worker: str, lease: str) -> None:
        process = self.processes.get(worker)
        if process is not None and not process.gone:
            process.leases[lease] = False
            self.tell(events.LeasePresented(worker=worker, lease=lease))
            self.call(process, lease)

    def call(self, process: Process, lease: str) -> None:
        if not process.gone and lease in process.leases:
            process.leases[lease] = True
            self.tell(events.LeaseBusy(worker=process.worker, lease=lease))
            self.after(self.rng.uniform(*CALL_S), lambda: self.end_call(process, lease))

    def end_call(self, process: Process, lease: str) -> None:
        if process.gone or lease not in process.leases:
            return
        process.leases[lease] = False
        self.tell(events.LeaseIdle(worker=process.worker, lease=lease))
        if process.draining is not None and not any(process.leases.values()):
            self.drained(process, process.draining)
        elif self.rng.random() < 1 / self.plant.calls:
            process.leases.pop(lease, None)
            self.tell(events.LeaseClosed(worker=process.worker, lease=lease))
        else:
            self.after(self.rng.expovariate(0.5), lambda: self.call(process, lease))

    # Workers

    def predict(self, effect: effects.Predict) -> None:
        found = events.Predicted(model=effect.model, number=effect.number, ways=self.needs[effect.model])
        self.after(0.003, lambda: self.tell(found))

    def start(self, effect: effects.StartWorker) -> None:
        booking: dict[str, int] = effect.memo["booking"]
        process = Process(effect.worker, effect.model, holds=dict.fromkeys(booking, 0))
        self.processes[effect.worker] = process
        self.after(0.005, lambda: self.tell(events.WorkerStarted(worker=effect.worker, pid=4000)))
        size = sum(booking.values())
        took = START_S + size / LOAD_BYTES_PER_S * self.rng.uniform(0.8, 1.2)
        for part in (0.25, 0.5, 0.75, 1.0):
            self.after(part * took, lambda part=part: self.grow(process, booking, part))  # type: ignore[misc]

    def grow(self, process: Process, booking: dict[str, int], part: float) -> None:
        if process.gone:
            return
        process.holds = {name: int(n * USED * part) for name, n in booking.items()}
        if part < 1.0:
            self.tell(events.LoadProgress(worker=process.worker, model=process.model, phase="weights", fraction=part))
        else:
            self.tell(events.ObjectReady(worker=process.worker, model=process.model))

    def drain(self, effect: effects.Drain) -> None:
        process = self.processes[effect.worker]
        if not any(process.leases.values()):
            self.after(0.0005, lambda: self.drained(process, effect.drain))
        elif effect.finish:
            process.draining = effect.drain
        else:
            busy = events.StillBusy(worker=effect.worker, model=effect.model, drain=effect.drain)
            self.after(0.0005, lambda: self.tell(busy))

    def drained(self, process: Process, drain: int) -> None:
        if not process.gone:
            process.draining = None
            process.leases.clear()
            self.tell(events.Drained(worker=process.worker, model=process.model, drain=drain))

    def resume(self, effect: effects.Resume) -> None:
        self.processes[effect.worker].draining = None

    def stop(self, effect: effects.StopWorker) -> None:
        process = self.processes[effect.worker]
        if not process.gone:
            process.gone = True
            self.after(EXIT_S, lambda: self.exit(process))

    def exit(self, process: Process) -> None:
        for name, n in process.holds.items():
            if name != RAM:
                self.stuck[name] = self.stuck.get(name, 0) + n
                self.after(self.rng.uniform(*RELEASE_S), lambda name=name, n=n: self.give_back(name, n))  # type: ignore[misc]
        del self.processes[process.worker]
        self.tell(events.WorkerExited(worker=process.worker, status=0))

    def give_back(self, name: str, n: int) -> None:
        self.stuck[name] -= n

    def withdraw(self, effect: effects.Withdraw) -> None:
        process = self.processes.get(effect.worker)
        if process is not None:
            process.leases.pop(effect.lease, None)

    # Devices

    def sampled(self, effect: effects.Sample) -> None:
        self.after(0.004, lambda: self.sample(effect.device, again=False))

    def sample(self, name: str, *, again: bool = True) -> None:
        """Looks at a device, and does so again as soon as the core wants it."""
        held = {worker: process.holds[name] for worker, process in self.processes.items() if process.holds.get(name)}
        self.tell(
            events.DeviceSeen(
                name=name,
                kind="host" if name == RAM else "cuda",
                total_bytes=self.devices[name],
                used_bytes=sum(held.values()) + self.stuck.get(name, 0) + GIB,
                begun=self.now,
                held_bytes=held,
                uuid=None if name == RAM else name,
            )
        )
        if again:
            self.after(pace_s(self.core.world, name), lambda: self.sample(name))

    def measure(self) -> None:
        """The host tells of all its workers, one after the other."""
        self.after(MEASURE_S, self.measure)
        for worker, process in list(self.processes.items()):
            if not process.gone:
                self.tell(events.WorkerMeasured(worker=worker, bytes_by_device={RAM: process.holds.get(RAM, 0)}))


REACTIONS: dict[type[effects.Effect], Callable[[Machine, Any], None]] = {
    effects.Answer: Machine.answered,
    effects.Drain: Machine.drain,
    effects.Predict: Machine.predict,
    effects.Resume: Machine.resume,
    effects.Sample: Machine.sampled,
    effects.StartWorker: Machine.start,
    effects.StopWorker: Machine.stop,
    effects.Withdraw: Machine.withdraw,
}
