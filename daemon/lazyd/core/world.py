"""All that the core knows, and the few ways in which any rule may change it.

Rules are functions over a `World`. They change records through the primitives here, so that
every step of a life goes through the table, every answer is given once, and every effect
leaves in the order in which it was decided.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from . import names
from .alarms import Alarms, Key
from .answers import Outcome, WorkerDied
from .effects import Answer, Effect, Memorable, Note
from .ledger import Ledger
from .lifecycle import State, step
from .locked import Lock
from .meanings import Compared, Kept
from .records import Guess, Instance, Lease, Model, Plan, Reservation, Route, Seeker, Waiter, Worker
from .spec import Config, ModelSpec, Settings

MAX_MEMBERS_AT_REST = 1000
"""Members of families that nobody wants are forgotten beyond this number, the oldest first."""


@dataclass(slots=True, eq=False)
class UnloadWish:
    """An `Unload` request under way."""

    request: int
    since: float
    deadline: float
    force: bool
    named: bool
    """By name even what is pinned or resident is freed; a choice among all leaves it alone."""
    pending: list[Instance]
    """What is not gone yet: of each model its life, and those before it that are still on their way out."""
    unloaded: list[str] = field(default_factory=list)
    stays: set[str] = field(default_factory=set)
    """Models of which a worker is left alone, so that they are not free though others of them have left."""

    def means(self, instance: Instance) -> bool:
        """Whether it still asks for this instance to leave, which may have been pinned meanwhile."""
        if instance not in self.pending:
            return False
        return self.named or self.force or not instance.model.kept

    def waits_for(self, key: str) -> bool:
        """Whether a model of this key is not gone yet."""
        return any(instance.model.key == key for instance in self.pending)


@dataclass(slots=True)
class World:
    new_id: Callable[[], str]
    now: float = 0.0
    config: Config = field(default_factory=Config)
    specs: Mapping[str, ModelSpec] = field(default_factory=dict)
    """Those of the configuration, and of replicas."""
    host_found: bool = False
    stop_deadline: float | None = None
    """Set once a stop was asked for."""
    models: dict[str, Model] = field(default_factory=dict)
    workers: dict[str, Worker] = field(default_factory=dict)
    leases: dict[str, Lease] = field(default_factory=dict)
    waiters: dict[int, Waiter] = field(default_factory=dict)
    unloads: dict[int, UnloadWish] = field(default_factory=dict)
    reservations: dict[str, Reservation] = field(default_factory=dict)
    """Those that are held."""
    locks: dict[str, Lock] = field(default_factory=dict)
    """Files that are locked in RAM, or booked to be, by model."""
    lock_wishes: dict[str, Lock] = field(default_factory=dict)
    """Those of which it is not decided yet."""
    wanting: dict[str, Seeker] = field(default_factory=dict)
    """The line for room: models that somebody waits for and that have to be loaded, and reservations."""
    guesses: dict[Model, Guess] = field(default_factory=dict)
    """Models that nobody waits for, and that are to be loaded because they are expected."""
    plans: dict[str, Plan] = field(default_factory=dict)
    """Room being made, by the key of whom it is made for."""
    touched: dict[Model, None] = field(default_factory=dict)
    """Models about which something has changed, for the rules to look at."""
    obituaries: dict[str, WorkerDied] = field(default_factory=dict)
    """Why a lease ended, for clients that ask after an unexpected end of file."""
    ledger: Ledger = field(default_factory=Ledger)
    driver_problem: str | None = None
    """Why it is not known what GPUs there are."""
    alarms: Alarms = field(default_factory=Alarms)
    out: list[Effect] = field(default_factory=list)
    users: dict[str, frozenset[str]] = field(default_factory=dict)
    """Which specs use a model, see `uses`."""
    resolved: dict[str, Model] = field(default_factory=dict)
    """Names as they were asked for, looked up once."""
    meanings: dict[str, str] = field(default_factory=dict)
    """What each name means that is no model's own, see `routes`."""
    promoted: dict[str, str] = field(default_factory=dict)
    """Of these, what a person has said and is configured, see `promotions`."""
    kept_meanings: dict[str, Kept] = field(default_factory=dict)
    """By name: what a person has said, and what it has meant."""
    routes: dict[str, Route] = field(default_factory=dict)
    """Names that were asked for, and may mean several models."""
    compared: dict[tuple[str, str], Compared] = field(default_factory=dict)
    """By name and shadow: what came of calls that were repeated."""
    brief: set[str] = field(default_factory=set)
    """Identities of models that have needed more than samples show of them, see `shortage`."""
    warmed: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """What was warmed up since the machine started (`warmups.subject`), and by which versions of its runtime."""
    memorable: set[str] = field(default_factory=set)
    """Models of whose habits something has changed that is not kept yet."""
    drains: int = 0
    predictions: int = 0
    """So many have been asked for."""
    steps: int = 0
    """Of all lives so far."""
    census: object = None
    """What was found when all workers were looked at last, see `eviction`."""
    stirred: set[str] = field(default_factory=set)
    """Workers of which something has changed since."""

    @property
    def settings(self) -> Settings:
        return self.config.settings

    @property
    def stopping(self) -> bool:
        return self.stop_deadline is not None

    def is_unclaimed(self, reservation: Reservation) -> bool:
        """An earlier manager granted it, and it ends in a while unless its client claims it again (an alarm)."""
        return ("reservation", reservation.id) in self.alarms

    def emit(self, effect: Effect) -> None:
        self.out.append(effect)

    def answer(self, request: int, outcome: Outcome) -> None:
        self.out.append(Answer(request=request, outcome=outcome))

    def lasting_reservations(self) -> Iterable[Reservation]:
        """Those that do not end by themselves."""
        return (held for held in self.reservations.values() if not self.is_unclaimed(held))

    def remember(self, model: Model) -> None:
        """Its habit, or what came of guesses about it, is to be kept."""
        if not self.memorable:
            self.emit(Memorable())
        self.memorable.add(model.key)

    def look_again(self, key: Key, moments: Iterable[float]) -> None:
        """Sets an alarm for the first of these moments that is still to come."""
        later = [moment for moment in moments if self.now < moment < float("inf")]
        if later:
            self.alarms.set(key, min(later))

    def touch(self, model: Model) -> None:
        self.touched[model] = None
        if model.instance is not None:
            self.stirred.add(model.instance.worker.id)
        for name in model.spec.uses:  # they are kept as long as it is
            used = self.find(name)
            if used is not None:
                self.touch(used)
        for sibling in model.siblings:
            self.touched[sibling] = None

    def note(
        self,
        kind: str,
        model: Model | str | None = None,
        reason: str | None = None,
        *,
        device: str | None = None,
        **data: Any,
    ) -> None:
        """An event. `model` may be the name of one that is known no more."""
        key = model.key if isinstance(model, Model) else model
        self.out.append(Note(kind=kind, model=key, device=device, reason=reason, data=data))

    def enter(self, instance: Instance, state: State, reason: str | None = None, **data: Any) -> None:
        """A step in the life of an instance, by the table; the event says why, and with which `data`."""
        instance.state = step(instance.state, state)
        self.steps += 1
        self.stirred.add(instance.worker.id)
        instance.since = self.now
        self.note(str(state), instance.model, reason, **data)
        self.touch(instance.model)

    def find(self, name: str) -> Model | None:
        """The model that a name means; a family's member comes into being when it is first asked for."""
        model = self.resolved.get(name)
        if model is not None:
            return model
        route = self.routes.get(name)
        before = route.before if route is not None else None
        if before is not None and before in self.models:
            return self.models[before]
        found = names.resolve(name, self.specs, self.meanings)
        if found is None:
            return None
        key, spec = found
        model = self.models.get(key)
        if model is None:
            self.forget_members_at_rest()
            model = self.models[key] = Model(key=key, spec=spec, identity=spec.identity, cold_since=self.now)
            self.link(names.model_key(key))
        self.resolved[name] = model
        return model

    def find_named(self, name: str) -> Model | None:
        """The same for a name that comes from outside: nobody names one of a model's replicas."""
        return self.find(name) if names.MARK not in name else None

    def link(self, key: str) -> None:
        """A model and its replicas know of each other: as many as it may have now, and those that have yet to leave."""
        first = self.find(key)
        if first is None or (first.spec.replicas == 1 and not first.siblings):
            return
        keys = [names.replica_key(key, number) for number in range(2, first.spec.replicas + 1)]
        leaving = [model for model in first.siblings if model.retired and model.instance is not None]
        found = tuple(dict.fromkeys((first, *filter(None, map(self.find, keys)), *leaving)))
        for model in first.siblings:
            model.siblings = ()
        for model in found:
            model.siblings = found if len(found) > 1 else ()
        self.touch(first)

    def nearest(self, name: str) -> str | None:
        """A name that was perhaps meant; never the name itself, which may be a family's pattern. Of a replica its model
        was."""
        if names.model_key(name) != name and names.model_key(name) in self.config.models:
            return names.model_key(name)
        return names.nearest(name, (known for known in (*self.config.models, *self.config.aliases) if known != name))

    def forget_members_at_rest(self) -> None:
        """Names of members come from outside: what nobody wants is not kept without bound."""
        if len(self.models) < len(self.config.models) + MAX_MEMBERS_AT_REST:
            return
        members = (m for m in self.models.values() if m.spec.is_family and m not in self.guesses)
        at_rest = [m.key for m in members if is_at_rest(m)]
        for key in at_rest[: MAX_MEMBERS_AT_REST // 10 + 1]:
            del self.models[key]
        self.resolved.clear()

    def instance(self, worker_id: str, key: str) -> Instance | None:
        worker = self.workers.get(worker_id)
        return worker.instances.get(key) if worker else None

    def family_worker(self, spec: ModelSpec) -> Worker | None:
        """The worker that a family's next member can join."""
        for worker in self.workers.values():
            is_open = not worker.stopping and not worker.hangs and not worker.restarts and not worker.stale
            if is_open and worker.spec.key == spec.key and worker.identity == spec.identity:
                return worker
        return None

    def residents(self) -> Iterable[Model]:
        """Those that should stand."""
        return (model for model in self.models.values() if model.stands)

    def instances(self) -> Iterable[Instance]:
        for worker in self.workers.values():
            yield from worker.instances.values()

    def __repr__(self) -> str:
        devices = " ".join(f"{d.name}:{d.booked_bytes}/{d.limit_bytes}" for d in self.ledger.devices.values())
        wanting = " ".join(self.wanting)
        return f"<World t={self.now:.3f} {devices} | wanting: {wanting or '-'} | {list(self.workers.values())}>"


def is_at_rest(model: Model) -> bool:
    """Nothing is in memory, nobody waits, nothing about it needs remembering."""
    is_free = not model.lives and not model.waiters and not model.routes
    return is_free and not model.failures and not model.pinned and not model.stands
