"""The drivers: what they show of each device, how late they notice an end, when they hang or lose a GPU."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .memory import CUDA

if TYPE_CHECKING:
    from .memory import Memory
    from .world import World

SLOW_S = (3.0, 12.0)
"""How long a slow driver takes to notice an end: the core waits for 5 s."""
TORN = 0.1
"""Chance that a sample was torn: what is used was read at another moment than who uses it."""


@dataclass(frozen=True, slots=True)
class Look:
    """A device as its driver shows it, by the owners of processes."""

    used: int
    shown: dict[str, int]
    """Of living processes, and of ended ones that it lists still."""
    strangers: dict[str, int]
    """What strangers really used then; those ``listed`` are shown."""
    really: dict[str, int]
    """What each owner really had then, living or not."""
    when: float

    def unbooked(self, booked: Collection[str]) -> int:
        """What was really used by all but these owners."""
        return sum(self.strangers.values()) + sum(n for owner, n in self.really.items() if owner not in booked)


class Drivers:
    def __init__(self, world: World) -> None:
        self.world = world
        self.rng = world.rng
        self.hides: dict[str, bool] = {}
        """Owners whose processes it does not show, as those of a container."""
        self.lists_ended: dict[str, bool] = {}
        self.silent_until: dict[str, float] = {}
        self.stuck: list[tuple[Memory, str]] = []
        """What they give back only in peace."""

    def came(self, owner: str) -> None:
        """Processes of an owner are there."""
        profile = self.world.scenario.profile
        if profile.hidden and self.rng.random() < profile.hidden:
            self.hides[owner] = True

    def ended(self, owner: str) -> None:
        """Processes of an owner are gone; each driver notices some time later."""
        profile, rng, clock = self.world.scenario.profile, self.rng, self.world.clock
        for memory in self.world.memory.values():
            if owner not in memory.residues:
                continue
            if rng.random() < profile.lists_ended:
                self.lists_ended[owner] = True
            dice = rng.random()
            if (dice := dice - profile.sticks) < 0 and self.world.faults:
                self.stuck.append((memory, owner))
            elif dice - profile.slow_release < 0:
                clock.after(rng.uniform(*SLOW_S), memory.give_back, owner)
            else:
                clock.after(rng.uniform(0.0, profile.driver_s), memory.give_back, owner)

    def unstick(self) -> None:
        """Whatever was stuck is given back."""
        for memory, owner in self.stuck:
            memory.give_back(owner)
        self.stuck.clear()

    def hang(self, name: str, seconds: float) -> None:
        """Nothing that is asked of a device is answered before."""
        self.silent_until[name] = self.world.clock.now + seconds

    def answers_at(self, name: str) -> float:
        return self.silent_until.get(name, 0.0)

    def is_silent(self, name: str) -> bool:
        return self.answers_at(name) > self.world.clock.now

    def look(self, name: str, used_before: int) -> Look:
        """What is shown now. A sampler that finds the device changing believes the larger of two figures."""
        memory = self.world.memory[name]
        shown = {owner: n for owner, n in memory.held.items() if owner not in self.hides}
        if memory.kind == CUDA:
            for owner, n in memory.residues.items():
                if owner in self.lists_ended:
                    shown[owner] = shown.get(owner, 0) + n
        torn = used_before > memory.used and self.rng.random() < TORN
        return Look(
            used=used_before if torn else memory.used,
            shown=shown,
            strangers=dict(memory.strangers),
            really=memory.by_owner(),
            when=self.world.clock.now,
        )
