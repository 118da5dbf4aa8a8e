"""What a worker takes of the devices that it is on, stage by stage of its life."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .appetite import part
from .memory import CUDA, RAM

if TYPE_CHECKING:
    from .worker import SimWorker

RAMP = (0.3, 0.7, 1.0)
"""What a load has taken of its peak at the beginning, in the middle, and just before its end."""
MEMBERS = 5
"""A family's worker shares what it needs among so many, where their number is not limited."""


class Consumption:
    """Bytes by device, as a sum over the objects of one worker."""

    __slots__ = ("_parts", "_peak", "appetite", "grown", "worker", "world")

    def __init__(self, worker: SimWorker, layers: dict[str, int], devices: tuple[str, ...]) -> None:
        self.worker = worker
        self.world = worker.world
        self.appetite = worker.world.character(worker.key).appetite
        self.grown = 1.0
        """A leak: by so much it has grown in service."""
        self._peak = self.appetite.on(devices, layers)
        if worker.spec.is_family:
            members = worker.spec.max_loaded or MEMBERS
            self._peak = {name: n // members for name, n in self._peak.items()}
        self._parts: dict[str, dict[str, int]] = {}

    def load(self, model: str, step: int) -> str | None:
        """The load takes its next part; returns the device that has not so much."""
        return self._set(model, RAMP[step])

    def rest(self, model: str) -> None:
        """The load is over, and some of what it took is given back."""
        self._set(model, self.appetite.rest)

    def serve(self, model: str) -> str | None:
        """A call needs what calls need; returns the device that has not so much."""
        return self._set(model, max(self.appetite.service, self.appetite.rest) * self.grown)

    def park(self, model: str) -> str | None:
        """Gives back its GPUs but for a context, and keeps in RAM what it needs to come back."""
        now = self._parts[model]
        moved = sum(n for name, n in now.items() if name != RAM)
        parked = {name: part(n, self.appetite.context) for name, n in now.items() if name != RAM}
        return self._become(model, {RAM: now.get(RAM, 0) + part(moved, self.appetite.kept), **parked})

    def unpark(self, model: str, step: int) -> str | None:
        """Takes its GPUs again, RAM is given back when they are full."""
        parked = self._parts[model]
        back = {name: max(part(n, RAMP[step]), parked.get(name, 0)) for name, n in self._peak.items()}
        if step < len(RAMP) - 1:
            back[RAM] = parked.get(RAM, 0)
        return self._become(model, back)

    def forget(self, model: str) -> None:
        """An object is closed, and its worker goes on."""
        if model in self._parts:
            self._become(model, {})
            del self._parts[model]

    def lose(self, device: str) -> None:
        """A device is lost, and with it what was there."""
        for parts in self._parts.values():
            parts.pop(device, None)

    def end(self) -> None:
        """The process is gone: its RAM is free, and a driver notices some time later."""
        self._parts.clear()
        for memory in self.world.memory.values():
            if memory.kind == CUDA and not memory.is_lost:
                memory.leave(self.worker.id)
            else:
                memory.drop(self.worker.id)

    def held(self, device: str) -> int:
        return self.world.memory[device].held.get(self.worker.id, 0)

    def _set(self, model: str, share: float) -> str | None:
        return self._become(model, {name: part(n, share) for name, n in self._peak.items()})

    def _become(self, model: str, wanted: dict[str, int]) -> str | None:
        """All or nothing of each device; what was taken before one failed stays taken."""
        before = self._parts.setdefault(model, {})
        for name in sorted({*before, *wanted}, key=lambda name: (wanted.get(name, 0) > before.get(name, 0), name)):
            memory = self.world.memory[name]
            if memory.is_lost:
                continue
            more = wanted.get(name, 0) - before.get(name, 0)
            if not memory.take(self.worker.id, memory.held.get(self.worker.id, 0) + more):
                return name
            before[name] = wanted.get(name, 0)
            self.worker.is_measured = self.worker.is_measured and name != RAM
        return None
