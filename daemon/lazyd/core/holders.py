"""Who holds what of a device, and why that does not leave.

Said in refusals, to who waits in vain, and by ``lazyctl status --why``. Looking changes nothing.
"""

from __future__ import annotations

from . import uses
from .eviction import quantum_until
from .ledger import RAM, SLOTS, Device
from .lifecycle import LOADS, State
from .locked import freed_by
from .plans import callers
from .records import FRESH_LEASE_S, Instance, LeaseStage, Model, Seeker, Worker
from .routes import is_background, siblings
from .wording import counted, duration, listed, size
from .world import World

NAMED = 8
"""So many holders are named, the largest first; the rest is added up."""


def holders(world: World, device: str, for_model: Seeker | None = None, *, lasting: bool = False) -> list[str]:
    """One phrase for each that holds something of a device, the largest first.

    `for_model` is who wants it: it does not stand in its own way, and what calls it and waits for it does not leave
    for it. With `lasting` only those are told that do not go by themselves: models that are pinned or
    resident, reservations, strangers.
    """
    known = world.ledger.devices[device]
    found: list[tuple[int, str]] = []
    for worker in world.workers.values():
        if not lasting or any(i.model.kept and i.model is not for_model for i in worker.instances.values()):
            n = held_by(world, worker, known)
            found += [(n, f"{worker.spec.key} holds {amount(known, n)}{stays(world, worker, for_model)}")] if n else []
    for other in world.reservations.values():
        unclaimed = world.is_unclaimed(other)
        if other.device == device and not (lasting and unclaimed):
            ends = ", and ends soon unless it is claimed again" if unclaimed else ""
            told = f"a reservation of {owner(other.pid, other.command)} holds {size(other.bytes)}{ends}"
            found.append((other.bytes, told))
    for lock in world.locks.values() if device == RAM and not lasting else ():
        n = freed_by(world, lock)
        found += [(n, f"locked files of {lock.model} hold {size(n)} and may leave")] if n else []
    found += (
        [] if lasting or known.kind == SLOTS else [(n, f"a {who} holds {size(n)}") for who, n in rest(world, device)]
    )
    found.sort(key=lambda one: (-one[0], one[1]))
    phrases = [phrase for _, phrase in found[:NAMED]]
    if len(found) > NAMED:
        phrases.append(f"{len(found) - NAMED} others hold {amount(known, sum(n for n, _ in found[NAMED:]))}")
    return phrases + (strangers(known) if in_the_way(known, lasting=lasting) else [])


def in_the_way(device: Device, *, lasting: bool = False) -> bool:
    """Whether strangers lower what can be had. On a device whose budget is less than it has, they may use the rest."""
    return (device.lasting_limit_bytes if lasting else device.limit_bytes) < device.ceiling_bytes


def strangers(device: Device) -> list[str]:
    """What others use, apart from what ours have left behind."""
    others = device.foreign_bytes - device.quarantined_bytes
    found = [f"other programs use {size(others)}"] if others > 0 else []
    for left in device.quarantine:
        pid = f" (pid {left.pid})" if left.pid is not None else ""
        found.append(f"{size(left.bytes)} of {left.model}{pid} never came back")
    return found


def held_by(world: World, worker: Worker, device: Device) -> int:
    """Bytes, or of a family's places how many."""
    if device.kind == SLOTS:
        return sum(world.ledger.held(instance.holder).get(device.name, 0) for instance in worker.instances.values())
    return world.ledger.freed_by(worker.id).get(device.name, 0)


def amount(device: Device, n: int) -> str:
    return counted(n, "place") if device.kind == SLOTS else size(n)


def part_of(device: Device) -> str:
    """What it is that is held: a device, or a family that has places."""
    return device.name.removeprefix(f"{SLOTS}:")


def owner(pid: int, command: str | None) -> str:
    return f"pid {pid} ({command})" if command else f"pid {pid}"


