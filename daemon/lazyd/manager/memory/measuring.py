"""What memory there is and who uses it: all devices, each sampled as often as the core wants.

Every device is sampled in a thread of its own, and GPUs are looked for in another, so that a driver that hangs
stops nothing but its device. One more hears from the kernel when memory is short.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import threading
import time
from collections.abc import Mapping

import msgspec

from lazyd.core.effects import Sample
from lazyd.core.events import DriverSilent, Event, MemoryPressure
from lazyd.devices.first_look import FirstLook
from lazyd.devices.pressure import stalls
from lazyd.devices.ram import NAME as RAM
from lazyd.devices.ram import Ram
from lazyd.devices.source import Source

from .asking import SILENT, Question, Repeated
from .sampler import RamSampler, Sampler, Surroundings

ABSENT_S = 60.0
FIND_S = 15.0
MISSING_S = 5.0
"""How often GPUs are looked for where there are none, where all work, and while one or the driver does not."""
SOON_S = 0.05
"""What happens to workers changes how soon samples are wanted; it is looked at no more often than this."""
SEEN_S = 10.0
"""So long after the start a load that may use GPUs waits for the first look at them."""
LISTEN_AGAIN_S = 60.0
"""How soon the kernel is asked again after it has said that it does not tell of pressure."""
DRIVER = "NVIDIA driver"
REMEDY = (
    "its GPUs are used as soon as it answers: see what nvidia-smi says, and restart the machine after an upgrade of it"
)


class Measuring:
    """`first` is the first look at the GPUs, which began before the loop ran."""

    def __init__(self, ram: Ram, gpus: Source, around: Surroundings, first: FirstLook | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self._ram = ram
        self._gpus = gpus
        self._first = first
        self._around = msgspec.structs.replace(
            around, on_stranger=self._stranger, note=self._say_of_device, tell=self._say
        )
        self._note, self._tell = around.note, around.tell
        self._samplers: dict[str, Sampler] = {}
        self.named: list[str] | None = None
        """The GPUs that the driver has named, also those that do not answer; None: it has not said yet."""
        self._finder = Repeated(DRIVER, self._names, self._found, self._find_s, self._say_of_driver)
        self._stirred = False
        self.seen: asyncio.Future[None] = self._loop.create_future()
        """Done when all GPUs have been seen, or are known not to answer; within `SEEN_S` of the start."""
        self.warnings: list[str] = []
        """What is wrong with the driver as a whole, in a line."""
        self._problem: str | None = None
        """Why there may be GPUs that nobody has seen, as the core was told."""

    def start(self) -> None:
        self._add(RAM, RamSampler(self._ram, self._around))
        self._finder.now()
        self._loop.call_later(SEEN_S, self._all_are_seen)
        threading.Thread(target=self._listen, name="pressure", daemon=True).start()

    def close(self) -> None:
        self._finder.close()
        for sampler in self._samplers.values():
            sampler.close()

    def sample(self, wish: Sample) -> None:
        """A sample begun after this is wanted, now (an effect)."""
        sampler = self._samplers.get(wish.device)
        if sampler is not None:
            sampler.now()

    def stir(self) -> None:
        """Something has happened to a worker that may make samples urgent: a call has begun, say. Costs next to
        nothing, however often it is called."""
        if not self._stirred:
            self._stirred = True
            self._loop.call_later(SOON_S, self._sooner)

    def _sooner(self) -> None:
        self._stirred = False
        for sampler in self._samplers.values():
            sampler.sooner()

    def _stranger(self) -> None:
        """Perhaps it is a new process of a worker's: the host knows."""
        self._samplers[RAM].now()

    def _add(self, name: str, sampler: Sampler) -> None:
        self._samplers[name] = sampler
        sampler.now()

    async def until_seen(self) -> None:
        """Returns when `seen` is done."""
        await asyncio.shield(self.seen)

    @property
    def strangers(self) -> Mapping[str, Mapping[int, int]]:
        """By device: bytes of each process that is nobody's, as far as the driver shows them."""
        return {name: sampler.strangers for name, sampler in self._samplers.items()}

    @property
    def silent(self) -> list[str]:
        """The devices that do not answer, whether the core has asked for them or not."""
        return [name for name, sampler in self._samplers.items() if sampler.is_silent]

    # Looking for GPUs.

    def _names(self) -> Question[list[str]]:
        return functools.partial(names, self._gpus, self._first)

    def _found(self, found: list[str]) -> None:
        self.named = found
        for name in found:
            if name not in self._samplers:
                self._add(name, Sampler(name, self._gpus, self._around))
        self._look_whether_all_are_seen()

    def _look_whether_all_are_seen(self) -> None:
        if self._finder.is_silent or (self.named is not None and all(map(self._is_known, self.named))):
            self._all_are_seen()

    def _all_are_seen(self) -> None:
        if not self.seen.done():
            self.seen.set_result(None)

    def _is_known(self, name: str) -> bool:
        return self._samplers[name].is_known

    def _find_s(self) -> float:
        if self._finder.is_silent or not all(sampler.works for sampler in self._samplers.values()):
            return MISSING_S
        return FIND_S if len(self._samplers) > 1 else ABSENT_S

    # What samplers and the search for GPUs say.

    def _say(self, event: Event) -> None:
        self._tell(event)
        if self._problem is not None:
            self._tell_of_unseen()
        if not self.seen.done():
            self._look_whether_all_are_seen()

    def _say_of_driver(self, kind: str, reason: str) -> None:
        self.warnings = [f"{DRIVER}: {reason.rstrip('.')}; {REMEDY}"] if kind == SILENT else []
        self._note(kind, DRIVER, reason)
        self._tell_of_unseen()
        self._look_whether_all_are_seen()

    def _say_of_device(self, kind: str, device: str, reason: str) -> None:
        self._note(kind, device, reason)
        self._tell_of_unseen()
        self._look_whether_all_are_seen()
        self._finder.sooner()  # one that does not answer may have been taken out

    def _tell_of_unseen(self) -> None:
        """Tells the core that there may be GPUs which nobody has seen, or that there are no such any more. To be called
        before `seen` is done: who waits for that is refused for a reason."""
        unseen = [name for name, sampler in self._samplers.items() if sampler.is_unseen]
        problem = next(iter(self.warnings), f"{DRIVER}: no answer for {', '.join(unseen)}" if unseen else None)
        if problem != self._problem:
            self._problem = problem
            self._tell(DriverSilent(reason=problem))

    # Hearing of pressure, in a thread.

    def _listen(self) -> None:
        while not self._loop.is_closed():
            with contextlib.suppress(OSError):
                for _ in stalls(self._ram.pressure_file()):
                    if self._loop.is_closed():
                        return
                    self._loop.call_soon_threadsafe(self._around.tell, MemoryPressure())
            time.sleep(LISTEN_AGAIN_S)  # it does not tell, or the cgroup has made way for another


def names(source: Source, first: FirstLook | None) -> list[str]:
    """The devices of a source, after the first look has named them: the source is asked by one at a time."""
    if first is not None:
        first.until_named()
    return source.names()
