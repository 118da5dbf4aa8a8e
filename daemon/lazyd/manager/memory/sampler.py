"""One device, sampled as often as the core wants, and told to it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from time import monotonic
from typing import Protocol

import msgspec

from lazyd.core.events import DeviceLost, DeviceSeen, Event
from lazyd.devices.ram import NAME as RAM
from lazyd.devices.ram import Ram
from lazyd.devices.source import DeviceGone, Sample, Source

from ..processes.workers import Workers
from .asking import Question, Repeated
from .holders import Holdings, below, by_holder, private_bytes, tree

MEASURE_S = 0.3
"""How long the host may take to measure its workers. The core waits 0.5 s for a sample."""
LOST_S = 5.0
"""How soon a device that is lost is looked at again."""


class Reserved(Protocol):
    """What is to be known of a reservation."""

    @property
    def device(self) -> str: ...

    @property
    def pid(self) -> int:
        """The parent of the program that it is for."""


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """What a sampler asks, and whom it tells."""

    workers: Workers
    tell: Callable[[Event], None]
    pace_s: Callable[[str], float]
    """How soon the next sample of a device is wanted."""
    reservations: Callable[[], Mapping[str, Reserved]]
    note: Callable[[str, str, str], None]
    """Told of devices that do not answer: kind, device, reason."""
    on_stranger: Callable[[], None] = lambda: None
    """A process has come up on a GPU that is nobody's, as far as one knows."""


class Look(msgspec.Struct, frozen=True):
    """A sample, with what only ``/proc`` knows."""

    sample: Sample
    trees: dict[str, list[int]]
    """The processes of each reservation on the device, of a GPU those that it shows."""
    private_bytes: dict[str, int]
    """What they hold of RAM."""


def look(source: Source, name: str, reservations: Mapping[str, int]) -> Look | DeviceGone:
    """One look at a device, in its thread. `reservations` are those on it, with the pid of the program's parent."""
    try:
        sample = source.sample(name)
    except DeviceGone as gone:
        return gone
    if name != RAM:
        return Look(sample, below(sample.processes, reservations), {})
    trees = {reservation: tree(pid) for reservation, pid in reservations.items()}
    return Look(sample, trees, {reservation: private_bytes(pids) for reservation, pids in trees.items()})


def seen(sample: Sample, holdings: Holdings | None = None) -> DeviceSeen:
    """A sample as the core is told of it. Without holdings: nothing of ours is known yet."""
    holdings = holdings or by_holder(sample.processes, {})
    return DeviceSeen(
        name=sample.name,
        kind=sample.kind,
        total_bytes=sample.total_bytes,
        used_bytes=sample.used_bytes,
        begun=sample.begun,
        held_bytes=holdings.held_bytes,
        listed_bytes=holdings.listed_bytes,
        alone=sample.alone,
        uuid=sample.uuid,
        label=sample.label,
        temperature_c=sample.temperature_c,
        power_w=sample.power_w,
    )


class Sampler:
    """A GPU. `now`, `sooner` and `close` are those of `Repeated`."""

    def __init__(self, name: str, source: Source, around: Surroundings) -> None:
        self._name = name
        self._source = source
        self._around = around
        self._is_lost = False
        self._has_answered = False
        self.strangers: Mapping[int, int] = {}
        """Bytes by process id, of those that are nobody's, as the device showed them last."""
        self._repeated: Repeated[Look | DeviceGone] = Repeated(
            name,
            self._question,
            self._hear,
            self._pause_s,
            lambda kind, reason: around.note(kind, name, reason),
            self._first,
        )
        self.now = self._repeated.now
        self.sooner = self._repeated.sooner
        self.close = self._repeated.close

    @property
    def works(self) -> bool:
        return not self._is_lost and not self.is_silent

    @property
    def is_silent(self) -> bool:
        return self._repeated.is_silent

    @property
    def is_known(self) -> bool:
        """It has been seen, or it is known that it does not answer."""
        return self._has_answered or self.is_silent

    @property
    def is_unseen(self) -> bool:
        """It has never been seen, as it does not answer."""
        return self.is_silent and not self._has_answered

    async def _first(self) -> None:
        """What is done before each look."""

    def _question(self) -> Question[Look | DeviceGone]:
        here = {name: r.pid for name, r in self._around.reservations().items() if r.device == self._name}
        return functools.partial(look, self._source, self._name, here)

    def _pause_s(self) -> float:
        return LOST_S if self._is_lost else self._around.pace_s(self._name)

    def _hear(self, answer: Look | DeviceGone) -> None:
        self._has_answered = True
        if isinstance(answer, Look):
            self._is_lost = False
            self._tell(answer)
        elif not self._is_lost:
            self._is_lost = True
            self._around.tell(DeviceLost(name=self._name, reason=str(answer)))

    def _tell(self, answer: Look) -> None:
        # A worker may be below a program that has reserved: the one that has started lazyd, say.
        holdings = by_holder(answer.sample.processes, {**answer.trees, **self._around.workers.processes()})
        if holdings.strangers - self.strangers.keys():
            self._around.on_stranger()
        self.strangers = {pid: answer.sample.processes[pid] for pid in holdings.strangers}
        self._around.tell(seen(answer.sample, holdings))


class RamSampler(Sampler):
    """RAM. It is read after the host has measured its workers, which by then hold no less."""

    def __init__(self, ram: Ram, around: Surroundings) -> None:
        super().__init__(RAM, ram, around)
        self._begun = 0.0

    async def _first(self) -> None:
        self._begun = monotonic()
        await self._around.workers.measure(MEASURE_S)

    def _tell(self, answer: Look) -> None:
        held = {worker: measured.get(RAM, 0) for worker, measured in self._around.workers.measured.items()}
        sample = msgspec.structs.replace(answer.sample, begun=self._begun)
        self._around.tell(seen(sample, Holdings({**held, **answer.private_bytes})))
