"""What is shown of the core: plain structs in the shapes of `io.lazyd.varlink`.

Looking changes nothing: no function here touches a record, loads, wakes or refreshes anything.
Models that nobody has asked for have no record, and are shown from their spec alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from . import expecting, fetching, requests
from .core import Core
from .held_up import held_up
from .ledger import RAM, SLOTS
from .ledger import Device as LedgerDevice
from .lifecycle import LOADS, SERVES, State
from .monitoring import middle, p95
from .names import resolve, split
from .records import Fetching, Instance, Warmth
from .records import Model as ModelRecord
from .records import Reservation as ReservationRecord
from .records import Worker as WorkerRecord
from .shown import Device, Model, ModelCounts, Quarantined, Reservation, Wish, Worker
from .spec import ModelSpec
from .warmups import fell_back
from .wording import sentence
from .world import World

WARM = 0.95
"""A model is warm if this part of its files is in the page cache: a few pages more or less make no load slower."""
Cached = Mapping[str, float]
NONE: tuple[Any, ...] = ()
NOTHING: dict[str, Any] = {}
"""What a cold model holds. It is shown, never written to."""


def devices(core: Core) -> list[Device]:
    """Every device of the machine; a family's places are not one."""
    ledger = core.world.ledger
    return [show_device(core.world, device) for device in ledger.devices.values() if device.kind != SLOTS]


def show_device(world: World, device: LedgerDevice) -> Device:
    return Device(
        name=device.name,
        kind=device.kind,
        total_bytes=device.total_bytes,
        budget_bytes=device.budget_bytes,
        margin_bytes=device.margin_bytes,
        booked_bytes=device.booked_bytes,
        foreign_bytes=device.foreign_bytes,
        quarantined_bytes=device.quarantined_bytes,
        free_bytes=max(0, device.free_bytes) if device.lost is None else 0,
        reserved_bytes=sum(held.bytes for held in world.reservations.values() if held.device == device.name),
        quarantined=[Quarantined(model=left.model, pid=left.pid, bytes=left.bytes) for left in device.quarantine]
        or None,
        state="lost" if device.lost is not None else "silent" if device.is_silent(world.now) else "ok",
        uuid=device.uuid,
        label=device.label,
        temperature_c=device.temperature_c,
        power_w=device.power_w,
    )


def reservations(core: Core) -> list[Reservation]:
    """Those that are held."""
    return [
        Reservation(id=held.id, device=held.device, bytes=held.bytes, pid=held.pid, command=held.command)
        for held in core.world.reservations.values()
    ]


def wishes(core: Core, now: float) -> list[Wish]:
    """Those that are waited for, in the order in which they came."""
    world = core.world
    return [
        Wish(
            device=wish.device,
            bytes=wish.bytes,
            pid=wish.pid,
            command=wish.command,
            waited_sec=max(0.0, now - wish.since),
            why=[sentence(clause) for clause in held_up(world, wish)],
        )
        for wish in waited_for(core)
    ]


def waited_for(core: Core) -> list[ReservationRecord]:
    return [wish for wish in core.world.wanting.values() if isinstance(wish, ReservationRecord)]


def models(core: Core, now: float, epoch: float = 0.0, cached: Cached = NOTHING) -> list[Model]:
    """Every configured model, and the members of families that have been asked for. `epoch`: what is to be added to
    the core's clock to get the time of day. `cached`: the part of its files that is in the page cache, by model."""
    world = core.world
    aliases = aliases_by_model(world)
    records = world.models
    seen: dict[str, Worker] = {}
    configured = [(key, spec) for key, spec in world.config.models.items() if not spec.is_family]
    shown = {
        key: show_cold(key, spec, aliases.get(key, NONE))
        if (record := records.get(key)) is None
        else show_model(world, record, aliases.get(key, NONE), now, epoch, seen)
        for key, spec in configured
    }
    members = [record for key, record in records.items() if key not in world.config.models and record is record.first]
    shown |= {
        record.key: show_model(world, record, aliases.get(record.key, NONE), now, epoch, seen) for record in members
    }
    for key in {*cached, *world.locks} & shown.keys():
        shown[key] = with_pages(world, key, shown[key], cached)
    return list(shown.values())


def model(core: Core, name: str, now: float, epoch: float = 0.0, cached: Cached = NOTHING) -> Model | None:
    """One model, or None if the name means none. A family's member that nobody asked for is cold."""
    world = core.world
    key, spec = key_and_spec(world, name) or ("", None)
    if spec is None:
        return None
    record = world.models.get(key)
    names = aliases_by_model(world).get(key, NONE)
    shown = show_cold(key, spec, names) if record is None else show_model(world, record, names, now, epoch, {})
    return with_pages(world, key, shown, cached)


