"""What the present core has been told and has ordered, read off its interface alone.

The invariants compare the core's orders with this and with the truth of the workers; they
never look inside the core.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lazyd.core import answers, effects, events, names
from lazyd.core.monitoring import Past
from lazyd.core.spec import Config, ModelSpec, Tier

from .books import Books
from .expectations import Expectations, Guess
from .memory import CUDA, RAM

if TYPE_CHECKING:
    from .control import Pending
    from .world import World


class Stage(enum.Enum):
    """What the core has last ordered or heard of an object."""

    LOADING = "loading"
    READY = "ready"
    PARKING = "parking"
    PARKED = "parked"
    UNLOADING = "unloading"


@dataclass(slots=True)
class ToldObject:
    """One model in one worker."""

    stage: Stage
    ordered: float
    """When the load was ordered."""
    heard: float
    """When news of the load was last told."""
    ready_at: float = 0.0
    load_s: float = 0.0
    used: float = 0.0
    """When it became ready, was granted, or a call was told to begin or end."""
    is_missing: bool = False
    """The worker was found without it: the order to load it may be repeated."""
    said_busy: float = 0.0
    """When the worker last answered that it is busy."""
    drain: int | None = None
    """The drain that was ordered last and not taken back."""
    parked_at: float = 0.0
    warming: float | None = None
    """Since when a call of its warm-up runs, as told."""
    guess: Guess | None = None
    """It was loaded because it was expected, and nobody has come yet."""
    is_unfit: bool = False
    """Its warm-up has failed while it served."""

    @property
    def is_begun(self) -> bool:
        """It is being loaded or warmed up: if it is ended, that has failed."""
        return self.stage is Stage.LOADING or self.warming is not None


@dataclass(slots=True)
class ToldWorker:
    """A worker as the core has started it or found it."""

    key: str
    spec: ModelSpec | None
    devices: tuple[str, ...] = ()
    stopping: bool = False
    is_stale: bool = False
    """The files of one of its models have changed where they were fetched from."""
    objects: dict[str, ToldObject] = field(default_factory=dict)
    busy: dict[str, bool] = field(default_factory=dict)
    """Leases whose calls have not ended by what the core has heard."""

    def is_on(self, devices: Collection[str]) -> bool:
        return any(device in devices for device in self.devices)

    def at(self, stage: Stage) -> list[str]:
        return [model for model, thing in self.objects.items() if thing.stage is stage]


class Told:
    """One core's conversation so far."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.config = Config()
        self.books = Books(world, self)
        self.expectations = Expectations(world, self)
        self.over_since: dict[str, float] = {}
        """Since when a device has certainly held too much, and nothing was on its way out of it."""
        self.worn_since: dict[str, float] = {}
        """By worker: since when it has answered as many calls as it may."""
        self.restarted: set[str] = set()
        """Models that were to leave for that, and may be loaded again for nobody."""
        self.has_host = False
        self.hosts_found = 0
        self.workers: dict[str, ToldWorker] = {}
        self.stop_deadline: float | None = None
        self.unloads: dict[int, events.Unload] = {}
        self.just_unloaded: list[events.Unload] = []
        """Unloads answered by the event at hand, or cancelled by it."""
        self.pinned: dict[str, bool] = {}
        self.dismissed: dict[str, bool] = {}
        """Models that were freed by name or by force, and not asked for since."""
        self.unloaded: dict[str, bool] = {}
        """Those of them that were freed by name, and that no request may have fallen back to since."""
        self.perhaps_unloaded: dict[str, bool] = {}
        """Models that were chosen among all to be freed, if they were idle, and not asked for since."""
        self.has_failed: dict[str, bool] = {}
        """Models with a load that failed or was given up, or whose worker died under them."""
        self.failures: dict[str, tuple[int, float]] = {}
        """How many loads of a model failed in a row, and when the last one did."""
        self.ran_out: dict[str, bool] = {}
        """Models whose last load ran out of memory; the next time it is a failure."""
        self.ran_out_again: dict[str, bool] = {}
        """Models whose second load in a row has run out of memory by the event at hand."""
        self.asked: dict[str, int] = {}
        """The number of the last question about a model's needs."""
        self.predicted: dict[str, events.Predicted] = {}
        self.pasts: dict[str, tuple[str, Past | None]] = {}
        """How loads went, with the identity of the spec; None: it may have been forgotten."""
        self.warmed: dict[tuple[str, str, bool], bool] = {}
        """What was warmed up: model, identity of its spec, and whether on a GPU."""
        self.pressed = False
        """The event at hand says that programs stall for memory."""
        self._resolved: dict[str, str | None] = {}

    # Names.

    def resolve(self, name: str) -> str | None:
        """The key of the model that a name means."""
        if name not in self._resolved:
            found = names.resolve(name, self.config.models, self.config.aliases)
            self._resolved[name] = found[0] if found else None
        return self._resolved[name]

    def spec_of(self, key: str) -> ModelSpec | None:
        """The spec in force for a model, or for the family of a member."""
        found = names.resolve(key, self.config.models, {})
        return found[1] if found else None

    def chain(self, name: str) -> list[str]:
        """The models that may answer for a name: the one that it means, and its fallbacks in turn."""
        key = self.resolve(name)
        chain = [key] if key is not None else []
        while chain and (spec := self.spec_of(chain[-1])) is not None and spec.fallback is not None:
            found = self.resolve(spec.fallback.model) if spec.fallback.model is not None else None
            if found is None or found in chain:
                break
            chain.append(found)
        return chain

    def spec_key(self, key: str) -> str:
        """The key of the spec of a model: its own, or that of its family."""
        spec = self.spec_of(key)
        return spec.key if spec is not None else key

    # Questions.

    def means(self, unload: events.Unload, spec_key: str, model: str) -> bool:
        """Whether an `Unload` names this model, or chooses among all."""
        if unload.models:
            return any(name in (model, spec_key) or self.resolve(name) == model for name in unload.models)
        return unload.all or unload.idle

    def unloads_of(self, spec_key: str, model: str) -> Iterator[events.Unload]:
        """The unloads under way, or ended by this very event, that mean a model."""
        for unload in (*self.unloads.values(), *self.just_unloaded):
            if self.means(unload, spec_key, model):
                yield unload

    def is_kept(self, model: str) -> bool:
        """Pinned or resident by the configuration in force."""
        spec = self.spec_of(model)
        return spec is not None and (spec.tier is Tier.RESIDENT or model in self.pinned)

    def is_current(self, worker: ToldWorker, model: str) -> bool:
        """The worker's model is what the configuration describes now."""
        spec = self.spec_of(model)
        if spec is None or worker.spec is None or worker.is_stale:
            return False
        return spec.identity == worker.spec.identity

    def budget(self, device: str) -> int:
        """What lazyd may use of a device by the configuration in force."""
        total = self.books.seen[device].total_bytes
        allowed = self.config.settings.budget.get(device, total)
        return int(allowed * total) if isinstance(allowed, float) else min(allowed, total)

    def margin(self, device: str) -> int:
        """What is to stay free of a device."""
        return self.config.settings.gpu_margin_bytes if self.books.seen[device].kind == CUDA else 0

    def allows(self, spec: ModelSpec, device: str) -> bool:
        """Whether a model may use a device, by its spec."""
        is_gpu = self.books.seen[device].kind == CUDA
        return not spec.device or device in spec.device or (is_gpu and "gpu" in spec.device)

    def objects_of(self, key: str) -> list[ToldObject]:
        """Its lives, of which more than one may be there."""
        return [worker.objects[key] for worker in self.workers.values() if key in worker.objects]

    def is_loading(self, worker: str, model: str) -> bool:
        thing = self._object(worker, model)
        return thing is not None and thing.stage is Stage.LOADING

    def serves(self, key: str) -> bool:
        """An object of this model is ready, and nothing was ordered to the contrary."""
        for worker in self.workers.values():
            thing = worker.objects.get(key)
            if thing is None or thing.stage is not Stage.READY or thing.drain is not None or worker.stopping:
                continue
            if self.is_current(worker, key):
                return True
        return False

    # Events, before the core handles them.

    def hear(self, event: events.Event) -> None:
        self.just_unloaded.clear()
        self.ran_out_again.clear()
        self.pressed = isinstance(event, events.MemoryPressure)
        self.books.hear(event)
        self.expectations.hear(event)
        hear = getattr(self, f"_hear_{type(event).__name__.lower()}", None)
        if hear is not None:
            hear(event)

    def _hear_get(self, event: events.Get | events.Load) -> None:
        if self.dismissed or self.perhaps_unloaded:
            key = self.resolve(event.model) or event.model
            self.perhaps_unloaded.pop(key, None)
            self.dismissed.pop(key, None)
            for each in self.chain(event.model):
                self.unloaded.pop(each, None)

    _hear_load = _hear_get

    def _may_be_asked(self, pending: Pending) -> list[str]:
        return self.chain(pending.fields["model"])[1:] if pending.kind in (events.Get, events.Load) else []

    def _hear_objectready(self, event: events.ObjectReady) -> None:
        thing = self._object(event.worker, event.model)
        if thing is not None and thing.stage is Stage.LOADING:
            now = self._world.clock.now
            thing.stage, thing.ready_at, thing.load_s, thing.used = Stage.READY, now, now - thing.ordered, now
            thing.warming = None
            if event.warmup == "done":
                self._is_warmed(self.workers[event.worker], event.model)
            self.failures.pop(event.model, None)
            self.ran_out.pop(event.model, None)

    def _hear_objectwarming(self, event: events.ObjectWarming) -> None:
        thing = self._object(event.worker, event.model)
        if thing is not None:
            thing.warming = self._world.clock.now

    def _hear_warmupended(self, event: events.WarmupEnded) -> None:
        thing = self._object(event.worker, event.model)
        if thing is None or thing.stage is not Stage.READY or thing.is_unfit:
            return  # its beginning may have been told before it was known to be ready
        thing.warming = None
        if event.problem is not None:
            self._is_unfit(event.model, thing)
        else:
            self._is_warmed(self.workers[event.worker], event.model)

    def _is_warmed(self, worker: ToldWorker, model: str) -> None:
        identity = worker.spec.identity if worker.spec is not None else ""
        self.warmed[model, identity, any(device != RAM for device in worker.devices)] = True

    def _hear_remembered(self, event: events.Remembered) -> None:
        self.warmed.update(self._world.recollection.known)
        for key, (identity, past) in event.pasts.items():
            spec, known = self.config.models.get(key), self.pasts.get(key, ("", None))[1]
            if spec is not None and spec.identity == identity and (known is None or not known.loads_s):
                self.pasts[key] = (identity, past)

    def _is_unfit(self, model: str, thing: ToldObject) -> None:
        thing.is_unfit = True
        self.has_failed[model] = True

    def _hear_objectparked(self, event: events.ObjectParked) -> None:
        thing = self._object(event.worker, event.model)
        if thing is not None and thing.stage in (Stage.PARKING, Stage.READY):
            thing.stage, thing.drain, thing.parked_at = Stage.PARKED, None, self._world.clock.now

    def _hear_leasebusy(self, event: events.LeaseBusy | events.LeaseIdle) -> None:
        lease = self._world.leases.get(event.lease)
        thing = self._object(event.worker, lease.model) if lease is not None and not lease.given_back else None
        if thing is not None:
            thing.used = self._world.clock.now
        if (worker := self.workers.get(event.worker)) is not None:
            if isinstance(event, events.LeaseBusy):
                worker.busy[event.lease] = True
            else:
                worker.busy.pop(event.lease, None)

    _hear_leaseidle = _hear_leasebusy

    def _hear_leaseclosed(self, event: events.LeaseClosed) -> None:
        if (worker := self.workers.get(event.worker)) is not None:
            worker.busy.pop(event.lease, None)

    def _hear_loadprogress(self, event: events.LoadProgress) -> None:
        thing = self._object(event.worker, event.model)
        if thing is not None:
            thing.heard = self._world.clock.now

    def _hear_objectfailed(self, event: events.ObjectFailed) -> None:
        thing = self._object(event.worker, event.model)
        if thing is not None and thing.stage is Stage.LOADING and not self.workers[event.worker].stopping:
            self._load_failed(event.model, out_of_memory=event.out_of_memory)
        self._gone(event.worker, event.model)

    def _hear_objectunloaded(self, event: events.ObjectUnloaded) -> None:
        thing = self._object(event.worker, event.model)
        if thing is not None and thing.stage is not Stage.LOADING:  # else it is the one before
            self._gone(event.worker, event.model)

    def _hear_stillbusy(self, event: events.StillBusy) -> None:
        thing = self._object(event.worker, event.model)
        if thing is not None and thing.drain == event.drain:
            thing.drain = None
            thing.said_busy = self._world.clock.now

    def _hear_workerexited(self, event: events.WorkerExited) -> None:
        worker = self.workers.pop(event.worker, None)
        if worker is not None and not worker.stopping:
            for model in worker.at(Stage.LOADING):
                self._load_failed(model, out_of_memory=event.out_of_memory)
            for model in [*worker.at(Stage.READY), *worker.at(Stage.PARKED), *worker.at(Stage.PARKING)]:
                self.has_failed[model] = True

    def _hear_predicted(self, event: events.Predicted) -> None:
        if event.number == self.asked.get(event.model) and event.ways:
            self.predicted[event.model] = event

    def _hear_unpredictable(self, event: events.Unpredictable) -> None:
        if event.number == self.asked.get(event.model):
            self._failed(event.model)

    def _hear_renewed(self, event: events.Renewed) -> None:
        for worker in self.workers.values():
            worker.is_stale |= event.model in worker.objects

    def _hear_unload(self, event: events.Unload) -> None:
        self.unloads[event.request] = event
        named = event.models or (self.config.models if event.force else ())
        if any(self.resolve(name) is None and name not in self.config.models for name in named):
            return  # all of it is refused
        self.dismissed.update((self.resolve(name) or name, True) for name in named)
        if not event.models:
            self.perhaps_unloaded.update((model, True) for worker in self.workers.values() for model in worker.objects)
        wanted = {key for pending in self._world.control.by_number.values() for key in self._may_be_asked(pending)}
        freed = {self.resolve(name) or name for name in event.models}
        self.unloaded.update((key, True) for key in freed - wanted)
        self.failures.clear()

    def _hear_cancel(self, event: events.Cancel) -> None:
        self._unload_over(event.request)

    def _hear_configure(self, event: events.Configure) -> None:
        self.config = event.config
        self._resolved.clear()
        self.failures.clear()
        for key, (identity, _) in self.pasts.items():
            spec = event.config.models.get(key)
            if spec is None or spec.identity != identity:
                self.pasts[key] = (identity, None)
        self.pinned = dict.fromkeys(sorted(event.pins), True)
        self.pinned.update((spec.key, True) for spec in event.config.models.values() if spec.pin)

    def _hear_hostaway(self, _: events.HostAway) -> None:
        self.has_host = False

    def _hear_hostlost(self, _: events.HostLost) -> None:
        self.has_host = False
        self.workers.clear()

    def _hear_hostfound(self, event: events.HostFound) -> None:
        self.has_host = True
        self.hosts_found += 1
        self.workers = {report.worker: self._found(report, self.workers.get(report.worker)) for report in event.workers}

    def _hear_stop(self, event: events.Stop) -> None:
        self.stop_deadline = event.deadline

    # Effects, after they were checked.

    def ordered(self, effect: effects.Effect) -> None:
        self.books.ordered(effect)
        match effect:
            case effects.Predict(model=model, number=number):
                self.asked[model] = number
            case effects.StopFetching(model=model):
                self.asked.pop(model, None)
            case effects.StartWorker(worker=name, model=key, devices=devices):
                self.workers[name] = ToldWorker(key, self.config.models.get(key), devices)
            case effects.StopWorker(worker=name):
                if (worker := self.workers.get(name)) is not None:
                    worker.stopping = True
                    begun = [model for model, thing in worker.objects.items() if thing.is_begun]
                    self.has_failed.update((model, True) for model in begun)
            case effects.LoadObject(worker=name, model=model):
                now = self._world.clock.now
                if (thing := self._object(name, model)) is None or thing.stage is not Stage.LOADING:
                    self.workers[name].objects[model] = ToldObject(Stage.LOADING, now, now)
            case effects.ParkObject(worker=name, model=model):
                if (thing := self._object(name, model)) is not None and thing.stage is Stage.READY:
                    thing.stage, thing.drain = Stage.PARKING, None
            case effects.UnparkObject(worker=name, model=model):
                if (thing := self._object(name, model)) is not None and thing.stage is not Stage.LOADING:
                    now = self._world.clock.now
                    thing.stage, thing.ordered, thing.heard = Stage.LOADING, now, now
            case effects.UnloadObject(worker=name, model=model):
                if (thing := self._object(name, model)) is not None:
                    if thing.is_begun:
                        self.has_failed[model] = True
                    thing.stage = Stage.UNLOADING
            case effects.Drain(worker=name, model=model, drain=number):
                if (thing := self._object(name, model)) is not None:
                    thing.drain = number
            case effects.Resume(worker=name, model=model):
                if (thing := self._object(name, model)) is not None:
                    thing.drain = None
            case effects.KeepPast(model=model, identity=identity, past=past):
                self.pasts[model] = (identity, past)
            case effects.WarmedUp():
                self._world.recollection.known.update(self.warmed)
            case effects.Note(kind="prewarm", model=str(model)):
                for worker in self.workers.values():
                    if (thing := worker.objects.get(model)) is not None and thing.stage is Stage.LOADING:
                        thing.guess = self.expectations.guessed(effect)
            case effects.Note(kind="not used", model=str(model)):
                self._was_wrong(model)
            case effects.Grant(worker=name, model=model):
                if (thing := self._object(name, model)) is not None:
                    thing.used = self._world.clock.now
                    if thing.guess is not None and not thing.guess.was_wrong:
                        self.expectations.came_true(model)
                    thing.guess = None
            case effects.Answer(request=number, outcome=answers.Loaded()):
                for thing in self.objects_of(self.resolve(self._world.control.by_number[number].fields["model"]) or ""):
                    thing.used = self._world.clock.now
            case effects.Answer(request=number):
                self._unload_over(number)
            case _:
                pass

    def _was_wrong(self, model: str) -> None:
        """It was expected, and nobody has come."""
        for worker in self.workers.values():
            if (thing := worker.objects.get(model)) is not None and thing.guess is not None:
                ended = min(self._world.clock.now, thing.guess.until)
                self.expectations.was_wrong(model, ended - thing.ordered)
                thing.guess.was_wrong = True

    def pin_done(self, name: str, pinned: bool) -> None:
        """A `Pin` was answered `Done`."""
        key = self.resolve(name)
        if key is not None and pinned:
            self.pinned[key] = True
        elif key is not None:
            self.pinned.pop(key, None)

    # Bookkeeping.

    def _object(self, worker: str, model: str) -> ToldObject | None:
        known = self.workers.get(worker)
        return known.objects.get(model) if known is not None else None

    def _gone(self, worker: str, model: str) -> None:
        if (known := self.workers.get(worker)) is not None:
            known.objects.pop(model, None)

    def _load_failed(self, model: str, *, out_of_memory: bool) -> None:
        """A load that ran out of memory is tried once more before it has failed."""
        if out_of_memory and not self.ran_out.pop(model, False):
            self.ran_out[model] = True
        else:
            self.ran_out.pop(model, None)
            self.ran_out_again[model] = out_of_memory
            self._failed(model)

    def _failed(self, model: str) -> None:
        self.has_failed[model] = True
        count, _ = self.failures.get(model, (0, 0.0))
        self.failures[model] = (count + 1, self._world.clock.now)

    def _unload_over(self, number: int) -> None:
        if (unload := self.unloads.pop(number, None)) is not None:
            self.just_unloaded.append(unload)

    def _found(self, report: events.WorkerReport, before: ToldWorker | None) -> ToldWorker:
        """A worker that is found: a new manager knows only this; one that had lost it also what it had ordered."""
        known = self._world.workers.get(report.worker)
        spec = self._world.every_worker[report.worker].spec  # it may be gone by now
        worker = before or ToldWorker(report.memo["model"], spec, tuple(report.memo["booking"]))
        old, worker.objects = worker.objects, {}
        worker.busy = {lease.lease: True for lease in report.leases if lease.in_flight}
        for told in report.objects:
            was = old.get(told.model)
            thing = was if was is not None and told.state in STILL_SO[was.stage] else self._found_object(told)
            if thing.stage is Stage.PARKING and told.state == "parked":
                thing.stage, thing.parked_at = Stage.PARKED, self._world.clock.now
            if was is not None and was.stage is Stage.UNLOADING:
                thing.stage = Stage.UNLOADING
            if was is not None:
                thing.guess, thing.ordered = was.guess, was.ordered
            thing.drain = 0 if told.state == "draining" else None
            if told.warmup == "done" and told.state in ("ready", "draining"):
                self._is_warmed(worker, told.model)
            if told.warmup == "failed" and thing.stage is Stage.READY:
                self._is_unfit(told.model, thing)
            else:
                is_warming = told.state == "warming" or told.warmup == "running"
                thing.warming = self._world.clock.now if is_warming else None
            worker.objects[told.model] = thing
        for model, was in old.items():
            still_goes = was.stage is Stage.UNLOADING and known is not None and model in known.objects
            if (still_goes or was.stage is Stage.LOADING) and model not in worker.objects:
                worker.objects[model] = was
                was.is_missing, was.warming = True, None  # it is loaded from the beginning
        return worker

    def _found_object(self, told: events.ObjectReport) -> ToldObject:
        if told.state == "loading":
            return ToldObject(Stage.LOADING, told.since, self._world.clock.now)
        if told.state == "warming":
            return ToldObject(Stage.LOADING, told.since - (told.load_s or 0.0), self._world.clock.now)
        load_s = told.load_s or 0.0
        used = told.last_used if told.last_used is not None else told.since
        stage = {"parking": Stage.PARKING, "parked": Stage.PARKED}.get(told.state, Stage.READY)
        return ToldObject(stage, told.since - load_s, told.since, told.since, load_s, used, parked_at=told.since)


STILL_SO: dict[Stage, tuple[str, ...]] = {
    Stage.LOADING: ("loading", "warming", "parking", "parked"),  # it is to come back, and the order was lost
    Stage.READY: ("loading", "warming", "ready", "draining"),
    Stage.PARKING: ("ready", "draining", "parking", "parked"),
    Stage.PARKED: ("parked",),
    Stage.UNLOADING: ("loading", "warming"),
}
"""What a worker may report of an object of which the core knows this, with nothing to be learned from it."""
