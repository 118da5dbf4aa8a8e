"""What strangers use of a device, between bounds, and what of ours the driver has not shown to be free.

A sample says how much is used, and by whom as far as the driver shows it. So strangers use

- at most: used, less what the sample shows of our own; admissions count on that;
- at least: used, less what is booked, since our own may not have taken all of theirs yet. That is
  believed when two samples in a row say so; evictions count on it. Refusals count on what has been so for
  `LASTING_S`: what a stranger, a reservation's program or a worker of an earlier manager had is shown as used for a
  second or so after their end.

What nobody shown uses is *unexplained*: the driver's own, processes of containers, and of ours what
is hidden or on its way back after an exit. The last two are told by how far it has risen above its
`baseline`, which is what was unexplained while there were none of them. Whatever came up first is
explained first: what is quarantined, then workers that are hidden (as far as they were known before
anything was on its way back), then those that have exited. If strangers hide too, the names may be
wrong; the sums are not.
"""

from __future__ import annotations

from dataclasses import dataclass

from .events import DeviceSeen
from .growth import measured
from .ledger import CUDA, HOST, Device
from .locked import shown_bytes
from .records import Worker
from .world import World

LASTING_S = 5.0
"""Drivers show memory to be free 0.5 to 1.5 s after an exit, and some later, see `release`."""


@dataclass(slots=True)
class Excess:
    """Unexplained bytes, from which one after the other is explained."""

    bytes: int

    def take(self, most: int) -> int:
        taken = min(most, self.bytes)
        self.bytes -= taken
        return taken


def account(world: World, device: Device, seen: DeviceSeen) -> None:
    """Takes one sample of a device into the ledger: strangers' bounds, and what each of ours holds."""
    workers = [worker for worker in world.workers.values() if device.name in world.ledger.held(worker.id)]
    living = [worker for worker in workers if worker.exited is None]
    ended = [worker for worker in workers if worker.exited is not None and seen.begun >= worker.exited]
    hidden = [worker for worker in living if not seen.held_bytes.get(worker.id)] if device.kind == CUDA else []
    left = (lost.worker for lost in device.quarantine)
    ours = {*world.reservations, *(worker.id for worker in workers), *left}
    shown = {holder: n for holder, n in seen.held_bytes.items() if holder in ours}
    unexplained = max(0, seen.used_bytes - sum(shown.values()) - seen.listed_bytes)
    if not (hidden or device.quarantine) and all(worker.exited is None for worker in workers):
        device.baseline_bytes = unexplained
    device.baseline_bytes = min(device.baseline_bytes, unexplained)
    excess = Excess(unexplained - device.baseline_bytes)
    for lost in device.quarantine:
        lost.bytes = explained(lost.bytes, shown.get(lost.worker, 0), excess)
    held = {worker.id: shown[worker.id] for worker in living if worker.id in shown}
    for worker in hidden:  # not listed, or with no bytes: a context alone has some
        held[worker.id] = excess.take(most_hidden(world, worker, device, is_settled=len(living) == len(workers)))
    for worker in sorted(ended, key=lambda worker: -(worker.exited or 0.0)):
        held[worker.id] = explained(worker.measured_bytes.get(device.name, 0), shown.get(worker.id, 0), excess)
    note_held(world, device, living, held, seen)
    for worker in ended:
        worker.measured_bytes[device.name] = held[worker.id]
    locked = shown_bytes(world, seen.begun) if device.kind == HOST else 0
    still_ours = sum(held.values()) + reserved(world, device, shown) + locked
    device.foreign_bytes = max(0, seen.used_bytes - still_ours)
    droppable = world.ledger.file_bytes - locked if device.kind == HOST else 0
    lower = max(0, seen.used_bytes - (device.booked_bytes - droppable))
    device.sure_foreign_bytes = min(lower, device.lower_bytes)
    note_low(device, lower, world.now)


def note_low(device: Device, lower: int, now: float) -> None:
    """Takes in what was found at least; `lows` says since when each amount has been there, the smaller the longer."""
    since = now
    while device.lows and device.lows[-1][1] >= lower:
        since, _ = device.lows.pop()
    device.lows.append((since, lower))
    lasting = [low for low in device.lows if low[0] <= now - LASTING_S]
    device.lows = lasting[-1:] + device.lows[len(lasting) :]
    device.lasting_foreign_bytes = lasting[-1][1] if lasting else 0


def explained(residue: int, shown: int, excess: Excess) -> int:
    """How much of what a dead process had is still there: what is shown of it, or what nobody is shown for."""
    mine = min(residue, shown)
    return mine + excess.take(residue - mine)


def forget_lower(world: World) -> None:
    """Workers are booked that were taken for strangers until now: what is sure of these has to be seen anew."""
    for device in world.ledger.devices.values():
        device.sure_foreign_bytes = device.lasting_foreign_bytes = 0
        device.lows.clear()


def reserved(world: World, device: Device, shown: dict[str, int]) -> int:
    """What programs use of their reservations. What they use beyond them is as foreign as any other's."""
    here = (known for known in world.reservations.values() if known.device == device.name)
    return sum(min(known.bytes, shown.get(known.id, 0)) for known in here)


def most_hidden(world: World, worker: Worker, device: Device, *, is_settled: bool) -> int:
    """How much of what is unexplained a worker that the driver does not show may hold: no more than is
    booked for it, and while something is on its way back no more than was known before."""
    booked = world.ledger.held(worker.id).get(device.name, 0)
    return booked if is_settled else min(booked, worker.measured_bytes.get(device.name, 0))


def note_held(world: World, device: Device, living: list[Worker], held: dict[str, int], seen: DeviceSeen) -> None:
    """What living workers hold of a GPU; RAM is measured by the host, which tells of it itself."""
    if device.kind != CUDA:
        return
    for worker in living:
        if worker.id in held and seen.begun >= worker.started:
            measured(world, worker, {device.name: held[worker.id]})
