"""What a model's leaving costs: the time to load it again x the chance that it is wanted soon.

In seconds of waiting, so that models of all kinds and sizes can be compared and added up. The time is
the median of its last loads: one slow load, from a disk that was busy, say, changes little. *Soon*
means within `HORIZON_S`, or within the quantum of the model where that is longer: coming back
takes a load, and then it serves for at least that long, so a model that is wanted again before is one
that was swapped for nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from .lifecycle import LOADS, State
from .records import Instance, Model
from .world import World

HORIZON_S = 60.0
"""What is wanted again within a minute should not have left."""

QUANTUM_LOADS = 2
"""A model that became ready serves for so many times its load time before it may leave for a rival."""

RECENT = 5
"""Loads whose median counts."""

DISK_BYTES_PER_S = 500e6
"""How fast a load is before any was measured: a SATA disk, or reading weights from faster ones and preparing them."""
TELLING = 0.1
"""From this part of a load on it tells how long the rest takes."""
START_S = 0.5
"""A process and its library."""


def cost_of(world: World, instance: Instance) -> float:
    """Seconds that are expected to be lost if it leaves now.

    What is in the middle of a call is wanted for certain. A load that nobody waits for costs what was spent
    on it. A parked model would need some time in any case; the rest of a whole load is lost.
    """
    model = instance.model
    lost_s = expected_load_s(world, instance)
    if instance.leases and instance.in_flight:
        return lost_s
    if instance.state in LOADS:
        lost_s = world.now - instance.load_started
    elif instance.state is State.PARKED and model.unpark_s is not None:
        lost_s = max(0.0, lost_s - model.unpark_s)
    return lost_s * chance_of_use(model, world.now)


def chance_of_use(model: Model, now: float) -> float:
    """How likely somebody is to ask for a model soon, from 0 to 1."""
    quantum_s = max(model.spec.min_residency_s, QUANTUM_LOADS * (model.expected_load_s or 0.0))
    return model.heat.chance(now, max(HORIZON_S, quantum_s))


def expected_load_s(world: World, instance: Instance) -> float:
    """How long it takes to load again what an instance has: as measured, else by the bytes that it holds."""
    known_s = instance.model.expected_load_s
    if known_s is not None:
        return known_s
    return START_S + sum(world.ledger.held(instance.worker.id).values()) / DISK_BYTES_PER_S


def left_s(model: Model, now: float) -> float | None:
    """How long it takes until a model is ready, or from its admission on if it waits for that; None: not known.

    The median of its last loads, less what has passed; where that has been exceeded, by how far it has come.
    """
    instance = model.instance
    if instance is None:
        return model.expected_load_s
    was_ready = instance.ready_since > 0.0
    known_s = model.unpark_s if was_ready else model.expected_load_s
    if instance.state not in LOADS:
        return known_s
    spent_s = now - instance.load_started
    if known_s is not None and known_s > spent_s:
        return known_s - spent_s
    done = instance.fraction if instance.state is State.LOADING else None
    return spent_s * (1.0 - done) / done if done is not None and done >= TELLING else None


def note_load(instance: Instance) -> None:
    """A load has ended well, or the way back from being parked."""
    model = instance.model
    if instance.ready_since:
        model.unpark_s = instance.load_s
    else:
        expect(model, (*model.loads_s, instance.load_s))


def adopt(instance: Instance) -> None:
    """What an earlier manager had loaded was used once at least, and took its time, which is news if nothing else
    is known."""
    model = instance.model
    if instance.load_s and not model.loads_s:
        expect(model, (instance.load_s,))
    model.heat.used(instance.last_used)


def recall(model: Model, warmup_s: float) -> None:
    """What an earlier manager has kept of its loads is known again, until loads of this one replace it.

    :param warmup_s: what a load takes for its warm-up, which is not counted in what is kept
    """
    if model.past.loads_s:
        expect(model, [load_s + warmup_s for load_s in model.past.loads_s])


def expect(model: Model, loads_s: Sequence[float]) -> None:
    """The next load takes as long as the last ones did."""
    model.loads_s = tuple(loads_s[-RECENT:])
    model.expected_load_s = sorted(model.loads_s)[len(model.loads_s) // 2]
