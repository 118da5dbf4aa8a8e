"""Who may leave to make room, and what is on its way out.

What can leave is a unit: a worker with everything in it, or one object of a family, and what it
gives back. A unit may leave when nothing in it is used, kept or protected, and each model in it
has served for its quantum, the longer of `min_residency_s` and twice its load time: without it
two alternating models would starve their clients. Which of them do leave, `choose_victims` says
(`victims.py`): those that cost least (`cost.py`).

There may be hundreds of workers, and the line for room asks about each of them for everybody in it. So all
are looked at once, and the result (`Census`) serves until a model takes a step, or the next pass.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from .cost import QUANTUM_LOADS, cost_of
from .ledger import RAM, Booking
from .lifecycle import State
from .lives import ENDING
from .records import Instance, Worker
from .victims import Unit, choose_victims
from .world import World

__all__ = [
    "Unit",
    "choose_victims",
    "could_cover",
    "goes",
    "keepers",
    "leaving_bytes",
    "look_anew",
    "may_leave",
    "most_freed",
    "next_moment",
    "quantum_until",
    "units",
]


@dataclass(slots=True, eq=False)
class Movable:
    """What may leave. The costs of units are filled in where they are asked for."""

    by_device: dict[str, list[Unit]] = field(default_factory=dict)
    total: dict[str, int] = field(default_factory=dict)
    """What comes back of each device if all of it leaves."""

    def add(self, unit: Unit, *, counts: bool) -> None:
        """`counts`: what it gives back is not part of what another unit gives back."""
        for name, n in unit.freed.items():
            if n:
                self.by_device.setdefault(name, []).append(unit)
                if counts:
                    self.total[name] = self.total.get(name, 0) + n


@dataclass(slots=True, eq=False)
class Census:
    """All workers, as they were after so many steps of their models' lives."""

    steps: int
    going: dict[str, int] = field(default_factory=dict)
    """By device: what is booked by what drains, unloads or ends."""
    keepers: list[Worker] = field(default_factory=list)
    """What holds something that is pinned or resident."""
    movable: dict[bool, Movable] = field(default_factory=dict)
    """By whether busy models count, which are waited for."""


def look_anew(world: World) -> None:
    """A pass begins: what changes without a step, such as a lease that ends, has to be seen again."""
    world.census = None


def census(world: World) -> Census:
    known = world.census
    if isinstance(known, Census) and known.steps == world.steps:
        return known
    found = world.census = Census(steps=world.steps)
    for worker in world.workers.values():
        inside = worker.instances.values()
        if worker.stuck:
            continue
        if worker.stopping or all(map(goes, inside)):
            if worker.stopping or inside:
                add(found.going, world.ledger.freed_by(worker.id))
            for instance in inside:
                add(found.going, world.ledger.held(instance.holder))
            continue
        if len(inside) > 1:
            for instance in inside:
                if goes(instance):
                    add(found.going, world.ledger.held(instance.holder))
        if any(i.model.kept and not goes(i) for i in inside):
            found.keepers.append(worker)
    return found


def movable(world: World, *, finish: bool) -> Movable:
    """What may leave now."""
    taken = census(world)
    if finish in taken.movable:
        return taken.movable[finish]
    found = taken.movable[finish] = Movable()
    for worker in world.workers.values():
        if worker.stopping or not worker.instances:
            continue
        inside = list(worker.instances.values())
        may = [i for i in inside if may_leave(world, i, finish=finish)]
        whole = len(may) == len(inside)
        freed = world.ledger.freed_by(worker.id) if whole else {}
        for instance in may:
            places = world.ledger.held(instance.holder)
            if places:
                found.add(Unit([instance], places, instance.last_used), counts=not whole)
                add(freed, places)
        if whole:
            found.add(Unit(may, freed, max([i.last_used for i in inside])), counts=True)
    return found


def units(
    world: World, on: Iterable[str], *, spared: Collection[Instance] = (), finish: bool, mapped: Collection[str] = ()
) -> list[Unit]:
    """All that may leave now, idle or, with `finish`, also busy (it is waited for then), and has something of
    one of these devices. Files that are to be `mapped` anyway are not given back."""
    by_device = movable(world, finish=finish).by_device
    found = {id(unit): unit for name in on for unit in by_device.get(name, ())}
    chosen: list[Unit] = []
    for unit in found.values():
        if spared and any(instance in spared for instance in unit.instances):
            continue
        unit.cost = sum([cost_of(world, instance) for instance in unit.instances])
        chosen.append(without_files(world, unit, mapped) if mapped and RAM in unit.freed else unit)
    return chosen


def without_files(world: World, unit: Unit, mapped: Collection[str]) -> Unit:
    """The same unit, if these files stay in memory."""
    ledger = world.ledger
    files = ledger.files.get(unit.instances[0].worker.id, {})
    stay = sum(size for file, size in files.items() if file in mapped and ledger.mapped[file] == 1)
    return Unit(unit.instances, {**unit.freed, RAM: unit.freed[RAM] - stay}, unit.last_used, unit.cost)


def most_freed(world: World, *, finish: bool) -> Booking:
    """What would come back of each device if all that may leave left."""
    return movable(world, finish=finish).total


def could_cover(world: World, deficit: Booking, *, finish: bool) -> bool:
    """Whether all that may leave together would be enough; if not, nobody needs to choose."""
    total = most_freed(world, finish=finish)
    return all(n <= 0 or total.get(name, 0) >= n for name, n in deficit.items())


def may_leave(world: World, instance: Instance, *, finish: bool) -> bool:
    """Whether it may be made to leave for another: not kept, not used, its quantum served."""
    if instance.model.kept or instance.leaving is not None:
        return False
    if instance.state in (State.LOADING, State.PARKED):
        return not instance.model.waiters  # Nobody waits for this load any more.
    if instance.state is not State.READY or instance.model.waiters or quantum_until(instance) > world.now:
        return False
    if not finish and instance.ask_again > world.now:
        return False
    return not instance.leases or all(
        lease.protected_until <= world.now or (finish and lease.is_busy and lease.hold_until <= world.now)
        for lease in instance.leases.values()
    )


def next_moment(world: World) -> float:
    """When time alone may let something leave that may not now; infinity: never."""
    now, first = world.now, float("inf")
    for worker in world.workers.values():
        for instance in worker.instances.values():
            if instance.state is not State.READY:
                continue
            until = quantum_until(instance)
            if until <= now:
                moments = [instance.ask_again]
                for lease in instance.leases.values():
                    moments += (lease.protected_until, lease.hold_until)
                until = min([moment for moment in moments if moment > now], default=first)
            if until < first:
                first = until
    return first


def quantum_until(instance: Instance) -> float:
    """Until when a model that became ready serves before it may be evicted for a rival."""
    return instance.ready_since + max(instance.model.spec.min_residency_s, QUANTUM_LOADS * instance.load_s)


def leaving_bytes(world: World, device: str) -> int:
    """What is on its way to be free on a device."""
    return census(world).going.get(device, 0)


def keepers(world: World) -> list[Worker]:
    """The workers that hold something that is kept."""
    return census(world).keepers


def goes(instance: Instance) -> bool:
    """It is on its way out."""
    return instance.leaving is not None or instance.state in ENDING


def add(total: dict[str, int], part: Booking) -> None:
    for name, n in part.items():
        total[name] = total.get(name, 0) + n
