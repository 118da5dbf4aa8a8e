"""The line for room, as it is walked along once: what those ahead have set aside, and what is left for the next.

It may be long, and most who stand in it have come too late: no device has room for them, not even if all that
may leave had left. That is seen from a few sums (`Outlook`), without a look at each place where they could go.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from . import plans, samples
from .eviction import keepers, leaving_bytes, most_freed
from .ledger import CUDA, HOST, RAM, SLOTS, Booking
from .needs import GPU
from .parking import is_parked
from .placement import allowed
from .records import Model, Prediction, Seeker
from .world import World


@dataclass(slots=True)
class Outlook:
    """By device, for who comes next, is not nested and has no plan yet."""

    free: dict[str, int]
    room: dict[str, int]
    """What is free or on its way to be, and not meant for others."""
    idle: dict[str, int]
    """With all that is idle."""
    all: dict[str, int]
    """With what is busy and may be waited for, too."""
    lasting: dict[str, int]
    """What could be had some time: all but what is kept, reserved, or strangers'. No less than this."""
    drained: set[str]
    """Where a plan waits for what is busy already: no other may."""
    stamp: tuple[int, ...]

    def set_aside(self, booking: Booking) -> None:
        for name, n in booking.items():
            for there_is in (self.room, self.idle, self.all):
                if name in there_is:
                    there_is[name] -= n


class Line:
    """One pass along the line."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.ahead: dict[str, int] = {}
        self.blocked: list[Seeker] = []
        self.first_come: set[str] = set()
        """Devices on which a nested request is blocked: nobody else plans there before it is served."""
        self._outlook: Outlook | None = None
        self._allowed: dict[tuple[str, ...], tuple[list[str], bool]] = {}

    def set_aside(self, booking: Booking) -> None:
        for name, n in booking.items():
            self.ahead[name] = self.ahead.get(name, 0) + n
        if self._outlook is not None:
            self._outlook.set_aside(booking)

    def headroom(self, seeker: Seeker, name: str) -> int:
        """What is free of a device or will be, less what is meant for others. A nested request
        yields only to other nested ones."""
        left = self.world.ledger.devices[name].free_bytes + leaving_bytes(self.world, name) - self.ahead.get(name, 0)
        for plan in self.world.plans.values():
            n = plan.booking.get(name, 0)
            if n and plan.seeker is not seeker and (plan.seeker.nested or not seeker.nested):
                left -= n
        return left

    def is_passed_by(self, seeker: Seeker, *, overdue: bool) -> bool:
        """Whether nothing can be done for one who waits, as is seen at once. Then it has kept its place: if it is
        overdue, what it would have is set aside."""
        if not isinstance(seeker, Model) or not is_simple(seeker) or not isinstance(seeker.prediction, Prediction):
            return False
        outlook = self._look()
        has_plan = seeker.key in self.world.plans
        there_is = outlook.free if has_plan else outlook.all if overdue and RAM not in outlook.drained else outlook.idle
        gpus, in_ram = self._devices(seeker)
        way = seeker.prediction.ways.get(RAM) if in_ram else None
        if way is not None and way.peak.ram_bytes <= there_is[RAM]:
            return False
        first = {} if way is None else {RAM: way.peak.ram_bytes}
        way = seeker.prediction.ways.get(GPU) if gpus else None
        if way is not None:
            needed = way.peak.gpu_bytes[0]
            if needed <= max([there_is[name] for name in gpus]):
                return False
            first = {max(gpus, key=outlook.room.__getitem__): needed, RAM: way.peak.ram_bytes}
        if not first or any(n > outlook.lasting.get(name, n) for name, n in first.items()):
            return False  # It may have to be refused.
        if not has_plan:
            self.blocked.append(seeker)
            if overdue:
                self.set_aside(first)
        return True

    def _devices(self, model: Model) -> tuple[list[str], bool]:
        """The GPUs that it may use, in order, and whether it may use RAM alone. What was not seen of late is asked."""
        known = self._allowed.get(model.spec.device)
        if known is None:
            devices = allowed(self.world, model)
            gpus = [device.name for device in devices if device.kind == CUDA]
            known = sorted(gpus), any(device.kind == HOST for device in devices)
            self._allowed[model.spec.device] = known
            samples.are_fresh(self.world, [device.name for device in devices])
        return known

    def _look(self) -> Outlook:
        """The sums, taken anew when something was decided: then all is different for those behind."""
        world = self.world
        stamp = (world.steps, len(world.plans), len(world.ledger.bookings))
        if self._outlook is not None and self._outlook.stamp == stamp:
            return self._outlook
        devices = {name: device for name, device in world.ledger.devices.items() if device.kind != SLOTS}
        planned = total(plan.booking for plan in world.plans.values())
        room = {
            name: device.free_bytes + leaving_bytes(world, name) - planned.get(name, 0) - self.ahead.get(name, 0)
            for name, device in devices.items()
        }
        idle, busy = most_freed(world, finish=False), most_freed(world, finish=True)
        drained = {name for name in devices if plans.drains_already(world, [name])}
        kept = total(world.ledger.freed_by(worker.id) for worker in keepers(world))
        kept = total([kept, *({known.device: known.bytes} for known in world.reservations.values())])
        kept[RAM] = kept.get(RAM, 0) + world.ledger.file_bytes
        self._outlook = Outlook(
            free={name: device.free_bytes for name, device in devices.items()},
            room=room,
            idle={name: n + idle.get(name, 0) for name, n in room.items()},
            all={name: n + (idle if name in drained else busy).get(name, 0) for name, n in room.items()},
            lasting={name: device.sure_limit_bytes - kept.get(name, 0) for name, device in devices.items()},
            drained=drained,
            stamp=stamp,
        )
        return self._outlook


def is_simple(model: Model) -> bool:
    """It goes whole to one device, whichever has room, and nothing else has to be thought of."""
    spec = model.spec
    divided = isinstance(model.prediction, Prediction) and model.prediction.layers is not None
    return not (divided or spec.is_family or spec.beside or model.kept or model.nested or is_parked(model))


def total(bookings: Iterable[Booking]) -> dict[str, int]:
    found: dict[str, int] = {}
    for booking in bookings:
        for name, n in booking.items():
            found[name] = found.get(name, 0) + n
    return found
