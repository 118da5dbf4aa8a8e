"""What the present core has been told and has ordered, read off its interface alone.

The invariants compare the core's orders with this and with the truth of the workers; they
never look inside the core.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lazyd.core import effects, events, names
from lazyd.core.spec import Config, ModelSpec, Tier

if TYPE_CHECKING:
    from .world import World


@dataclass(slots=True)
class ToldWorker:
    """A worker as the core has started it or found it."""

    key: str
    spec: ModelSpec | None
    stopping: bool = False
    loading: dict[str, float] = field(default_factory=dict)
    """When news of the load was last told, by model."""
    ready: dict[str, bool] = field(default_factory=dict)
    drains: dict[str, int] = field(default_factory=dict)
    """Drains ordered and not taken back, by model."""
    unloading: dict[str, float] = field(default_factory=dict)
    """When news of the load was last told, by model."""


class Told:
    """One core's conversation so far."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.config = Config()
        self.pins: frozenset[str] = frozenset()
        self.devices: dict[str, events.DeviceSeen] = {}
        self.has_host = False
        self.workers: dict[str, ToldWorker] = {}
        self.stop_deadline: float | None = None
        self.unloads: dict[int, events.Unload] = {}
        self.just_unloaded: list[events.Unload] = []
        """Unloads answered by the event at hand, or cancelled by it."""
        self.pinned: dict[str, bool] = {}
        self.resolved: dict[str, str | None] = {}
        self.dismissed: dict[str, bool] = {}
        """Models that were freed by name or by force, and not asked for since."""

    def resolve(self, name: str) -> str | None:
        """The key of the model that a name means."""
        if name not in self.resolved:
            found = names.resolve(name, self.config.models, self.config.aliases)
            self.resolved[name] = found[0] if found else None
        return self.resolved[name]

    def spec_key(self, key: str) -> str:
        """The key of the spec of a model: its own, or that of its family."""
        spec = self.spec_of(key)
        return spec.key if spec is not None else key

    def spec_of(self, key: str) -> ModelSpec | None:
        """The spec in force for a model, or for the family of a member."""
        found = names.resolve(key, self.config.models, {})
        return found[1] if found else None

    def means(self, unload: events.Unload, spec_key: str, model: str) -> bool:
        """Whether an `Unload` names this model, or chooses among all."""
        if unload.models:
            return any(name in (model, spec_key) or self.resolve(name) == model for name in unload.models)
        return unload.all or unload.idle

    def is_named(self, spec_key: str, model: str, *, now_or_just: bool = True) -> bool:
        """Whether an `Unload` under way (or answered by this very event) frees even what is kept."""
        unloads = [*self.unloads.values(), *(self.just_unloaded if now_or_just else ())]
        return any((unload.models or unload.force) and self.means(unload, spec_key, model) for unload in unloads)

    def is_kept(self, model: str) -> bool:
        """Pinned or resident by the configuration in force."""
        spec = self.spec_of(model)
        return spec is not None and (spec.tier is Tier.RESIDENT or model in self.pinned)

    def is_current(self, worker: ToldWorker, model: str) -> bool:
        """The worker's model is what the configuration describes now."""
        spec = self.spec_of(model)
        return spec is not None and worker.spec is not None and spec.identity == worker.spec.identity

    def ready_worker(self, key: str) -> ToldWorker | None:
        """A worker whose object of this model serves, with nothing ordered to the contrary."""
        for worker in self.workers.values():
            if key in worker.ready and key not in worker.drains and not worker.stopping:
                if self.is_current(worker, key):
                    return worker
        return None

    def hear(self, event: events.Event) -> None:
        """An event, before the core handles it."""
        self.just_unloaded.clear()
        match event:
            case events.LeaseBusy() | events.LeaseIdle() | events.LeasePresented() | events.LeaseClosed():
                pass
            case events.Get(model=name) | events.Load(model=name):
                if self.dismissed:
                    self.dismissed.pop(self.resolve(name) or name, None)
            case events.Tick():
                pass
            case events.ObjectReady(worker=name, model=model):
                if (worker := self.workers.get(name)) is not None and worker.loading.pop(model, None) is not None:
                    worker.ready[model] = True
            case events.LoadProgress(worker=name, model=model):
                if (worker := self.workers.get(name)) is not None and model in worker.loading:
                    worker.loading[model] = self._world.clock.now
            case events.ObjectFailed(worker=name, model=model) | events.ObjectUnloaded(worker=name, model=model):
                if (worker := self.workers.get(name)) is not None:
                    self._object_gone(worker, model)
            case events.StillBusy(worker=name, model=model, drain=number):
                if (worker := self.workers.get(name)) is not None and worker.drains.get(model) == number:
                    del worker.drains[model]
            case events.WorkerExited(worker=name):
                self.workers.pop(name, None)
            case events.Unload(request=number):
                self.unloads[number] = event
                named = event.models or (self.config.models if event.force else ())
                self.dismissed.update((self.resolve(name) or name, True) for name in named)
            case events.Cancel(request=number):
                self._unload_over(number)
            case events.DeviceSeen(name=name):
                self.devices[name] = event
            case events.Configure(config=config, pins=pins):
                self.config, self.resolved = config, {}
                self.pinned = dict.fromkeys(sorted(pins), True)
                self.pinned.update((spec.key, True) for spec in config.models.values() if spec.pin)
            case events.HostLost():
                self.has_host = False
                self.workers.clear()
            case events.HostFound(workers=reports):
                self.has_host = True
                self.workers = {report.worker: self._found(report, self.workers.get(report.worker)) for report in reports}
            case events.Stop(deadline=deadline):
                self.stop_deadline = deadline
            case _:
                pass

    def ordered(self, effect: effects.Effect) -> None:
        """An effect, after it was checked."""
        match effect:
            case effects.StartWorker(worker=name, model=key):
                self.workers[name] = ToldWorker(key, self.config.models.get(key))
            case effects.StopWorker(worker=name):
                self.workers[name].stopping = True
            case effects.LoadObject(worker=name, model=model):
                self.workers[name].unloading.pop(model, None)
                self.workers[name].loading[model] = self._world.clock.now
            case effects.UnloadObject(worker=name, model=model):
                worker = self.workers[name]
                if model in worker.loading or model in worker.ready:
                    self._object_gone(worker, model)
                    worker.unloading[model] = True
            case effects.Drain(worker=name, model=model, drain=number):
                self.workers[name].drains[model] = number
            case effects.Resume(worker=name, model=model):
                self.workers[name].drains.pop(model, None)
            case effects.Answer(request=number):
                self._unload_over(number)
            case _:
                pass

    def pin_done(self, name: str, pinned: bool) -> None:
        """A `Pin` was answered `Done`."""
        key = self.resolve(name)
        if key is not None and pinned:
            self.pinned[key] = True
        elif key is not None:
            self.pinned.pop(key, None)

    def _unload_over(self, number: int) -> None:
        if (unload := self.unloads.pop(number, None)) is not None:
            self.just_unloaded.append(unload)

    @staticmethod
    def _object_gone(worker: ToldWorker, model: str) -> None:
        for objects in (worker.loading, worker.ready, worker.unloading):
            objects.pop(model, None)
        worker.drains.pop(model, None)

    def _found(self, report: events.WorkerReport, before: ToldWorker | None) -> ToldWorker:
        """A worker that is found: a new manager knows only this; one that had lost it also what it had ordered."""
        known = self._world.workers.get(report.worker)
        worker = before or ToldWorker(report.memo["model"], known.spec if known else None)
        since, worker.loading, worker.ready, worker.drains = worker.loading, {}, {}, {}
        for thing in report.objects:
            if thing.state == "loading":
                worker.loading[thing.model] = since.get(thing.model, self._world.clock.now)
            else:
                worker.ready[thing.model] = True
            if thing.state == "draining":
                worker.drains[thing.model] = 0
        inside = self._world.workers[report.worker].objects if known else {}
        worker.unloading = {model: True for model in worker.unloading if model in inside}
        for model in worker.unloading:
            worker.loading.pop(model, None)
            worker.ready.pop(model, None)
        return worker