def with_pages(world: World, key: str, shown: Model, cached: Cached) -> Model:
    """A model with what is in RAM of its files: one that does not serve is warm if that is nearly all of them."""
    part, lock = cached.get(key), world.locks.get(key)
    if lock is not None:
        mapped = world.ledger.files_of(worker.id for worker in world.workers.values() if key in worker.instances)
        more = sum(n for file, n in lock.files.items() if file not in mapped)
        shown = msgspec.structs.replace(
            shown,
            booked_bytes=add_up([shown.booked_bytes, {RAM: more} if more else {}]),
            locked_bytes=None if lock.since is None else lock.bytes,
        )
    if part is None:
        return shown
    residency = "warm" if shown.residency == "cold" and part >= WARM else shown.residency
    return msgspec.structs.replace(shown, cached_fraction=part, residency=residency)


def key_and_spec(world: World, name: str) -> tuple[str, ModelSpec] | None:
    """Which model a name means, without bringing one into being."""
    return resolve(name, world.config.models, world.meanings)


def aliases_by_model(world: World) -> Mapping[str, list[str]]:
    found: dict[str, list[str]] = {}
    for alias in world.config.aliases:
        target = key_and_spec(world, alias)
        if target is not None:
            found.setdefault(target[0], []).append(alias)
    return found


def show_cold(key: str, spec: ModelSpec, aliases: Sequence[str]) -> Model:
    """A model that nobody has asked for yet. There may be 10,000: what is the same for all is not made anew."""
    is_member = spec.is_family
    return Model(
        name=key if is_member else spec.name,
        version=spec.version,
        aliases=aliases,
        runtime=spec.runtime,
        tier=spec.tier,
        state="cold",
        residency="cold",
        warmup="none",
        pinned=spec.pin,
        source=spec.source,
        family=spec.key if is_member else None,
        workers=NONE,
        devices=NONE,
        booked_bytes=NOTHING,
        measured_bytes=NOTHING,
        leases=0,
        in_flight=0,
        waiting=0,
        idle_timeout_sec=spec.idle_timeout_s,
        loads=0,
        evictions=0,
    )


def show_model(
    world: World, record: ModelRecord, aliases: Sequence[str], now: float, epoch: float, seen: dict[str, Worker]
) -> Model:
    """A model as its newest instance is, or the one of its replicas that has come furthest; all workers that still hold
    something of it are listed. `seen`: those that have been looked at, as the members of a family share one."""
    spec = record.spec
    instance, past = foremost(record), record.past
    name, version = split(record.key)
    keys = {each.key for each in record.workers}
    workers = [worker for worker in world.workers.values() if not keys.isdisjoint(worker.instances)]
    lives, in_use = record.lives, in_flight(record)
    state = state_of(record)
    expected, within_s = expecting.expected(record, now) or (None, None)
    return Model(
        name=name,
        version=version,
        aliases=aliases,
        runtime=spec.runtime,
        tier=str(spec.tier),
        state=state,
        residency="hot" if state in SERVES else "cold",
        phase=requests.phase(record) if state in LOADS else None,
        fraction=None if state not in LOADS else instance.fraction if instance else fetching.fraction(record),
        warmup=str(warmth(record)),
        pinned=record.pinned,
        source=spec.source,
        family=spec.key if spec.is_family else None,
        workers=[show_worker(world, worker, now, seen) for worker in workers],
        booked_bytes=add_up([booked(world, worker) for worker in workers]),
        measured_bytes=add_up([measured(worker) for worker in workers]),
        devices=list(dict.fromkeys(name for life in lives for name in world.ledger.held(life.worker.id))) or NONE,
        leases=sum(len(life.leases) for life in lives),
        in_flight=in_use,
        waiting=record.waiting,
        idle_sec=None if in_use else idle_s(instance, now),
        idle_timeout_sec=None if record.kept else spec.idle_timeout_s,
        loads=sum(each.loads for each in record.workers),
        evictions=sum(each.evictions for each in record.workers),
        last_load_sec=record.last_load_s,
        expected_load_sec=record.expected_load_s,
        load_median_sec=middle(past.loads_s),
        load_p95_sec=p95(past.loads_s),
        warmup_median_sec=middle(past.warmups_s),
        warmup_p95_sec=p95(past.warmups_s),
        warmup_success=past.success,
        fell_back=fell_back(record),
        expected_use=None if expected is None else epoch + expected,
        expected_use_within_sec=within_s,
        retry_after_sec=record.retry_at - now if record.retry_at > now else None,
        last_error=next((each.last_error for each in record.workers if each.last_error), None),
    )


