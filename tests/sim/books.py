"""What must be booked at least, worked out anew from what one core was told and has ordered.

The core's own ledger may hold more, as what comes back is believed only when it is seen. It may
never hold less: `about_admission` counts with these figures, and `about_ledger` compares.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lazyd.core import answers, effects, events
from lazyd.core.ledger import FRESH_S, SLOW_S
from lazyd.core.seekers import DRY_RUN_BYTES

from .memory import CUDA, RAM

if TYPE_CHECKING:
    from .told import Told
    from .world import World


@dataclass(slots=True)
class Entry:
    """One worker, from the order to start it, or from when it was found, until it is told to have ended."""

    started: float
    gpus: tuple[str, ...]
    booking: dict[str, int]
    service: dict[str, int] | None
    files: dict[str, int]
    promised: dict[str, int]
    granted: dict[str, int] = field(default_factory=dict)
    """What it was given, by a decision and not because it had grown."""
    measured: dict[str, int] = field(default_factory=dict)
    """By device, as told last."""
    unseen: dict[str, int] = field(default_factory=dict)
    """By device: what it may have left there when it parked, where its driver does not show it."""
    load_peak: dict[str, int] = field(default_factory=dict)
    service_peak: dict[str, int] = field(default_factory=dict)
    serves: bool = False
    settles: bool = False
    """Its RAM has not been measured since it became ready."""
    parks: bool = False
    """It was ordered to park, and not to come back."""
    parked_at: float | None = None
    is_new: bool = True
    """This core has started it."""


@dataclass(frozen=True, slots=True)
class Held:
    """A reservation."""

    device: str
    bytes: int
    holder: int


@dataclass(slots=True)
class Locked:
    """The files of a model, from when they are booked until the host has let go of them."""

    files: dict[str, int]
    since: float | None = None
    """When the core was told that they are locked."""
    leaves: bool = False


class Books:
    def __init__(self, world: World, told: Told) -> None:
        self._world = world
        self._told = told
        self.entries: dict[str, Entry] = {}
        self.ended: dict[str, Entry] = {}
        """Workers that the core was told have ended, as they were then."""
        self.reserved: dict[str, Held] = {}
        self.adopted: dict[str, float] = {}
        """Reservations that were found, and nobody has claimed again: since when."""
        self.locks: dict[str, Locked] = {}
        """By model."""
        self.locked_then = 0
        """What the last sample of RAM shows of them."""
        self.dry_runs: set[int] = set()
        """By the number of the question."""
        self.seen: dict[str, events.DeviceSeen] = {}
        self.seen_at: dict[str, float] = {}
        """When these samples came."""
        self.lowers: dict[str, tuple[int, int]] = {}
        """What the last two samples showed strangers to use at least."""
        self.given_back: dict[str, float] = {}
        """When something booked on a device was last given back otherwise than by a sample of it."""
        self.lost: dict[str, bool] = {}

    # Questions.

    def booked(self, device: str) -> int:
        """At least so much of a device is booked."""
        n = sum(entry.booking.get(device, 0) for entry in self.entries.values())
        n += sum(held.bytes for held in self.reserved.values() if held.device == device)
        if device == RAM:
            n += DRY_RUN_BYTES * len(self.dry_runs) + sum(self.mapped().values())
        return n

    def mapped(self) -> dict[str, int]:
        """The files that workers map or that are locked, each once."""
        holders = (*self.entries.values(), *self.locks.values())
        return {file: n for holder in holders for file, n in holder.files.items()}

    def freed_by(self, model: str) -> int:
        """What comes back when what is locked of a model is let go of."""
        others = [*self.entries.values(), *(lock for key, lock in self.locks.items() if key != model)]
        stay = {file for holder in others for file in holder.files}
        return sum(n for file, n in self.locks[model].files.items() if file not in stay)

    def shown_locked(self, begun: float) -> int:
        """What a sample of RAM that was begun then shows of locked files."""
        locks = [lock for lock in self.locks.values() if lock.since is not None and lock.since <= begun]
        return sum({file: n for lock in locks for file, n in lock.files.items()}.values())

    def strange(self, device: str) -> int:
        """At most so much was used by strangers, as far as the last sample can tell."""
        seen = self.seen[device]
        ours = self.locked_then if device == RAM else 0
        for name, entry in self.entries.items():
            if device in entry.booking:
                ours += min(entry.booking[device], seen.held_bytes.get(name) or entry.booking[device])
        for name, held in self.reserved.items():
            if held.device == device:
                ours += min(held.bytes, seen.held_bytes.get(name, 0))
        return max(0, seen.used_bytes - ours)

    def most(self, device: str) -> int:
        """What bookings may reach on a device: its budget, or what strangers and the margin leave."""
        seen = self.seen[device]
        return min(self._told.budget(device), seen.total_bytes - self._told.margin(device) - self.strange(device))

    def room(self, device: str) -> int:
        return self.most(device) - self.booked(device)

    def is_fresh(self, device: str) -> bool:
        """Its last sample may be built on: it came of late, did not take long, and shows what was given back."""
        begun, came = self.seen[device].begun, self.seen_at[device]
        is_news = begun >= self.given_back.get(device, 0.0)
        return is_news and came - begun <= SLOW_S and self._now - came <= FRESH_S

    def is_over(self, device: str) -> bool:
        """More is booked than may be, as two samples running have shown."""
        return self.booked_by_core(device) > self.sure_most(device)

    def sure_most(self, device: str) -> int:
        """What bookings may reach at best."""
        total, margin = self.seen[device].total_bytes, self._told.margin(device)
        return min(self._told.budget(device), total - margin - min(self.lowers.get(device, (0, 0))))

    def booked_by_core(self, device: str) -> int:
        known = self._world.manager.core.world.ledger.devices.get(device)
        return known.booked_bytes if known is not None else 0

    # Events, before the core handles them.

    def hear(self, event: events.Event) -> None:
        hear = getattr(self, f"_hear_{type(event).__name__.lower()}", None)
        if hear is not None:
            hear(event)

    def _hear_deviceseen(self, event: events.DeviceSeen) -> None:
        self.seen[event.name], self.seen_at[event.name] = event, self._now
        may_drop = 0
        if event.name == RAM:
            self.locked_then = self.shown_locked(event.begun)
            may_drop = sum(self.mapped().values()) - self.locked_then
        lower = max(0, event.used_bytes - (self.booked_by_core(event.name) - may_drop))
        self.lowers[event.name] = (self.lowers.get(event.name, (0, 0))[1], lower)
        self.lost.pop(event.name, None)
        if event.kind != CUDA:
            return
        for name, entry in self.entries.items():
            if event.name not in entry.booking or event.begun < entry.started:
                continue
            if event.held_bytes.get(name):  # else it is not shown: a context alone has some
                self._measured(entry, event.name, event.held_bytes[name], event.begun)
            elif entry.parked_at is not None and event.begun >= entry.parked_at:
                entry.booking[event.name] = 0  # what is left there counts as a stranger's
                entry.unseen[event.name] = max(
                    0, event.used_bytes - event.listed_bytes - sum(event.held_bytes.values())
                )

    def _hear_devicelost(self, event: events.DeviceLost) -> None:
        self.lost[event.name] = True

    def _hear_workermeasured(self, event: events.WorkerMeasured) -> None:
        entry = self.entries.get(event.worker)
        for device, n in event.bytes_by_device.items() if entry is not None else ():
            assert entry is not None
            self._measured(entry, device, n, self._now)
        if entry is not None and entry.settles:
            entry.settles = False
            self._settle(entry)

    def _measured(self, entry: Entry, device: str, n: int, when: float) -> None:
        entry.measured[device] = n
        peak = entry.service_peak if entry.serves else entry.load_peak
        peak[device] = max(n, peak.get(device, 0))
        booked = entry.booking.get(device, 0)
        if n > booked or (entry.parked_at is not None and when >= entry.parked_at):
            entry.booking[device] = n
        if n < booked and entry.parked_at is not None and device == RAM:
            self.given_back[device] = self._now

    def _hear_objectready(self, event: events.ObjectReady) -> None:
        entry = self.entries.get(event.worker)
        if entry is None or not self._told.is_loading(event.worker, event.model):
            return
        entry.serves, entry.settles, entry.parked_at = True, True, None
        if entry.service is not None:
            entry.granted = {d: min(n, entry.service.get(d, n)) for d, n in entry.granted.items()}
        self._settle(entry)

    def _settle(self, entry: Entry) -> None:
        """It is booked with its peak in service, where that is known, or what it holds."""
        for device, n in entry.booking.items() if entry.service is not None else ():
            assert entry.service is not None
            settled = max(entry.service.get(device, n), entry.measured.get(device, 0))
            if settled < n:
                entry.booking[device] = settled
                self.given_back[device] = self._now

    def _hear_objectparked(self, event: events.ObjectParked) -> None:
        entry = self.entries.get(event.worker)
        if entry is not None:
            entry.parks, entry.parked_at, entry.serves = True, self._now, False

    def _hear_workerexited(self, event: events.WorkerExited) -> None:
        self._end(event.worker)

    def _hear_fileslocked(self, event: events.FilesLocked) -> None:
        lock = self.locks.get(event.model)
        if lock is not None and not lock.leaves and lock.since is None:
            lock.since = self._now

    def _hear_filesunlocked(self, event: events.FilesUnlocked) -> None:
        if event.model in self.locks and self.freed_by(event.model):
            self.given_back[RAM] = self._now
        self.locks.pop(event.model, None)

    def _hear_hostlost(self, _: events.HostLost) -> None:
        for worker in list(self.entries):
            self._end(worker)
        for model in [model for model, lock in self.locks.items() if lock.leaves or lock.since is not None]:
            self._hear_filesunlocked(events.FilesUnlocked(model=model))

    def _hear_hostfound(self, event: events.HostFound) -> None:
        found = {report.worker: report for report in event.workers}
        for worker in [worker for worker in self.entries if worker not in found]:
            self._end(worker)
        for name, report in found.items():
            if name not in self.entries:
                self.entries[name] = self._found(report)
        self._find_locks({report.model: report for report in event.locks})
        for kept in event.reservations:
            if kept.id not in self.reserved:
                self.reserved[kept.id] = Held(kept.device, kept.bytes, kept.holder)
                self.adopted[kept.id] = self._now

    def _find_locks(self, reports: dict[str, events.LockReport]) -> None:
        """What was only booked is ordered anew where the host has not heard of it."""
        for model, lock in list(self.locks.items()):
            if model not in reports and (lock.leaves or lock.since is not None):
                self._hear_filesunlocked(events.FilesUnlocked(model=model))
        for model, report in reports.items():
            self.locks.setdefault(model, Locked(dict(report.files)))
            if report.locked:
                self._hear_fileslocked(events.FilesLocked(model=model))

    def _hear_unreserve(self, event: events.Unreserve) -> None:
        self.adopted.pop(event.reservation, None)
        held = self.reserved.pop(event.reservation, None)
        if held is not None:
            self.given_back[held.device] = self._now

    def _hear_predicted(self, event: events.Predicted | events.Unpredictable) -> None:
        if event.number in self.dry_runs:
            self.dry_runs.discard(event.number)
            self.given_back[RAM] = self._now

    _hear_unpredictable = _hear_predicted

    # Effects, after they were checked.

    def ordered(self, effect: effects.Effect) -> None:
        match effect:
            case effects.StartWorker(worker=name, memo=memo):
                self.entries[name] = self._entry(memo, self._now)
            case effects.ParkObject(worker=name):
                entry = self.entries[name]
                if not entry.parks:
                    entry.parks, entry.service = True, dict(entry.booking)
                    entry.booking[RAM] = entry.booking.get(RAM, 0) + self.moved(entry)
                    entry.granted[RAM] = entry.booking[RAM]
            case effects.UnparkObject(worker=name):
                entry = self.entries[name]
                entry.booking |= self.way_back(entry)
                entry.service = entry.service or dict(entry.promised)
                entry.granted = dict(entry.booking)
                entry.parks, entry.parked_at = False, None
                entry.unseen.clear()
            case effects.StopWorker(worker=name) | effects.UnloadObject(worker=name):
                if (ended := self.entries.get(name)) is not None:
                    ended.parked_at = None  # all of it comes back when it has ended
            case effects.Predict(number=number, dry_run=True):
                self.dry_runs.add(number)
            case effects.Answer(request=number, outcome=answers.Reserved(reservation=name)):
                fields = self._world.control.by_number[number].fields
                self.adopted.pop(name, None)
                self.reserved.setdefault(name, Held(fields["device"], fields["bytes"], fields["holder"]))
            case effects.Answer(request=number, outcome=answers.Done()):
                self._is_done(number)
            case effects.UnlockFiles(model=model):
                if model in self.locks:
                    self.locks[model].leaves = True
            case effects.KeepReservations(reservations=kept):
                names = {report.id for report in kept}
                for name in [name for name in self.reserved if name not in names]:
                    self.given_back[self.reserved.pop(name).device] = self._now
            case _:
                pass

    def _is_done(self, number: int) -> None:
        pending = self._world.control.by_number[number]
        if pending.kind is events.LockFiles:
            model = self._told.resolve(pending.fields["model"]) or ""
            self.locks.setdefault(model, Locked(dict(pending.fields["files"])))

    def moved(self, entry: Entry) -> int:
        """What has to be booked in RAM before a worker parks."""
        return sum(entry.booking.get(gpu, 0) for gpu in entry.gpus)

    def way_back(self, entry: Entry) -> dict[str, int]:
        """What a parked worker needs to come back."""
        wanted = entry.service or entry.promised
        return {device: max(n, self.left_on(entry, device)) for device, n in wanted.items()}

    def left_on(self, entry: Entry, device: str) -> int:
        """What a parked worker has at most of a device."""
        return max(entry.booking.get(device, 0), entry.unseen.get(device, 0))

    @property
    def _now(self) -> float:
        return self._world.clock.now

    def _end(self, worker: str) -> None:
        entry = self.entries.pop(worker, None)
        if entry is not None:
            self.ended[worker] = entry
            if entry.booking.get(RAM) or entry.files:
                self.given_back[RAM] = self._now

    def _entry(self, memo: dict[str, object], started: float) -> Entry:
        booking: dict[str, int] = dict(memo["booking"])  # type: ignore[call-overload]
        return Entry(
            started=started,
            gpus=tuple(memo["gpus"]),  # type: ignore[arg-type]
            booking=booking,
            service=memo["service"],  # type: ignore[arg-type]
            files=dict(memo["files"]),  # type: ignore[call-overload]
            promised=dict(booking),
            granted=dict(booking),
        )

    def _found(self, report: events.WorkerReport) -> Entry:
        """As it was booked by an earlier manager: from readiness on with its peak in service, at least with what
        it was measured to hold; parked, with what that is."""
        entry = self._entry(report.memo, report.started)
        entry.is_new = False
        states = {thing.state for thing in report.objects}
        if states - {"loading", "warming"}:
            service = entry.service or entry.booking
            entry.serves = not states & {"parking", "parked"}
            entry.booking = {d: min(n, service.get(d, n)) for d, n in entry.booking.items()}
        if "parking" in states:
            entry.parks = True
            entry.booking[RAM] = entry.booking.get(RAM, 0) + self.moved(entry)
            entry.granted[RAM] = entry.booking[RAM]
        if "parked" in states:
            entry.booking |= dict.fromkeys(entry.gpus, 0)
        entry.measured = dict(report.measured_bytes)
        for device, n in entry.measured.items():
            entry.booking[device] = max(n, entry.booking.get(device, 0))
        if "parked" in states:
            entry.parks, entry.parked_at = True, self._now
        return entry
