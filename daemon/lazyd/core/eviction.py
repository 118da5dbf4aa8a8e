"""Who may leave to make room, and what is on its way out.

What can leave is a unit: a worker with everything in it, or one object of a family, and what it
gives back. A unit may leave when nothing in it is used, kept or protected, and each model in it
has served for its quantum, the longer of `min_residency_s` and twice its load time: without it
two alternating models would starve their clients. Which of them do leave, `choose_victims` says
(`victims.py`): those that cost least (`cost.py`).

There may be hundreds of workers, and the line for room asks about each of them for everybody in it. So what was
found of each is kept (`Census`), and only those are looked at again of which something was changed
(`World.stirred`, `Ledger.changed`), or for which time has made a difference.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from . import guesses, locked, swaps, uses
from .cost import QUANTUM_LOADS, cost_of
from .ledger import RAM, Booking
from .lifecycle import LOADS, State
from .lives import ENDING
from .records import Instance, Worker
from .victims import Unit
from .world import World


@dataclass(slots=True, eq=False)
class Standing:
    """What of one worker is on its way out, and what may leave."""

    going: dict[str, int] = field(default_factory=dict)
    """By device: what is booked by what drains, unloads or ends."""
    keeps: bool = False
    """It holds something that is pinned or resident, and stays."""
    units: dict[bool, list[Unit]] = field(default_factory=dict)
    """What may leave, by whether busy models count, which are waited for."""
    freed: dict[bool, dict[str, int]] = field(default_factory=dict)
    """What comes back of each device if all of that leaves."""
    moment: float = float("inf")
    """When time alone may let something leave that may not now."""


@dataclass(slots=True, eq=False)
class Census:
    """All workers, one by one and added up."""

    at: float = 0.0
    standings: dict[str, Standing] = field(default_factory=dict)
    """By worker."""
    going: dict[str, int] = field(default_factory=dict)
    freed: dict[bool, dict[str, int]] = field(default_factory=lambda: {False: {}, True: {}})
    keepers: dict[str, Worker] = field(default_factory=dict)
    units: dict[bool, dict[str, list[Unit]]] = field(default_factory=dict)
    """What may leave, by device; put together where it is asked for."""

    def count(self, standing: Standing, sign: int) -> None:
        add(self.going, standing.going, sign)
        for finish, freed in standing.freed.items():
            add(self.freed[finish], freed, sign)
        self.units.clear()


def look_anew(world: World) -> None:
    """Anything may have changed: all workers have to be looked at again."""
    world.census = None


def census(world: World) -> Census:
    """What is known of all workers now."""
    known = world.census
    if not isinstance(known, Census):
        known = world.census = Census()
        again = list(world.workers)
    elif world.stirred or world.ledger.changed or world.now > known.at:
        changed = world.stirred | {holder.partition("/")[0] for holder in world.ledger.changed}
        changed |= {id_ for id_, standing in known.standings.items() if standing.moment <= world.now}
        again = sorted(changed)
    else:
        return known
    known.at = world.now
    world.stirred.clear()
    world.ledger.changed.clear()
    for id_ in again:
        note(world, known, id_)
    return known


def note(world: World, known: Census, id_: str) -> None:
    """Looks at one worker, which may be new, or gone."""
    old, worker = known.standings.get(id_), world.workers.get(id_)
    if old is not None:
        known.count(old, -1)
    known.keepers.pop(id_, None)
    if worker is None:
        known.standings.pop(id_, None)
        return
    standing = known.standings[id_] = standing_of(world, worker)
    known.count(standing, 1)
    if standing.keeps:
        known.keepers[id_] = worker


def standing_of(world: World, worker: Worker) -> Standing:
    """Looks at one worker."""
    found = Standing()
    if worker.stuck:
        return found
    inside = list(worker.instances.values())
    stays = False
    for instance in inside:
        if worker.stopping or goes(instance):
            add(found.going, world.ledger.held(instance.holder))
        else:
            stays = True
            found.keeps = found.keeps or instance.model.kept
    if not stays:
        if worker.stopping or inside:
            add(found.going, world.ledger.freed_by(worker.id))
        return found
    idle = [instance for instance in inside if may_leave(world, instance, finish=False)]
    note_movable(world, found, worker, idle, finish=False)
    if len(idle) == len(inside):
        found.units[True], found.freed[True] = found.units[False], found.freed[False]
    else:
        note_movable(world, found, worker, [i for i in inside if may_leave(world, i, finish=True)], finish=True)
        found.moment = min(moment(world, instance) for instance in inside)
    return found


def note_movable(world: World, found: Standing, worker: Worker, may: list[Instance], *, finish: bool) -> None:
    """Units of those that may leave: the worker with everything in it, and each object that takes a place."""
    if not may:
        return
    chosen: list[Unit] = []
    freed: dict[str, int] = {}
    for instance in may:
        if places := world.ledger.held(instance.holder):
            chosen.append(Unit([instance], places, instance.last_used))
            add(freed, places)
    if len(may) == len(worker.instances):
        add(freed, world.ledger.freed_by(worker.id))
        chosen.append(Unit(may, freed, max([instance.last_used for instance in may])))
    found.units[finish], found.freed[finish] = chosen, freed


def movable(world: World, *, finish: bool) -> dict[str, list[Unit]]:
    """What may leave now, by the devices of which it gives something back."""
    known = census(world)
    found = known.units.get(finish)
    if found is None:
        found = known.units[finish] = {}
        for standing in known.standings.values():
            for unit in standing.units.get(finish, ()):
                for name, n in unit.freed.items():
                    if n:
                        found.setdefault(name, []).append(unit)
    return found


def units(
    world: World, on: Iterable[str], *, spared: Collection[Instance] = (), finish: bool, mapped: Collection[str] = ()
) -> list[Unit]:
    """All that may leave now, idle or, with `finish`, also busy (it is waited for then), and has something of
    one of these devices. Files that are to be `mapped` anyway are not given back."""
    by_device = movable(world, finish=finish)
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
    return census(world).freed[finish]


def could_cover(world: World, deficit: Booking, *, finish: bool) -> bool:
    """Whether all that may leave together would be enough; if not, nobody needs to choose."""
    total = most_freed(world, finish=finish)
    return all(n <= 0 or total.get(name, 0) >= n for name, n in deficit.items())


def may_leave(world: World, instance: Instance, *, finish: bool) -> bool:
    """Whether it may be made to leave for another: not kept, not used, its quantum served."""
    if instance.model.kept or instance.leaving is not None:
        return False
    if instance.state in LOADS or instance.state is State.PARKED:
        return not instance.model.waiters and not swaps.is_next(instance.model)  # Nobody waits for this load any more.
    if instance.state is not State.READY or instance.model.waiters or quantum_until(instance) > world.now:
        return False
    if not finish and max(instance.ask_again, uses.needed_until(world, instance.model)) > world.now:
        return False
    return not instance.leases or all(
        lease.protected_until <= world.now or (finish and lease.is_busy and lease.hold_until <= world.now)
        for lease in instance.leases.values()
    )


def next_moment(world: World) -> float:
    """When time alone may let something leave that may not now; infinity: never."""
    return min([standing.moment for standing in census(world).standings.values()], default=float("inf"))


def moment(world: World, instance: Instance) -> float:
    """The same for one instance."""
    if instance.state is not State.READY or instance.model.kept:
        return float("inf")
    until = quantum_until(instance)
    if until > world.now:
        return until
    moments = [instance.ask_again, uses.needed_until(world, instance.model)]
    for lease in instance.leases.values():
        moments += (lease.protected_until, lease.hold_until)
    return min([moment for moment in moments if moment > world.now], default=float("inf"))


def quantum_until(instance: Instance) -> float:
    """Until when a model that became ready serves before it may be evicted for a rival. A guess yields at once."""
    if guesses.is_unproven(instance):
        return instance.ready_since
    return instance.ready_since + max(instance.model.spec.min_residency_s, QUANTUM_LOADS * instance.load_s)


def leaving_bytes(world: World, device: str) -> int:
    """What is on its way to be free on a device."""
    return census(world).going.get(device, 0) + (locked.leaving_bytes(world) if device == RAM else 0)


def keepers(world: World) -> Collection[Worker]:
    """The workers that hold something that is kept."""
    return census(world).keepers.values()


def goes(instance: Instance) -> bool:
    """It is on its way out."""
    return instance.leaving is not None or instance.state in ENDING


def add(total: dict[str, int], part: Booking, sign: int = 1) -> None:
    for name, n in part.items():
        total[name] = total.get(name, 0) + sign * n
