"""Who holds what of a device, and why that does not leave.

Said in refusals, to who waits in vain, and by ``lazyctl status --why``. Looking changes nothing.
"""

from __future__ import annotations

from .eviction import quantum_until
from .ledger import SLOTS, Device
from .lifecycle import LOADS, State
from .plans import callers
from .records import Instance, LeaseStage, Seeker, Worker
from .reports import dry_run_of
from .wording import counted, duration, size
from .world import World

NAMED = 8
"""So many holders are named, the largest first; the rest is added up."""


def holders(world: World, device: str, for_model: Seeker | None = None, *, lasting: bool = False) -> list[str]:
    """One phrase for each that holds something of a device, the largest first.

    `for_model` is who wants it: what it must not push out for itself is said, too. With `lasting` only what
    does not go by itself is told: pinned and resident models, reservations, strangers.
    """
    known = world.ledger.devices[device]
    found = [holder for worker in world.workers.values() if (holder := of_worker(world, worker, known, for_model))]
    if lasting:
        found = [(n, phrase) for n, phrase in found if phrase.endswith(KEPT)]
    else:
        found += [(n, f"a look at {model} holds {size(n)}") for model, n in dry_runs(world, device)]
    found += [
        (other.bytes, f"a reservation of {by_whom(other.pid, other.command)} holds {size(other.bytes)}")
        for other in world.reservations.values()
        if other.device == device and other is not for_model
    ]
    found.sort(key=lambda holder: (-holder[0], holder[1]))
    phrases = [phrase for _, phrase in found[:NAMED]]
    if len(found) > NAMED:
        rest = found[NAMED:]
        phrases.append(f"{len(rest)} others hold {amount(known, sum(n for n, _ in rest))}")
    return phrases + strangers(known)


def strangers(device: Device) -> list[str]:
    """What others use, apart from what ours have left behind."""
    others = device.foreign_bytes - device.quarantined_bytes
    found = [f"{size(left.bytes)} of {left.model} (pid {left.pid}) never came back" for left in device.quarantine]
    return ([f"other programs use {size(others)}"] if others > 0 else []) + found


def of_worker(world: World, worker: Worker, device: Device, for_model: Seeker | None) -> tuple[int, str] | None:
    """How much a worker holds, and the phrase for it; None if it holds nothing."""
    places = [world.ledger.held(i.holder).get(device.name, 0) for i in worker.instances.values()]
    n = world.ledger.freed_by(worker.id).get(device.name, 0) + sum(places)
    if not n:
        return None
    return n, f"{worker.spec.key} holds {amount(device, n)}{why_it_stays(world, worker, device, for_model)}"


def amount(device: Device, n: int) -> str:
    return counted(n, "place") if device.kind == SLOTS else size(n)


def why_it_stays(world: World, worker: Worker, device: Device, for_model: Seeker | None) -> str:
    """The second half of a phrase: why a worker is still there."""
    if worker.exited is not None:
        since = duration(world.now - worker.exited)
        return f": its process has ended, and for {since} {device.name}'s driver has not shown that to be free"
    if worker.stopping:
        return ": its process is ending"
    for instance in worker.instances.values():
        reasons = stays(world, instance, for_model)
        if reasons:
            where = f" ({instance.model.key})" if worker.spec.is_family else ""
            return joined(reasons[0]) + where
    return " and may leave"


def joined(reason: str) -> str:
    """A reason put behind what is held."""
    return f" and {reason.removeprefix('it ')}" if reason.startswith("it is ") else f": {reason}"


KEPT = (" and is pinned", " and is resident")


def stays(world: World, instance: Instance, for_model: Seeker | None = None) -> list[str]:
    """All that keeps an instance from leaving for another now; nothing if it may."""
    model = instance.model
    reasons: list[str] = []
    if model.kept:
        reasons.append("it is pinned" if model.pinned else "it is resident")
    if instance.leaving is not None:
        reasons.append(leaves(instance))
    elif instance.state in LOADS and model.waiters:
        reasons.append(
            f"it is loading, and {counted(len(model.waiters), 'request')} wait for it".replace(
                "1 request wait", "1 request waits"
            )
        )
    elif instance.state in (State.PARKING, State.UNLOADING, State.FAILED):
        reasons.append(f"it is {instance.state}" if instance.state is not State.FAILED else "its load has failed")
    if for_model is not None and instance in callers(world, for_model) and instance.model is not for_model:
        reasons.append(f"its call waits for {for_model.key}")
    if instance.state in (State.READY, State.DRAINING):
        reasons += used(world, instance)
    if instance.state is State.READY and (left_s := quantum_until(instance) - world.now) > 0:
        reasons.append(f"it was loaded just now, and serves for {duration(left_s)} more before it leaves for another")
    return reasons


def leaves(instance: Instance) -> str:
    """What a drain is for."""
    going = instance.leaving
    assert going is not None
    goal = going.plan.seeker.key if going.plan is not None else None
    return f"it is leaving: {f'room for {goal}' if goal else going.reason}"


def used(world: World, instance: Instance) -> list[str]:
    """What its clients keep it for."""
    now = world.now
    reasons: list[str] = []
    if calls := instance.in_flight:
        reasons.append("a call is in flight" if calls == 1 else f"{calls} calls are in flight")
    fresh = [lease for lease in instance.leases.values() if not lease.is_busy and lease.stage is not LeaseStage.IDLE]
    if any(lease.protected_until > now >= lease.hold_until for lease in fresh):
        reasons.append("a client was given it just now, and has yet to call")
    held_until = max((lease.hold_until for lease in instance.leases.values()), default=0.0)
    if held_until > now:
        reasons.append(f"a client holds it for {duration(held_until - now)} more")
    if instance.state is State.READY and instance.model.waiters:
        reasons.append("a request waits for it")
    if instance.ask_again > now:
        reasons.append("its worker has just said that it is busy")
    return reasons


def dry_runs(world: World, device: str) -> list[tuple[str, int]]:
    """Models of which a runtime finds out what they need, and what is booked for that."""
    return [(key, n) for key in world.models if (n := world.ledger.held(dry_run_of(key)).get(device, 0))]


def by_whom(pid: int, command: str | None) -> str:
    return f"pid {pid} ({command})" if command else f"pid {pid}"
