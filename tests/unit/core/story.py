"""A shell for stories about the core: it plays clients, host and workers, one event at a time."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from lazyd.core import effects, events
from lazyd.core.answers import Granted, Outcome
from lazyd.core.core import Core
from lazyd.core.lifecycle import State
from lazyd.core.meanings import Kept
from lazyd.core.needs import Forecast, Need
from lazyd.core.spec import GIB, Config, ModelSpec, Settings, Split, Tier


def spec(name: str, **fields: Any) -> ModelSpec:
    """A model of the python runtime; its name may carry a version. An idle time that is given was written down."""
    head, _, version = name.partition(":")
    fields.setdefault("idle_written", "idle_timeout_s" in fields)
    return ModelSpec(name=head, version=version, runtime="python", factory="zoo:load", **fields)


def ways(ram_gib: float | None = None, gpu_gib: float | None = None) -> dict[str, Forecast]:
    """What a load needs in RAM, and on a GPU with a tenth of that in RAM beside it."""
    found: dict[str, Forecast] = {}
    if gpu_gib is not None:
        need = Need(ram_bytes=int(gpu_gib * GIB) // 10, gpu_bytes=(int(gpu_gib * GIB),))
        found["gpu"] = Forecast(peak=need)
    if ram_gib is not None:
        found["ram"] = Forecast(peak=Need(ram_bytes=int(ram_gib * GIB)))
    return found


class Story:
    """`ram` holds 10 GiB and each model needs what `sizes` says (1 GiB if nothing) there. With GPUs
    (`gpus_gib`) it can be on them, too, and needs as much there.

    Samples that the core asks for are answered at once, unless the device is in `silent`: strangers use
    what `strangers` says, and every worker holds what is booked for it, or what `holds` says. What
    a worker had on a GPU is shown to be free as soon as it has exited, unless it is in `sticky`.
    """

    def __init__(
        self,
        *specs: ModelSpec,
        ram_gib: float = 10,
        gpus_gib: Sequence[float] = (),
        sizes: Mapping[str, float] | None = None,
        predictions: Mapping[str, events.Predicted] | None = None,
        settings: Settings | None = None,
        aliases: Mapping[str, str] | None = None,
        splits: Mapping[str, Split] | None = None,
        kept: Mapping[str, Kept] | None = None,
        host: bool = True,
    ) -> None:
        ids = itertools.count(1)
        self.core = Core(lambda: f"#{next(ids)}")
        self.now = 100.0
        self.sizes = dict(sizes or {})
        self.settings = settings or Settings(budget={})
        self.answers: dict[int, Outcome] = {}
        self.effects: list[effects.Effect] = []
        self.requests = itertools.count(1)
        self.predictions = dict(predictions or {})
        self.unpredictable: set[str] = set()
        self.devices = {"ram": int(ram_gib * GIB)}
        self.devices |= {f"gpu{i}": int(gib * GIB) for i, gib in enumerate(gpus_gib)}
        self.strangers: dict[str, int] = {}
        self.silent: set[str] = set()
        self.holds: dict[tuple[str, str], int] = {}
        """By worker and device."""
        self.sticky: dict[tuple[str, str], int] = {}
        """What workers that have exited still hold in the driver's eyes."""
        for name in self.devices:
            self.sample(name)
        if kept is not None:
            self.tell(events.MeaningsKept(kept=dict(kept)))
        self.configure(*specs, aliases=aliases, splits=splits)
        if host:
            self.tell(events.HostFound())

    # Events

    def tell(self, event: events.Event) -> list[effects.Effect]:
        """Gives the core an event, answers its questions about sizes, and files its answers."""
        found = self.core.handle(event, self.now)
        self.effects += found
        for effect in found:
            if isinstance(effect, effects.Answer):
                assert effect.request not in self.answers, f"request {effect.request} is answered twice"
                self.answers[effect.request] = effect.outcome
            elif isinstance(effect, effects.Predict):
                found = found + self.tell(msgspec.structs.replace(self.prediction(effect.model), number=effect.number))
            elif isinstance(effect, effects.Sample) and effect.device not in self.silent:
                found = found + self.sample(effect.device)
        return found

    def prediction(self, model: str) -> events.Predicted | events.Unpredictable:
        if model in self.unpredictable:
            return events.Unpredictable(model=model, reason="no such file")
        gib = self.sizes.get(model, 1)
        ordinary = events.Predicted(model=model, ways=ways(gib, gib if len(self.devices) > 1 else None))
        return self.predictions.get(model, ordinary)

    def sample(self, name: str, **fields: Any) -> list[effects.Effect]:
        """A device is looked at now."""
        world = self.core.world
        held = {
            holder: self.holds.get((holder, name), booked[name])
            for holder, booked in world.ledger.bookings.items()
            if name in booked and holder in world.workers and world.workers[holder].exited is None
        }
        stuck = sum(n for (holder, device), n in self.sticky.items() if device == name and holder not in held)
        seen = {
            "name": name,
            "kind": "host" if name == "ram" else "cuda",
            "total_bytes": self.devices[name],
            "used_bytes": self.strangers.get(name, 0) + sum(held.values()) + stuck,
            "begun": self.now,
            "held_bytes": held,
            "uuid": None if name == "ram" else f"GPU-{name}",
        }
        return self.tell(events.DeviceSeen(**{**seen, **fields}))

    def strangers_last(self) -> None:
        """What strangers use now is seen for longer than a driver takes to show what is free."""
        for _ in range(7):
            self.wait(1)
            for name in self.devices:
                self.sample(name)

    def configure(
        self,
        *specs: ModelSpec,
        aliases: Mapping[str, str] | None = None,
        splits: Mapping[str, Split] | None = None,
        pins: tuple[str, ...] = (),
    ) -> None:
        shares = dict(splits or {})
        main = {name: max(split.weights, key=split.weights.__getitem__) for name, split in shares.items()}
        config = Config(
            settings=self.settings,
            models={s.key: s for s in specs},
            aliases={**(aliases or {}), **main},
            splits=shares,
        )
        self.tell(events.Configure(config=config, pins=frozenset(pins)))

    def wait(self, seconds: float) -> None:
        """Lets time pass; every alarm on the way goes off at its own time."""
        end = self.now + seconds
        while (due := self.core.next_deadline()) is not None and due <= end:
            self.now = max(due, self.now)
            self.tell(events.Tick())
        self.now = end
        self.tell(events.Tick())

    def get(self, model: str, **fields: Any) -> int:
        """Asks for a lease; returns the request's number."""
        request = next(self.requests)
        fields.setdefault("holder", 1000)
        if "timeout" in fields:
            fields["deadline"] = self.now + fields.pop("timeout")
        self.tell(events.Get(request=request, model=model, **fields))
        return request

    def load(self, model: str) -> int:
        request = next(self.requests)
        self.tell(events.Load(request=request, model=model))
        return request

    def unload(self, *models: str, timeout: float = 30, **fields: Any) -> int:
        request = next(self.requests)
        self.tell(events.Unload(request=request, models=models, deadline=self.now + timeout, **fields))
        return request

    def pin(self, model: str, pinned: bool = True) -> int:
        request = next(self.requests)
        self.tell(events.Pin(request=request, model=model, pinned=pinned))
        return request

    def promote(self, name: str, model: str | None) -> Outcome:
        request = next(self.requests)
        self.tell(events.Promote(request=request, name=name, model=model))
        return self.answers[request]

    def rollback(self, name: str) -> Outcome:
        request = next(self.requests)
        self.tell(events.Rollback(request=request, name=name))
        return self.answers[request]

    def ready(self, model: str, after: float = 1.0) -> None:
        """The load of a model succeeds."""
        self.wait(after)
        self.tell(events.ObjectReady(worker=self.worker(model), model=model))

    def hot(self, model: str, after: float = 1.0) -> None:
        """Loads a model and uses it once, so that nothing protects it any more."""
        request = self.get(model)
        if request not in self.answers:
            self.ready(model, after)
        self.end_call(self.call(request))
        self.close(request)

    def call(self, request: int) -> int:
        """The client presents its lease and begins a call."""
        granted = self.granted(request)
        self.tell(events.LeasePresented(worker=granted.worker, lease=granted.lease))
        self.tell(events.LeaseBusy(worker=granted.worker, lease=granted.lease))
        return request

    def end_call(self, request: int) -> None:
        granted = self.granted(request)
        self.tell(events.LeaseIdle(worker=granted.worker, lease=granted.lease))

    def close(self, request: int) -> None:
        granted = self.granted(request)
        self.tell(events.LeaseClosed(worker=granted.worker, lease=granted.lease))

    def answer_drain(self, model: str, busy: bool = False) -> None:
        """The worker answers the drain under way."""
        instance = self.core.world.models[model].instance
        assert instance is not None
        assert instance.leaving is not None, f"{model} does not drain"
        kind = events.StillBusy if busy else events.Drained
        self.tell(kind(worker=instance.worker.id, model=model, drain=instance.leaving.number))

    def exit(self, model: str, **fields: Any) -> None:
        """The model's worker is gone."""
        self.tell(events.WorkerExited(worker=self.worker(model), **fields))

    def stick(self, model: str, device: str) -> None:
        """The driver will not show what a model's worker has on a device to be free."""
        worker = self.worker(model)
        self.sticky[worker, device] = self.core.world.ledger.held(worker)[device]

    def unstick(self, device: str) -> None:
        """The driver gives back all that was stuck."""
        self.sticky = {key: n for key, n in self.sticky.items() if key[1] != device}
        self.sample(device)

    # Looking

    def worker(self, model: str) -> str:
        """The worker of the newest instance, or of any that is left."""
        record = self.core.world.models.get(model)
        if record is not None and record.instance is not None:
            return record.instance.worker.id
        return next(w.id for w in self.core.world.workers.values() if model in w.instances or model == w.spec.key)

    def granted(self, request: int) -> Granted:
        outcome = self.answers[request]
        assert isinstance(outcome, Granted), outcome
        return outcome

    def state(self, model: str) -> State:
        record = self.core.world.models.get(model)
        return record.state if record is not None else State.COLD

    def count(self, kind: type[effects.Effect]) -> int:
        return sum(isinstance(effect, kind) for effect in self.effects)

    @property
    def free_gib(self) -> float:
        return self.free("ram")

    def free(self, device: str) -> float:
        """GiB that could be booked."""
        return self.core.world.ledger.devices[device].free_bytes / GIB

    def devices_of(self, model: str) -> list[str]:
        """Where its worker is booked."""
        return list(self.core.world.ledger.held(self.worker(model)))


RESIDENT = Tier.RESIDENT
TRANSIENT = Tier.TRANSIENT
