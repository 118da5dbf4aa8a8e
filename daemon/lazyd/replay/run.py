"""Plays a history: every use asks for its model when it did, calls it as long as it did, and goes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Sequence

from lazyd.core import answers, effects, events
from lazyd.core.spec import Config

from .course import Course
from .facts import Facts, Use
from .machine import Machine
from .outcome import Outcome

HEAD_S = 600.0
"""The machine is started so long before the first use: residents are there by then."""
QUIET_S = 3600.0
"""What is held after the last use is counted for so long."""
TELL_EVERY = 200
"""Uses from one word about progress to the next."""


class Run:
    """One history under one configuration. `on_progress` is told the part that is done."""

    def __init__(
        self,
        config: Config,
        facts: Facts,
        on_progress: Callable[[float], object] = lambda _: None,
        *,
        pins: Collection[str] = (),
    ) -> None:
        self._config = config
        self._facts = facts
        self._on_progress = on_progress
        self._pins = pins
        self._outcome = Outcome(
            held_byte_s={device.name: 0.0 for device in facts.devices},
            most_bytes={device.name: 0 for device in facts.devices},
        )
        self._asked: dict[int, Use] = {}

    def play(self, uses: Sequence[Use]) -> Outcome:
        """What comes of it. Uses of models that the configuration does not have are refused, as they would be."""
        outcome = self._outcome
        if not uses:
            return outcome
        ordered = sorted(uses, key=lambda use: use.began)
        self._first, end = ordered[0].began, ordered[-1].began + QUIET_S
        outcome.course = Course.between(self._first, end)
        self._machine = machine = Machine(
            self._config,
            self._facts,
            began=self._first - HEAD_S,
            pins=self._pins,
            on_answer=self._answered,
            on_note=self._note,
            on_held=self._hold,
        )
        numbers = itertools.count(1)
        for done, use in enumerate(ordered):
            machine.until(use.began)
            number = next(numbers)
            self._asked[number] = use
            machine.tell(events.Get(request=number, model=use.model, holder=0))
            if done % TELL_EVERY == 0:
                self._on_progress(done / len(ordered))
        machine.until(end)
        machine.tell(events.Tick())
        self._on_progress(1.0)
        outcome.uses = len(ordered)
        for _ in self._asked:
            outcome.refuse("Timeout")
        self._asked.clear()
        outcome.span_s = machine.now - self._first
        return outcome

    def _answered(self, request: int, outcome: answers.Outcome) -> None:
        use = self._asked.pop(request)
        if isinstance(outcome, answers.Substituted):
            self._outcome.degraded += 1
            self._outcome.waits_s.append(outcome.waited_s)
            return
        if not isinstance(outcome, answers.Granted):
            self._outcome.refuse(type(outcome).__name__)
            return
        self._outcome.waits_s.append(outcome.waited_s)
        self._outcome.degraded += outcome.degraded is not None
        if outcome.cold_start:
            self._outcome.cold += 1
            self._outcome.course.start_cold(use.began)
        self._machine.at(self._machine.now, lambda: self._call(outcome, use))

    def _call(self, granted: answers.Granted, use: Use) -> None:
        machine = self._machine
        machine.tell(events.LeasePresented(worker=granted.worker, lease=granted.lease))
        machine.tell(events.LeaseBusy(worker=granted.worker, lease=granted.lease))
        machine.at(machine.now + use.busy_s, lambda: self._end(granted))

    def _end(self, granted: answers.Granted) -> None:
        machine = self._machine
        machine.tell(events.LeaseIdle(worker=granted.worker, lease=granted.lease))
        machine.tell(events.LeaseClosed(worker=granted.worker, lease=granted.lease))
        name = f"{granted.model}:{granted.version}" if granted.version else granted.model
        machine.idle(granted.worker, name)

    def _hold(self, begin: float, end: float) -> None:
        """As much as the ledger says was booked for so long."""
        begin = max(begin, self._first)
        if end <= begin:
            return
        outcome, total = self._outcome, 0
        for name, device in self._machine.core.world.ledger.devices.items():
            booked = device.booked_bytes
            if booked and name in outcome.held_byte_s:
                outcome.held_byte_s[name] += booked * (end - begin)
                outcome.most_bytes[name] = max(outcome.most_bytes[name], booked)
                total += booked
        if total:
            outcome.course.hold(begin, end, total)

    def _note(self, effect: effects.Note) -> None:
        counted = self._outcome
        match effect.kind:
            case "ready":
                counted.loads += effect.reason is None
            case "evicted":
                counted.evictions += 1
            case "prewarm":
                counted.prewarms += 1
            case "not used":
                counted.wrong += 1
            case _:
                pass
