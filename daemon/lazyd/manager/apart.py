"""Questions about files, which may lie on a disk that has gone and never answers.

Each has a thread of its own, so that one that hangs takes nothing from the others, and keeps neither the
loop nor the end of the process waiting. Nobody waits for it longer than `ANSWER_S`.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import TypeVar

ANSWER_S = 10.0
"""A disk that has to start turning takes several seconds."""
MOST_HANGING = 4
"""Of the same model: nobody can end a thread that hangs."""

T = TypeVar("T")


class NoAnswer(OSError):
    """`str` says it in the words in which a load fails."""


class Apart:
    """Asks, and knows which questions hang."""

    def __init__(self) -> None:
        self._hanging: dict[str, int] = {}
        """How many have had no answer in time, and have none yet, by what they are about."""

    async def ask(self, about: str, question: Callable[[], T]) -> T:
        """What `question` returns, or raises.

        Raises:
            NoAnswer: there is none within `ANSWER_S`, or too many are missing already.
        """
        if self._hanging.get(about, 0) >= MOST_HANGING:
            raise NoAnswer("its files do not answer: the last questions still wait")
        answer = _begun(question)
        await asyncio.wait([answer], timeout=ANSWER_S)
        if answer.done():
            return answer.result()
        self._hanging[about] = self._hanging.get(about, 0) + 1
        answer.add_done_callback(lambda _: self._has_answered(about))
        raise NoAnswer(f"its files do not answer: nothing came for {ANSWER_S:g} s")

    def _has_answered(self, about: str) -> None:
        self._hanging[about] -= 1
        if not self._hanging[about]:
            del self._hanging[about]


def _begun(question: Callable[[], T]) -> asyncio.Future[T]:
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[T] = loop.create_future()
    answer.add_done_callback(lambda done: done.exception())  # perhaps nobody waits for it any more

    def run() -> None:
        try:
            result = question()
        except Exception as error:
            settle(answer.set_exception, error)
        else:
            settle(answer.set_result, result)

    def settle(how: Callable[..., None], what: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(how, what)

    threading.Thread(target=run, name="apart", daemon=True).start()
    return answer