def foremost(record: ModelRecord) -> Instance | None:
    """The instance by which a model is shown: of its replicas one that serves, or else one that will soonest."""
    return min(record.lives, key=rank, default=None)


def rank(life: Instance) -> int:
    order = (State.READY, State.DRAINING, State.WARMING, State.LOADING, State.PARKED)
    return order.index(life.state) if life.state in order else len(order)


def in_flight(record: ModelRecord) -> int:
    return sum(life.in_flight for life in record.lives)


def state_of(record: ModelRecord) -> str:
    """What a person sees: a model whose files are being fetched is on its way, too."""
    instance = foremost(record)
    is_fetched = instance is None and isinstance(record.prediction, Fetching)
    return str(State.LOADING if is_fetched else record.state if instance is None else instance.state)


def warmth(record: ModelRecord) -> Warmth:
    """How far its warm-up has come; of one that has failed for it, that."""
    instance = foremost(record)
    if instance is not None:
        return instance.warmup
    return Warmth.FAILED if record.unfit else Warmth.NONE


def show_worker(world: World, worker: WorkerRecord, now: float, seen: dict[str, Worker]) -> Worker:
    if (known := seen.get(worker.id)) is not None:
        return known
    held = booked(world, worker)
    shown = seen[worker.id] = Worker(
        id=worker.id,
        pid=worker.pid or 0,
        devices=list(held),
        booked_bytes=held,
        measured_bytes=measured(worker),
        in_flight=sum(instance.in_flight for instance in worker.instances.values()),
        uptime_sec=now - worker.started,
    )
    return shown


def booked(world: World, worker: WorkerRecord) -> dict[str, int]:
    """What is booked for it, with the files that it maps, others or not."""
    files = sum(world.ledger.files.get(worker.id, NOTHING).values())
    return add_up([world.ledger.held(worker.id), {RAM: files} if files else {}])


def measured(worker: WorkerRecord) -> dict[str, int]:
    """What it holds, with its share of the pages of files."""
    return add_up([worker.measured_bytes, {RAM: worker.file_bytes} if worker.file_bytes else {}])


def idle_s(instance: Instance | None, now: float) -> float | None:
    """For how long a ready model has not been used."""
    if instance is None or instance.state is not State.READY or instance.in_flight:
        return None
    return max(0.0, now - instance.last_used)


def add_up(parts: list[dict[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for part in parts:
        for name, n in part.items():
            total[name] = total.get(name, 0) + n
    return total


def health(core: Core) -> dict[str, str]:
    """Per model, in the words of the services that lazyd replaces: loaded, loading, pending or failed."""
    return {key: health_word(core.world, key) for key in known(core.world)}


def health_word(world: World, key: str) -> str:
    record = world.models.get(key)
    if record is None:
        return "pending"
    if state_of(record) in SERVES:
        return "loaded"
    if state_of(record) in LOADS or record.waiters:
        return "loading"
    return "failed" if record.state is State.FAILED else "pending"


def known(world: World) -> list[str]:
    """All models that are shown."""
    configured = [spec.key for spec in world.config.models.values() if not spec.is_family]
    return configured + [
        key for key, record in world.models.items() if key not in world.config.models and record is record.first
    ]


def residents_ready(core: Core) -> bool:
    """Whether all that should stand does."""
    return all(model.state in SERVES for model in core.world.residents())


def counts(core: Core) -> dict[str, ModelCounts]:
    """Counters of every model that was ever asked for."""
    return {
        key: ModelCounts(
            state=state_of(record),
            loads=sum(each.loads for each in record.workers),
            evictions=sum(each.evictions for each in record.workers),
            leases=sum(len(life.leases) for life in record.lives),
            in_flight=in_flight(record),
            waiting=record.waiting,
            last_load_s=record.last_load_s,
            load_median_s=middle(record.past.loads_s),
            load_p95_s=p95(record.past.loads_s),
            warmup_median_s=middle(record.past.warmups_s),
            warmup_p95_s=p95(record.past.warmups_s),
            warmup_success=record.past.success,
            fell_back=float(fell_back(record) is not None),
            calls=record.calls,
            calls_failed=record.calls_failed,
        )
        for key, record in core.world.models.items()
        if record is record.first
    }


def is_empty(core: Core) -> bool:
    """No process is left."""
    return all(worker.exited is not None for worker in core.world.workers.values())
