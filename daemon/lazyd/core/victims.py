"""Which of those who may leave do leave: the cheapest set whose exit makes enough room.

This is a covering knapsack, on several devices at once: bytes are missing on each, every unit
that may leave gives some back and costs something (`cost.py`), and the sum of the costs is to be
the least. Of equally cheap sets the one that frees fewer bytes is better, and of two units that
are alike the one used less recently leaves. Costs are compared as whole microseconds and all
else is a whole number, so the same question has the same answer everywhere.

Two steps:

1. `Problem.approximate` takes units in the order of cost per missing byte, and completes each
   beginning of that order with every single unit that is enough for the rest. On one device the
   best of these sets costs at most twice the least (Csirik, Frenk, Labbé and Zhang, 1991): let b be
   the first unit of the cheapest set that is enough for the rest at its turn; the units taken
   before it cost no more than the cheapest set, since they cover less at the best prices, nor does b.
2. `Problem.search` improves it by branch and bound. It is exact if it ends within its
   steps; what it has found by then is never worse than the first step's set.

The lower bound is what the rest would cost if units could leave in part, all devices added up to
one. Any weights of the devices give a true bound; `balanced` looks for those that give a high one.

Units may be nested: an object of a family frees its place, its whole worker frees the memory and
all places. Units that share an instance exclude each other, so nothing is counted twice. A
unit that holds all instances of another must free at least as much.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import add, sub

from .ledger import Booking
from .records import Instance

STEPS = 300
"""Nodes that the search may look at, 1 to 3 us each. Ten units on one device need 200 at most."""

COST_UNITS_PER_S = 1_000_000
MAX_COST_S = 1e9
BYTES_BITS = 52
"""The bytes that a set of units frees need no more bits than this (4 PiB)."""

BALANCING = 200
"""Units looked at while devices are weighed against each other, all rounds together."""
MAX_ROUNDS = 4
FINENESS = 1024
"""Of the weights, which are whole numbers."""

Amounts = tuple[int, ...]
"""Bytes on each device on which some are missing."""


@dataclass(slots=True)
class Unit:
    """Instances that can only leave together, what that frees, and what it costs in seconds."""

    instances: list[Instance]
    freed: Booking
    last_used: float
    cost: float = 0.0


def choose_victims(units: Iterable[Unit], deficit: Booking, *, steps: int = STEPS) -> list[Unit] | None:
    """The units with the least total cost whose exit covers the deficit on every device.

    None of them could stay. None: all together would not be enough. No unit, where nothing is missing.
    With `steps` 0 the result is the approximation.
    """
    missing = {name: n for name, n in deficit.items() if n > 0}
    if not missing:
        return []
    helpful = [unit for unit in units if any(unit.freed.get(name, 0) > 0 for name in missing)]
    problem = Problem(helpful, missing)
    found = problem.approximate()
    if found is None:
        return None
    return [problem.units[index] for index in problem.search(found, steps)]


class Problem:
    """The units as numbers, in the order of cost per missing byte.

    A unit's weight is its cost and, in the bits below that, the bytes that it frees: the least sum of weights is
    the least cost, and of equal costs the fewest bytes. Its size is what it gives, all devices added up.
    """

    def __init__(self, units: Sequence[Unit], missing: Booking) -> None:
        self.missing: Amounts = tuple(missing.values())
        weights = [
            (round(min(unit.cost, MAX_COST_S) * COST_UNITS_PER_S) << BYTES_BITS) + sum(unit.freed.values())
            for unit in units
        ]
        gives = [tuple([min(unit.freed.get(name, 0), n) for name, n in missing.items()]) for unit in units]
        self.scale = balanced(weights, gives, self.missing) if len(missing) > 1 else [1]
        sizes = [self.total(given) for given in gives]
        order = sorted(range(len(units)), key=lambda i: (weights[i] / sizes[i], units[i].last_used, i))
        self.units = [units[i] for i in order]
        self.weights = [weights[i] for i in order]
        self.gives = [gives[i] for i in order]
        self.sizes = [sizes[i] for i in order]
        self.weight_before = list(accumulate(self.weights, initial=0))
        self.size_before = list(accumulate(self.sizes, initial=0))
        self.excludes = exclusions(self.units)

    def total(self, amounts: Amounts) -> int:
        """All devices added up by their weights; one of which more than enough is covered adds nothing."""
        if len(amounts) == 1:
            return amounts[0]
        return sum([n * scale for n, scale in zip(amounts, self.scale, strict=True) if n > 0])

    def approximate(self) -> list[int] | None:
        """A set that is enough and of which no unit could stay; None if there is no set that is enough."""
        taken: list[int] = []
        missing = self.missing
        best: list[int] | None = None
        best_weight = 0
        for index, weight in enumerate(self.weights):
            others, left = taken, less(missing, self.gives[index])
            if index in self.excludes:
                others = [i for i in taken if i not in self.excludes[index]]
                left = less(self.left_by(others), self.gives[index])
                if any(m > max(n, 0) for m, n in zip(left, missing, strict=True)):
                    continue  # It is a part of what is taken.
            if max(left) > 0:
                if helps(missing, self.gives[index]):
                    taken, missing = [*others, index], left
            elif best is None or weight < best_weight:
                needed = self.prune([*others, index], left)
                needed_weight = self.weight(needed)
                if best is None or needed_weight < best_weight:
                    best, best_weight = needed, needed_weight
        return best

    def weight(self, chosen: Iterable[int]) -> int:
        return sum([self.weights[index] for index in chosen])

    def left_by(self, chosen: Iterable[int]) -> Amounts:
        """What is missing when these have left."""
        left = self.missing
        for index in chosen:
            left = less(left, self.gives[index])
        return left

    def prune(self, chosen: list[int], left: Amounts) -> list[int]:
        """Without the units that can stay: the most expensive first, of equal ones the more recently used."""
        for index in sorted(chosen, key=lambda i: (-self.weights[i], -self.units[i].last_used, i)):
            without = tuple(map(add, left, self.gives[index]))
            if max(without) <= 0:
                left = without
                chosen = [other for other in chosen if other != index]
        return chosen

    def search(self, found: list[int], steps: int) -> list[int]:
        """The best set, or the best of those seen in so many steps; `found` is one that is enough."""
        best, best_weight = found, self.weight(found)
        count = len(self.weights)
        # Depth first. Each node stands before one more unit; with that unit comes before without it.
        nodes: list[tuple[int, Amounts, int, tuple[int, ...]]] = [(0, self.missing, 0, ())]
        while nodes and steps > 0:
            steps -= 1
            index, missing, weight, chosen = nodes.pop()
            if index == count or weight + self.bound(index, missing) >= best_weight:
                continue
            nodes.append((index + 1, missing, weight, chosen))
            given = self.gives[index]
            if not helps(missing, given) or not self.excludes.get(index, NONE).isdisjoint(chosen):
                continue
            weight += self.weights[index]
            left = less(missing, given)
            if max(left) > 0:
                nodes.append((index + 1, left, weight, (*chosen, index)))
            elif weight < best_weight:
                best = self.prune([*chosen, index], left)
                best_weight = self.weight(best)
        return best

    def bound(self, index: int, missing: Amounts) -> int:
        """The least weight at which the units from `index` on cover what is missing, if the last leaves in part."""
        needed = self.size_before[index] + self.total(missing)
        last = bisect_left(self.size_before, needed, index) - 1
        if last == len(self.weights):
            return NEVER
        whole = self.weight_before[last] - self.weight_before[index]
        part = needed - self.size_before[last]
        return whole - (-self.weights[last] * part // self.sizes[last])


NEVER = 1 << 200
"""More than any set weighs."""
NONE: frozenset[int] = frozenset()


def less(missing: Amounts, given: Amounts) -> Amounts:
    """What is missing still; negative where more than enough is given."""
    return tuple(map(sub, missing, given))


def helps(missing: Amounts, given: Amounts) -> bool:
    """It gives something where something is missing."""
    return any(n > 0 and m > 0 for n, m in zip(missing, given, strict=True))


def balanced(weights: Sequence[int], gives: Sequence[Amounts], missing: Amounts) -> list[int]:
    """Weights of the devices, for adding them up to one.

    At first what is missing is the same on each. Then a device of which the cheapest units, taken in that order,
    would cover too little counts more, and another less; the weights with the highest bound are kept.
    """
    largest = max(missing)
    scale = [largest / n for n in missing]
    best, best_bound = scale, 0.0
    for _ in range(min(MAX_ROUNDS, BALANCING // max(1, len(weights)))):
        sizes = [sum([n * part for n, part in zip(given, scale, strict=True)]) for given in gives]
        needed = sum([n * part for n, part in zip(missing, scale, strict=True)])
        covered = [0.0] * len(missing)
        bound = 0.0
        for i in sorted(range(len(weights)), key=lambda i: weights[i] / sizes[i]):
            part = min(1.0, needed / sizes[i])
            bound += weights[i] * part
            needed -= sizes[i] * part
            covered = [sum_ + n * part for sum_, n in zip(covered, gives[i], strict=True)]
            if part < 1.0:
                break
        if bound > best_bound:
            best, best_bound = scale, bound
        scale = [old * min(4.0, n / max(c, n / 4)) for old, n, c in zip(scale, missing, covered, strict=True)]
        scale = [part * largest / max(scale) / min(missing) for part in scale]
    return [max(1, round(part * FINENESS)) for part in best]


def exclusions(units: Sequence[Unit]) -> dict[int, frozenset[int]]:
    """Which units share an instance with which others, for those that do."""
    by_instance: dict[int, list[int]] = {}
    for index, unit in enumerate(units):
        for instance in unit.instances:
            by_instance.setdefault(id(instance), []).append(index)
    shared: dict[int, set[int]] = {}
    for indices in by_instance.values():
        if len(indices) > 1:
            for index in indices:
                shared.setdefault(index, set()).update(indices)
    return {index: frozenset(others - {index}) for index, others in shared.items()}