def rest(world: World, device: str) -> list[tuple[str, int]]:
    """Who holds something and is neither a worker nor a reservation: a dry run."""
    others = [who for who in world.ledger.bookings if who not in world.workers and who not in world.reservations]
    return [(who, n) for who in others if (n := world.ledger.bookings[who].get(device, 0))]


def stays(world: World, worker: Worker, for_model: Seeker | None) -> str:
    """The second half of a phrase: why a worker is still there."""
    if worker.exited is not None:
        return f": {unseen(world, worker)}"
    if worker.stopping:
        return ": its process is ending"
    for instance in sorted(worker.instances.values(), key=lambda instance: not instance.model.kept):
        reason = next(iter(keeps(world, instance, for_model)), None)
        if reason is not None:
            where = f" ({instance.model.key})" if worker.spec.is_family else ""
            return (f" and {reason[3:]}" if reason.startswith("it is ") else f": {reason}") + where
    return " and may leave"


def unseen(world: World, worker: Worker) -> str:
    """Why the bytes of a process that has ended are still booked."""
    gpus = listed([name for name, n in world.ledger.held(worker.id).items() if n])
    since = duration(world.now - (worker.exited or 0.0))
    return f"its process ended {since} ago, and {gpus} has yet to show its memory to be free"


def keeps(world: World, instance: Instance, for_model: Seeker | None = None) -> list[str]:
    """All that keeps an instance from leaving for another now; nothing if it may."""
    model = instance.model
    reasons: list[str] = []
    if model.kept and model is not for_model:
        reasons.append("it is pinned" if model.pinned else "it is resident")
    if instance.leaving is not None:
        reasons.append(f"it is leaving: {purpose(instance)}")
    elif instance.state in LOADS:
        reasons += [f"it is loading, and {waiting(model)}"] if model.waiters else []
    elif instance.state in (State.PARKING, State.UNLOADING):
        reasons.append(f"it is {instance.state}")
    elif instance.state is State.FAILED:
        reasons.append("it is ending, as its load has failed")
    if isinstance(for_model, Model) and is_background(for_model) and model in siblings(world, for_model):
        reasons.append(f"it answers until {for_model.key} is ready")
    elif for_model is not None and model is not for_model and instance in callers(world, for_model):
        reasons.append(f"its call waits for {for_model.key}")
    if instance.state in (State.READY, State.DRAINING):
        reasons += used(world, instance)
    if instance.state is State.READY and (left_s := quantum_until(instance) - world.now) > 0:
        reasons.append(f"it was loaded just now, and serves for {duration(left_s)} more before it leaves for another")
    return reasons


def purpose(instance: Instance) -> str:
    """What a drain is for."""
    going = instance.leaving
    if going is None:
        return ""
    return f"room for {going.plan.seeker.named}" if going.plan is not None else str(going.reason)


def used(world: World, instance: Instance) -> list[str]:
    """What its clients keep it for."""
    now = world.now
    reasons: list[str] = []
    if calls := instance.in_flight:
        reasons.append("a call is in flight" if calls == 1 else f"{calls} calls are in flight")
    leases = instance.leases.values()
    held_until = max((lease.hold_until for lease in leases), default=0.0)
    if held_until > now:
        reasons.append(f"a client holds it for {duration(held_until - now)} more")
    if any(lease.stage in FRESH and lease.granted + FRESH_LEASE_S > now for lease in leases):
        reasons.append("a client was given it just now, and has yet to call")
    if instance.state is State.READY and instance.model.waiters:
        reasons.append(waiting(instance.model))
    users = [u.model.key for u in uses.users(world, instance.model) if u.state in LOADS or u.protected_until > now]
    if users:
        reasons.append(f"it is needed by {listed(users)} just now")
    if instance.ask_again > now:
        reasons.append("its worker has just said that it is busy")
    return reasons


FRESH = (LeaseStage.GRANTED, LeaseStage.PRESENTED)


def waiting(model: Model) -> str:
    """Who stands in its line, of which there is somebody."""
    n = model.waiting
    if n == 0:
        return "its fallback has answered who came for it"
    return "a request waits for it" if n == 1 else f"{n} requests wait for it"
