"""Requests that the core is to answer: a number each, and who waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from time import monotonic
from typing import Any

from lazyd.core.answers import Outcome, Refusal
from lazyd.core.effects import Answer, Progress
from lazyd.core.events import Cancel, Event
from lazyd.errors import INTERFACE
from lazyd.varlink.call import Call

from ..driver import Driver

OnAnswer = Callable[[Outcome], None]
OnProgress = Callable[[Progress], None]


class Refused(Exception):
    """A request of the daemon's own was refused."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(repr(refusal))
        self.refusal = refusal


def deadline_of(timeout_s: float | None) -> float | None:
    """A client's time limit as the time when it ends."""
    return None if timeout_s is None else monotonic() + timeout_s


def refuse(call: Call, refusal: Outcome) -> None:
    """Ends a call with the varlink error of a refusal's name; its parameters are the refusal itself."""
    call.fail(f"{INTERFACE}.{type(refusal).__name__}", refusal)


async def or_refuse(call: Call, work: Coroutine[Any, Any, None]) -> None:
    """Ends a call with the error of the refusal that its work ran into."""
    try:
        await work
    except Refused as refused:
        refuse(call, refused.refusal)


def as_json(value: Any) -> Any:
    """A fallback's value as it is sent; what JSON has no words for, like infinity, in lazyd's own."""
    from lazyd.wire.values import to_json  # few daemons have such

    return to_json(value)


class Requests:
    """Hands out numbers and brings each answer to the one who waits."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._last = 0
        self._waiting: dict[int, tuple[OnAnswer, OnProgress | None]] = {}

    def open(self, on_answer: OnAnswer, on_progress: OnProgress | None = None) -> int:
        """The number of a new request, which is told to the core next."""
        self._last = number = self._last + 1
        self._waiting[number] = (on_answer, on_progress)
        return number

    def cancel(self, number: int) -> None:
        """Nobody waits any more."""
        if self._waiting.pop(number, None) is not None:
            self._driver.tell(Cancel(request=number))

    def answer(self, effect: Answer) -> None:
        waiting = self._waiting.pop(effect.request, None)
        if waiting is not None:
            waiting[0](effect.outcome)

    def progress(self, effect: Progress) -> None:
        waiting = self._waiting.get(effect.request)
        if waiting is not None and waiting[1] is not None:
            waiting[1](effect)

    async def ask(self, event: Callable[[int], Event]) -> Outcome:
        """Asks on the daemon's own behalf. `event` gets the request's number.

        Raises:
            Refused: the core said no.
        """
        answered: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        number = self.open(lambda outcome: None if answered.done() else answered.set_result(outcome))
        self._driver.tell(event(number))
        try:
            outcome = await answered
        except asyncio.CancelledError:
            self.cancel(number)
            raise
        if isinstance(outcome, Refusal):
            raise Refused(outcome)
        return outcome
