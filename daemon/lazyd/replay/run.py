"""Plays a history: every use asks for its model when it did, calls it as long as it did, and goes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

from lazyd.core import answers, effects, events
from lazyd.core.spec import Config

from .facts import GIB, Facts, Use
from .machine import Machine
from .outcome import Outcome

QUIET_S = 3600.0
"""What is held after the last use is counted for so long."""


class Run:
    """One history under one configuration. `on_progress` is told the part that is done."""

    def __init__(self, config: Config, facts: Facts, on_progress: Callable[[float], None] = lambda _: None) -> None:
        self._config = config
        self._facts = facts
        self._on_progress = on_progress
        self._outcome = Outcome()
        self._asked: dict[int, Use] = {}

    def play(self, uses: Sequence[Use]) -> Outcome:
        """Uses of models that the configuration does not have are refused, as they would be."""
        outcome = self._outcome
        if not uses:
            return outcome
        ordered = sorted(uses, key=lambda use: use.began)
        first, last = ordered[0].began, ordered[-1].began
        self._machine = machine = Machine(self._config, self._facts, self._answered, self._note, first)
        numbers = itertools.count(1)
        for done, use in enumerate(ordered):
            machine.until(use.began)
            number = next(numbers)
            self._asked[number] = use
            machine.tell(events.Get(request=number, model=use.model, holder=0))
            if done % 1000 == 0:
                self._on_progress(done / len(ordered))
        machine.until(last + QUIET_S)
        outcome.uses = len(ordered)
        outcome.refused += len(self._asked)
        outcome.span_s = machine.now - first
        outcome.held_gib_h = machine.held_byte_s / GIB / 3600
        return outcome

    def _answered(self, request: int, outcome: answers.Outcome) -> None:
        use = self._asked.pop(request)
        if not isinstance(outcome, answers.Granted):
            self._outcome.refused += 1
            return
        self._outcome.waits_s.append(outcome.waited_s)
        if outcome.cold_start:
            self._outcome.cold += 1
            self._outcome.cold_at.append(use.began)
        self._machine.at(self._machine.now, lambda: self._call(outcome, use))

    def _call(self, granted: answers.Granted, use: Use) -> None:
        machine = self._machine
        machine.tell(events.LeasePresented(worker=granted.worker, lease=granted.lease))
        machine.tell(events.LeaseBusy(worker=granted.worker, lease=granted.lease))
        machine.at(machine.now + use.busy_s, lambda: self._end(granted, use))

    def _end(self, granted: answers.Granted, use: Use) -> None:
        machine = self._machine
        machine.tell(events.LeaseIdle(worker=granted.worker, lease=granted.lease))
        machine.tell(events.LeaseClosed(worker=granted.worker, lease=granted.lease))
        machine.idle(granted.worker, use.model)

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
