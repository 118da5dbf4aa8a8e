"""Nested requests that wait for each other, for memory or for their turn.

A call that waits for a nested request holds its own model in memory, and, as a model runs one call
at a time (or `concurrency`, of which all may come to wait), its model's turn. So instances wait: for an instance that
is to run a call of theirs, and for a model that is to be loaded for them. Some wait for ever, and nothing ends on its
own. The request that closes such a cycle, the newest, is refused at once.

The test is the banker's. An instance whose calls wait for nothing will finish them. One that waits
for such instances alone will, too, and so will one whose wanted models fit beside what is kept and
what is still stuck. So the test goes on, until all have finished in thought or no further one can.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from . import fallbacks, lives, together
from .answers import NoRoom
from .ledger import RAM, Booking
from .lifecycle import LOADS, SERVES, State
from .placement import Placement
from .records import FRESH_LEASE_S, Instance, Lease, LeaseStage, Model, Waiter, Worker
from .world import World


@dataclass(slots=True)
class Waits:
    """What the calls of an instance wait for."""

    instances: set[Instance] = field(default_factory=set)
    models: set[str] = field(default_factory=set)
    """By key; their requests are not answered yet."""


def refuse_cycles(world: World) -> None:
    """Refuses the newest of the waiting nested requests that are stuck, until there is none."""
    while True:
        left = stuck(world, waits(world))
        hopeless = [waiter for waiter in world.waiters.values() if is_hopeless(world, waiter, left)]
        if not hopeless:
            return
        newest = max(hopeless, key=lambda waiter: (waiter.arrived, waiter.request))
        booking: Booking = next((way.booking for way in ways(world, newest.model) if way.booking), {})
        device = next(iter(booking), "")  # none, if it would join a family's worker or no device suits it
        reason = "the calls that wait for it hold the memory that it needs, and cannot end before it answers"
        remedy = "name it in the uses of the model that calls it, or give both more memory"
        refuse(world, newest, device, booking.get(device, 0), reason, remedy)


def closes_a_cycle(world: World, instance: Instance, waiter: Waiter) -> bool:
    """Whether the call that a nested request is for would wait at `instance` for its own caller."""
    lease = world.leases.get(waiter.parent) if waiter.parent is not None else None
    if lease is None:
        return False
    waiting = waits(world)
    climb(world, lease, waiting)
    waiting.setdefault(lease.instance, Waits()).instances.add(instance)
    return lease.instance in stuck(world, waiting)


def refuse_turn(world: World, instance: Instance, waiter: Waiter) -> None:
    """Answers a request whose call would never have its turn."""
    device = next(iter(world.ledger.held(instance.worker.id)), "")
    at_once = waiter.model.spec.concurrency
    one = "one call at a time, and the one that it runs cannot end before this one is answered"
    many = f"{at_once} calls at a time, and all of them may come to wait for such a one"
    reason = f"it runs {one if at_once == 1 else many}"
    refuse(world, waiter, device, 0, reason, "models must not call each other, or themselves, in a circle")


def refuse(world: World, waiter: Waiter, device: str, needed: int, reason: str, remedy: str) -> None:
    known = world.ledger.devices.get(device)
    refusal = NoRoom(
        model=waiter.model.key,
        device=device,
        needed_bytes=needed,
        free_bytes=max(0, known.free_bytes) if known is not None else 0,
        reason=f"a cycle of waiting: {reason}",
        remedy=remedy,
    )
    fallbacks.refuse(world, waiter, refusal)


def waits(world: World) -> dict[Instance, Waits]:
    """What the instances wait for whose calls have made nested requests."""
    found: dict[Instance, Waits] = {}
    for lease in world.leases.values():
        if is_waited_for(world, lease):
            climb(world, lease, found)
    for waiter in world.waiters.values():
        parent = world.leases.get(waiter.parent) if waiter.parent is not None else None
        if parent is not None:
            found.setdefault(parent.instance, Waits()).models.add(waiter.model.key)
            climb(world, parent, found)
    return found


def is_waited_for(world: World, lease: Lease) -> bool:
    """It was granted for a call that goes on, and is in use or about to be."""
    above = world.leases.get(lease.parent) if lease.parent is not None else None
    if above is None or above.stage is LeaseStage.IDLE:
        return False
    is_new = lease.stage in (LeaseStage.GRANTED, LeaseStage.PRESENTED)
    return lease.is_busy or (is_new and world.now < lease.granted + FRESH_LEASE_S)


def climb(world: World, lease: Lease, found: dict[Instance, Waits]) -> None:
    """Notes that each caller above a lease waits for the one below it. A model may stand there twice."""
    seen: set[str] = set()
    while lease.parent is not None and lease.id not in seen and lease.parent in world.leases:
        seen.add(lease.id)
        above = world.leases[lease.parent]
        if above.stage is LeaseStage.IDLE:
            return  # its call has ended without the one below
        found.setdefault(above.instance, Waits()).instances.add(lease.instance)
        lease = above


def stuck(world: World, waiting: dict[Instance, Waits]) -> Collection[Instance]:
    """The instances whose calls no sequence of finished calls can let go on."""
    left = dict(waiting)
    while True:
        done = [
            instance
            for instance, its in left.items()
            if its.instances.isdisjoint(left) and all(can_come(world, world.models.get(m), left) for m in its.models)
        ]
        if not done:
            return left
        for instance in done:
            del left[instance]


def is_hopeless(world: World, waiter: Waiter, left: Collection[Instance]) -> bool:
    """A nested request that waits for memory which is never given back."""
    lease = world.leases.get(waiter.parent) if waiter.parent is not None else None
    return lease is not None and lease.instance in left and not can_come(world, waiter.model, left)


def can_come(world: World, model: Model | None, left: Collection[Instance]) -> bool:
    """Whether a wanted model is ready some time, although the instances in `left` never leave."""
    if model is None or not together.are_known(world, model):
        return True
    instance = model.instance
    if instance is not None and (instance.state in LOADS or instance.state in (State.PARKING, State.PARKED)):
        return True
    if instance is not None and instance.state in SERVES:
        return instance not in left
    return fits_beside(world, model, left)


def fits_beside(world: World, model: Model, held: Collection[Instance]) -> bool:
    """Whether a placement fits once everything has left that is neither kept nor held."""
    staying = [worker for worker in world.workers.values() if stays(worker, held)]
    files = world.ledger.files_of(worker.id for worker in staying)
    for placement in ways(world, model):
        booking = placement.beside(world.ledger, files)
        room = {name: world.ledger.devices[name].lasting_limit_bytes for name in booking}
        for known in world.lasting_reservations():
            if known.device in room:
                room[known.device] -= known.bytes
        if RAM in room:
            room[RAM] -= sum(files.values())
        for worker in staying:
            for name in room:
                room[name] -= world.ledger.held(worker.id).get(name, 0)
                room[name] -= sum(world.ledger.held(i.holder).get(name, 0) for i in stays(worker, held))
        if all(room[name] >= n for name, n in booking.items()):
            return True
    return False


def stays(worker: Worker, held: Collection[Instance]) -> list[Instance]:
    """What is in it that does not leave. Even what is kept may be on its way out: it has failed, or was unloaded."""
    inside = worker.instances.values()
    return [i for i in inside if i in held or (i.model.kept and i.state not in lives.ENDING)]


def ways(world: World, model: Model) -> Iterator[Placement]:
    """All its placements, if nothing were in their way."""
    for group in together.placements(world, model, lambda name: world.ledger.devices[name].limit_bytes):
        yield from group
