"""Who leaves to make room.

What can leave is a unit: a worker with everything in it, or one object of a family, and what it
gives back. A unit may leave when nothing in it is used, kept or protected, and each model in it
has served for its quantum, the longer of `min_residency_s` and twice its load time: without it
two alternating models would starve their clients. Which of them do leave, `choose_victims` says
(`victims.py`): those that cost least (`cost.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from .cost import QUANTUM_LOADS, cost_of
from .ledger import SLOTS
from .lifecycle import State
from .lives import ENDING
from .records import Instance
from .victims import Unit, choose_victims
from .world import World

__all__ = ["Unit", "choose_victims", "goes", "leaving_bytes", "may_leave", "quantum_until", "units"]


def units(world: World, *, spared: set[Instance], finish: bool, mapped: Collection[str] = ()) -> Iterator[Unit]:
    """All that may leave now: idle, or, with `finish`, also busy (it is waited for then). Files that
    are to be `mapped` anyway are not given back."""
    for worker in world.workers.values():
        if worker.stopping or not worker.instances:
            continue
        inside = list(worker.instances.values())
        movable = [i for i in inside if i not in spared and may_leave(world, i, finish=finish)]
        for instance in movable:
            places = world.ledger.held(instance.holder)
            if places:
                yield Unit([instance], places, instance.last_used, cost_of(world, instance))
        if len(movable) == len(inside):
            freed = world.ledger.freed_by(worker.id, mapped)
            for instance in inside:
                for name, n in world.ledger.held(instance.holder).items():
                    freed[name] = freed.get(name, 0) + n
            cost = sum(cost_of(world, i) for i in inside)
            yield Unit(movable, freed, max(i.last_used for i in inside), cost)


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
    return all(
        lease.protected_until <= world.now or (finish and lease.is_busy and lease.hold_until <= world.now)
        for lease in instance.leases.values()
    )


def quantum_until(instance: Instance) -> float:
    """Until when a model that became ready serves before it may be evicted for a rival."""
    return instance.ready_since + max(instance.model.spec.min_residency_s, QUANTUM_LOADS * instance.load_s)


def leaving_bytes(world: World, device: str) -> int:
    """What is on its way to be free on a device: booked by what drains, unloads or ends."""
    going = 0
    for worker in world.workers.values():
        inside = worker.instances.values()
        if device.startswith(SLOTS):
            going += sum(world.ledger.held(i.holder).get(device, 0) for i in inside if worker.stopping or goes(i))
        elif worker.stopping or (inside and all(goes(i) for i in inside)):
            going += world.ledger.freed_by(worker.id).get(device, 0)
    return going


def goes(instance: Instance) -> bool:
    """It is on its way out."""
    return instance.leaving is not None or instance.state in ENDING
