"""Which GPU is ``gpu0``: numbers are given in the order of the first look, and stay with the GPU's UUID.

A later GPU gets a number that none has had. One that does not answer when it is first looked at has a number
all the same, so that those after it are called what they would be called otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from .nvml_device import Device
from .source import DeviceGone

Answer = list[Device] | Exception
"""What is at a position of NVML's: a GPU, the instances of a divided one, or why nobody knows."""


@dataclass
class Slot:
    """What a number stands for."""

    uuid: str | None = None
    """None: it has not answered yet."""
    position: int = -1
    """Where NVML has it, or the GPU of which it is an instance."""
    device: Device | None = None
    trouble: Exception | None = None
    """Why there is no device."""

    def fail(self, why: Exception) -> None:
        self.device, self.trouble = None, why


class Numbering:
    """Not safe for threads: its owner has a lock."""

    def __init__(self) -> None:
        self.slots: list[Slot] = []

    def names(self) -> list[str]:
        """What there is, or what should be and does not answer."""
        return [f"gpu{n}" for n, slot in enumerate(self.slots) if slot.device or slot.uuid is None]

    def slot(self, name: str) -> Slot:
        """Raises `DeviceGone`: nothing was ever called so."""
        for n, slot in enumerate(self.slots):
            if name == f"gpu{n}":
                return slot
        raise DeviceGone(f"there is no {name}")

    def place(self, answers: Mapping[int, Answer], count: int) -> None:
        """Takes in what was found at `count` positions. A position without an answer is still being asked."""
        seen: set[str] = set()
        uncertain: set[int] = set()
        for position in range(count):
            answer = answers.get(position)
            if isinstance(answer, list):
                for device in answer:
                    seen.add(device.uuid)
                    slot = self._slot_for(device.uuid, position)
                    slot.uuid, slot.position, slot.device, slot.trouble = device.uuid, position, device, None
            else:
                uncertain.add(position)
                self._not_seen(position, answer)
        for slot in self.slots:
            if slot.uuid not in seen and slot.position not in uncertain:
                slot.fail(DeviceGone("it is not there any more"))

    def _not_seen(self, position: int, why: Exception | None) -> None:
        there = [slot for slot in self.slots if slot.position == position]
        for slot in there:
            if why is not None or slot.device is None:
                slot.fail(why or OSError("it does not answer"))
        # One that this process may not use, by a container's rules, is none for it.
        if not there and not isinstance(why, PermissionError):
            self.slots.append(Slot(position=position, trouble=why or OSError("it does not answer")))

    def _slot_for(self, uuid: str, position: int) -> Slot:
        for slot in self._candidates(uuid, position):
            return slot
        self.slots.append(Slot())
        return self.slots[-1]

    def _candidates(self, uuid: str, position: int) -> Iterator[Slot]:
        yield from (slot for slot in self.slots if slot.uuid == uuid)
        yield from (slot for slot in self.slots if slot.uuid is None and slot.position == position)
