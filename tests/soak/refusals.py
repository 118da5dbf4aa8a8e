"""Nobody runs out of memory where lazyd could have known better.

The stand-in driver remembers every allocation that it had no room for. lazyd promises that at each admission
all that is booked on a device and all that strangers use of it fit beside each other. So a refusal is explained by
what has come on top since the last admission there, if without that there would have been room:

- bytes that strangers have taken since that admission's sample was begun;
- bytes that somebody has taken since, or wanted, beyond what was booked for him then: a model that declared too
  little, or nothing, and has not been learned, or leaks; a program that uses more than it reserved.

Everything else could have been avoided. A model whose author had declared enough, and for which too little was
booked all the same because of what had been learned, is told apart.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.fakes.nvml import MIB
from tests.fakes.nvml.driver import GIVEN_BACK, REFUSED, TAKEN, Happening

from .mischief import is_stranger
from .schedule import Schedule
from .watching import Record

SAMPLE_S = 1.1
"""A sample that lazyd builds on is a second old at most,"""
SLOW_S = 2.0
"""and where a driver hangs, it may have taken so long to come."""

STRANGER = "strangers had come"
FIRST = "a model needed more than anybody knew"
PROGRAM = "a program used more than it had reserved"
SAME_S = 0.002
"""An event is this one, if it is no further from it."""
LATER_S = 5.0

LEARNED = "less was booked than its author had declared"
NOT_OURS = "a stranger, or a program beyond its reservation"
AVOIDABLE = "avoidable"


@dataclass
class Gpu:
    """What was allocated on one, at a moment."""

    total: int
    held: dict[int, dict[int, tuple[float, int]]] = field(default_factory=dict)
    """By pid and serial, until it was given back: since when, and how much."""

    def apply(self, happening: Happening) -> None:
        if happening.what == TAKEN:
            self.held.setdefault(happening.pid, {})[happening.serial] = happening.at_ns / 1e9, happening.bytes
        elif happening.what == GIVEN_BACK:
            self.held.get(happening.pid, {}).pop(happening.serial, None)

    def of(self, pid: int, *, before: float = float("inf")) -> int:
        """What a process has, of what it took before a moment."""
        return sum(n for at, n in self.held.get(pid, {}).values() if at < before)

    def late(self, since: float) -> int:
        """What strangers have taken since, and still have."""
        return sum(self.of(pid) - self.of(pid, before=since) for pid in self.held if is_stranger(pid))


class Judge:
    """`roll` names the model of each pid that has memory, and the pid of its worker; `programs` are the pids of
    programs, with the GPU and the bytes that they have reserved."""

    def __init__(
        self,
        schedule: Schedule,
        record: Record,
        roll: Mapping[int, tuple[str, int]],
        programs: Mapping[int, tuple[int, int]],
    ) -> None:
        self._schedule = schedule
        self._sample_s = SAMPLE_S + (SLOW_S if "driver hangs" in schedule.traits else 0.0)
        self._record = record
        self._roll = roll
        self._programs = programs
        self._admissions: dict[int, list[float]] = {gpu: [] for gpu in range(len(schedule.gpus_mib))}
        self._workers: dict[str, str] = {}
        """By id: its model."""
        self._promised: dict[str, tuple[float, dict[str, int]]] = {}
        """By worker: when it was admitted, and with what."""
        self._back: dict[str, list[float]] = {}
        """By worker: when it was admitted again, after it had been parked."""
        for each in record.events("loading", "reserved"):
            assert each.event is not None
            data = each.event["data"]
            for gpu in self._admissions:
                if f"gpu{gpu}" in data["free_bytes"]:
                    self._admissions[gpu].append(each.at)
            if each.event["kind"] == "loading" and data["bytes"]:
                worker = data["worker"]
                if worker in self._promised:
                    self._back.setdefault(worker, []).append(each.at)
                else:
                    self._promised[worker] = each.at, data["bytes"]
                    self._workers[worker] = each.event["model"]

    def judge(self, happened: list[Happening]) -> Counter[str]:
        """How many refusals there were, by cause. Those that could have been avoided are violations."""
        causes: Counter[str] = Counter()
        gpus = [Gpu(mib * MIB) for mib in self._schedule.gpus_mib]
        for each in happened:
            if each.what == REFUSED:
                cause, why = self._cause(each, gpus[each.gpu])
                causes[cause] += 1
                self._record.note("driver", f"{each!r}: {cause} ({why})", at=each.at_ns / 1e9)
                if cause == AVOIDABLE:
                    self._record.violation(f"out of memory, and it could have been avoided: {each!r} ({why})")
            gpus[each.gpu].apply(each)
        return causes

    def _cause(self, refused: Happening, gpu: Gpu) -> tuple[str, str]:
        at, name = refused.at_ns / 1e9, f"gpu{refused.gpu}"
        if is_stranger(refused.pid):
            return NOT_OURS, "a stranger"
        over = refused.used + refused.bytes - gpu.total
        admissions = self._admissions[refused.gpu]
        last = bisect_left(admissions, at) - 1
        admitted = admissions[last] if last >= 0 else self._record.began
        late = gpu.late(admitted - self._sample_s)
        beyond: Counter[str] = Counter()
        words = []
        for pid in {*gpu.held, refused.pid}:
            needs = gpu.of(pid) + (refused.bytes if pid == refused.pid else 0)
            if is_stranger(pid) or not needs:
                continue
            # What it had for long by then had been seen, and was counted whether it was booked or not.
            seen = gpu.of(pid, before=admitted - self._sample_s)
            booked = max(seen, self._booked(pid, name, refused.gpu, admitted))
            who = self._roll[pid][0] if pid in self._roll else "a program"
            words.append(f"{who} (pid {pid}) {needs >> 20} of {booked >> 20} MiB")
            if needs > booked:
                beyond[self._why_beyond(pid)] += needs - booked
        why = f"{over >> 20} MiB short, {at - admitted:.2f} s after the last admission; strangers took {late >> 20}; "
        why += "; ".join(words)
        if late >= over:
            return STRANGER, why
        if late + sum(beyond.values()) < over:
            return AVOIDABLE, why
        return (beyond.most_common(1)[0][0]), why

    def _why_beyond(self, pid: int) -> str:
        if pid in self._programs:
            return PROGRAM
        return LEARNED if self._schedule.model(self._roll[pid][0]).is_honest else FIRST

    def _booked(self, pid: int, device: str, gpu: int, at: float) -> int:
        """What was booked for a process on a device then, as far as was seen: the least that it can have been."""
        if pid in self._programs:
            reserved_gpu, n = self._programs[pid]
            return n if reserved_gpu == gpu else 0
        snapshots = self._record.snapshots
        after = bisect_left(snapshots, at, key=lambda snapshot: snapshot.asked)
        worker = self._worker(pid, at)
        if worker is None:
            return 0
        admitted, promise = self._promised.get(worker, (float("-inf"), {}))
        if abs(admitted - at) < SAME_S:
            return promise.get(device, 0)
        near = [after] if any(abs(back - at) < SAME_S for back in self._back.get(worker, [])) else [after - 1, after]
        found = [snapshots[i].workers.get(worker) for i in near if 0 <= i < len(snapshots)]
        seen = [int(shown["bookedBytes"].get(device, 0)) for shown in found if shown is not None]
        return min(seen, default=promise.get(device, 0))

    def _worker(self, pid: int, at: float) -> str | None:
        """The worker of a process: as it was shown, or else the last of its model that was admitted by then, or the
        next one, as events may come late."""
        name, main = self._roll[pid]
        for snapshot in reversed(self._record.snapshots):
            for worker, shown in snapshot.workers.items():
                if shown["pid"] == main:
                    return worker
        names = self._schedule.model(name).names
        ours = {w: self._promised[w][0] for w, model in self._workers.items() if model in names}
        before = [worker for worker, admitted in ours.items() if admitted <= at + SAME_S]
        after = [worker for worker, admitted in ours.items() if at + SAME_S < admitted <= at + LATER_S]
        return (before or [None])[-1] or (after or [None])[0]
