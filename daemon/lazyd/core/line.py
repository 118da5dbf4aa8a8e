"""The line for room, as it is walked along once: what those ahead have set aside, and what is left for the next.

It may be long, and most who stand in it have come too late: no device has room for them, not even if all that
may leave had left. That is seen from a few sums (`Outlook`), without a look at each place where they could go.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from . import plans, samples
from .eviction import keepers, leaving_bytes, most_freed
from .ledger import CUDA, HOST, RAM, SLOTS, Booking
from .locked import could_free
from .needs import GPU
from .parking import is_parked
from .placement import allowed
from .records import Model, Prediction, Seeker
from .routes import is_background
from .world import World


@dataclass(slots=True)
class Outlook:
    """By device, for who comes next, is not nested and has no plan yet."""

    room: dict[str, int]
    """What is free or on its way to be, and not meant for others."""
    lasting: dict[str, int]
    """What could be had some time: all but what is kept, reserved, or strangers'. No less than this."""
    most: dict[bool, dict[str, int]]
    """With all that might leave for it, and locked files, by whether it is overdue: then what is busy may be waited
    for, too."""

    def set_aside(self, booking: Booking) -> None:
        for name, n in booking.items():
            for there_is in (self.room, self.most[False], self.most[True]):
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
        self.spared: dict[str, int] = {}
        """What the one at hand leaves to the model in whose place it would answer."""
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
        left -= self.spared.get(name, 0)
        for plan in self.world.plans.values():
            n = plan.booking.get(name, 0)
            if n and plan.seeker is not seeker and (plan.seeker.nested or not seeker.nested):
                left -= n
        return left

    def look_anew(self) -> None:
        """Something may be decided for the next one, and then all is different for those behind."""
        self._outlook = None

    def is_passed_by(self, seeker: Seeker, *, overdue: bool) -> bool:
        """Whether nothing can be done for one who waits, as is seen at once. Then it has kept its place: if it is
        overdue, what it would have is set aside."""
        prediction = seeker.prediction if isinstance(seeker, Model) and is_simple(seeker) else None
        if not isinstance(seeker, Model) or not isinstance(prediction, Prediction) or prediction.layers is not None:
            return False
        gpus, has_ram = self._devices(seeker)
        on_gpu = prediction.ways.get(GPU) if gpus else None
        in_ram = prediction.ways.get(RAM) if has_ram else None
        outlook = self._look()
        first: dict[str, int] = {}
        if in_ram is not None:
            first[RAM] = in_ram.peak.ram_bytes
            if first[RAM] <= self._most(outlook, seeker, [RAM], overdue=overdue):
                return False
        if on_gpu is not None:
            needed = on_gpu.peak.gpu_bytes[0]
            if needed <= self._most(outlook, seeker, gpus, overdue=overdue):
                return False
            first = {max(gpus, key=outlook.room.__getitem__): needed, RAM: on_gpu.peak.ram_bytes}
        if not first or any(n > outlook.lasting.get(name, n) for name, n in first.items()):
            return False  # It may have to be refused.
        if seeker.key not in self.world.plans:
            self.blocked.append(seeker)
            if overdue:
                self.set_aside(first)
        return True

    def _most(self, outlook: Outlook, seeker: Seeker, names: Sequence[str], *, overdue: bool) -> int:
        """What one of these devices has at most for one who waits. For who has a plan nobody else is asked to leave."""
        plan = self.world.plans.get(seeker.key)
        if plan is None:
            return max(map(outlook.most[overdue].__getitem__, names))
        devices, room = self.world.ledger.devices, outlook.room
        return max([min(devices[name].free_bytes, room[name] + plan.booking.get(name, 0)) for name in names])

    def _devices(self, model: Model) -> tuple[list[str], bool]:
        """The GPUs that it may use, in order, and whether it may be in RAM. What was not seen of late is asked."""
        known = self._allowed.get(model.spec.device)
        if known is None:
            devices = allowed(self.world, model)
            gpus = sorted(device.name for device in devices if device.kind == CUDA)
            known = gpus, any(device.kind == HOST for device in devices)
            self._allowed[model.spec.device] = known
            samples.are_fresh(self.world, [device.name for device in devices])
        return known

    def _look(self) -> Outlook:
        """The sums, as long as nothing can have changed them."""
        if self._outlook is not None:
            return self._outlook
        world = self.world
        devices = [device for device in world.ledger.devices.values() if device.kind != SLOTS]
        kept = added_up(world.ledger.freed_by(worker.id) for worker in keepers(world))
        reserved = added_up({known.device: known.bytes} for known in world.lasting_reservations())
        planned = added_up(plan.booking for plan in world.plans.values())
        lasting = {d.name: d.lasting_limit_bytes - kept.get(d.name, 0) - reserved.get(d.name, 0) for d in devices}
        if RAM in lasting:
            lasting[RAM] -= world.ledger.file_bytes
        room = {d.name: d.free_bytes + leaving_bytes(world, d.name) for d in devices}
        room = {name: n - planned.get(name, 0) - self.ahead.get(name, 0) for name, n in room.items()}
        idle, busy = most_freed(world, finish=False), most_freed(world, finish=True)
        drained = {name for name in room if plans.drains_already(world, [name])}
        most = {
            False: {name: n + idle.get(name, 0) for name, n in room.items()},
            True: {name: n + (idle if name in drained else busy).get(name, 0) for name, n in room.items()},
        }
        for there_is in most.values():
            if RAM in there_is:
                there_is[RAM] += could_free(world)
        self._outlook = Outlook(room, lasting, most)
        return self._outlook


def rank(seeker: Seeker) -> tuple[bool, float, int]:
    """Its place in the line: nested requests first, then the longest waiting; of residents that have been missing
    for as long, as at the start, those of higher priority."""
    priority = seeker.spec.priority if isinstance(seeker, Model) else 0
    return (not seeker.nested, seeker.wanted_since or 0.0, -priority)


def is_simple(model: Model) -> bool:
    """It goes whole to whichever device has room, and nothing else has to be thought of."""
    spec = model.spec
    if model.waiters and model.waiters[0].detour is not None:  # it may be a fallback
        return False
    if is_background(model):  # what answers meanwhile does not leave for it
        return False
    return not (spec.is_family or spec.beside or spec.uses or model.kept or model.nested or is_parked(model))


def added_up(bookings: Iterable[Booking]) -> dict[str, int]:
    found: dict[str, int] = {}
    for booking in bookings:
        for name, n in booking.items():
            found[name] = found.get(name, 0) + n
    return found
