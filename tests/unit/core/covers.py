"""Units that may leave, made at random; and the best set of them, found by trying all."""

from __future__ import annotations

import itertools
import random

from lazyd.core.ledger import Booking
from lazyd.core.lifecycle import State
from lazyd.core.records import Instance, Model, Worker
from lazyd.core.spec import ModelSpec
from lazyd.core.victims import COST_UNITS_PER_S, Unit

Value = tuple[int, int]
"""Cost in microseconds, and bytes freed."""

SPEC = ModelSpec(name="any", runtime="python")
WORKER = Worker(id="#1", spec=SPEC, identity="", started=0.0)
MODEL = Model(key="any", spec=SPEC, identity="")


def unit(freed: Booking, cost: float, last_used: float = 0.0, parts: tuple[Unit, ...] = ()) -> Unit:
    """One of its own, or one that holds the instances of others."""
    instances = [instance for part in parts for instance in part.instances]
    fresh = Instance(model=MODEL, worker=WORKER, state=State.READY, since=0.0, load_started=0.0, progressed=0.0)
    return Unit(instances or [fresh], freed, last_used, cost)


def random_units(rng: random.Random, count: int, devices: int, *, nested: bool = False) -> list[Unit]:
    """Sizes in bytes or few, costs of all kinds: many equal ones, none at all, or in step with the size."""
    names = [f"gpu{number}" for number in range(devices)]
    largest = rng.choice((12, 12 << 30))
    pricing = rng.choice(("free", "few", "by size", "any"))
    units = []
    for _ in range(count):
        freed = {name: rng.randint(1, largest) for name in names if devices == 1 or rng.random() < 0.6}
        freed = freed or {rng.choice(names): rng.randint(1, largest)}
        cost = {
            "free": rng.choice((0.0, 0.0, rng.random())),
            "few": float(rng.randint(0, 3)),
            "by size": sum(freed.values()) / largest * rng.uniform(0.8, 1.2),
            "any": rng.random() * rng.choice((1, 10)),
        }[pricing]
        units.append(unit(freed, cost, last_used=rng.uniform(0, 100)))
    alone = list(units)
    while nested and alone and rng.random() < 0.7:
        parts = tuple(alone.pop() for _ in range(min(len(alone), rng.randint(1, 3))))
        freed = {name: sum(part.freed.get(name, 0) for part in parts) for name in names}
        freed[rng.choice(names)] += rng.randint(0, largest)
        last_used = max(part.last_used for part in parts)
        units.append(unit(freed, sum(part.cost for part in parts), last_used, parts))
    rng.shuffle(units)
    return units


def random_deficit(rng: random.Random, units: list[Unit], devices: int) -> dict[str, int]:
    """Between hardly anything and a little more than there is."""
    total = {f"gpu{n}": sum(unit.freed.get(f"gpu{n}", 0) for unit in units) for n in range(devices)}
    return {name: int(n * rng.uniform(0.03, 1.02)) for name, n in total.items()}


def value(units: list[Unit]) -> Value:
    cost = sum(round(unit.cost * COST_UNITS_PER_S) for unit in units)
    return cost, sum(sum(unit.freed.values()) for unit in units)


def is_enough(units: list[Unit], deficit: Booking) -> bool:
    """Nothing leaves twice, and every device gets what it misses."""
    leaving = [id(instance) for unit in units for instance in unit.instances]
    if len(leaving) != len(set(leaving)):
        return False
    return all(sum(unit.freed.get(name, 0) for unit in units) >= n for name, n in deficit.items())


def best_value(units: list[Unit], deficit: Booking) -> Value | None:
    """By trying all sets."""
    sets = (list(some) for n in range(len(units) + 1) for some in itertools.combinations(units, n))
    return min((value(some) for some in sets if is_enough(some, deficit)), default=None)
