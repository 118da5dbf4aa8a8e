"""Asking again and again what may take for ever to answer.

Each question has a thread of its own, so one that hangs stops nothing but itself. That there is no answer
is said once, and once that there is one again.
"""

from __future__ import annotations

import asyncio
import enum
import threading
from collections.abc import Callable, Coroutine
from queue import SimpleQueue
from time import monotonic
from typing import Any, Generic, TypeVar

NO_ANSWER_S = 5.0
"""So long without an answer is worth saying."""
RETRY_S = 0.5
"""How soon, at least, it is asked again after a failure."""
SILENT = "silent"
"""The kind of note that tells of no answer."""

T = TypeVar("T")

Question = Callable[[], T]
"""Blocks, in the thread. Raises `OSError` if there is no answer."""


class Asker(Generic[T]):
    """A thread that answers one question at a time. It does not keep the process from ending."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._loop = asyncio.get_running_loop()
        self._questions: SimpleQueue[tuple[Question[T], Callable[[T | OSError], None]] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def ask(self, question: Question[T], hear: Callable[[T | OSError], None]) -> None:
        """`hear` gets the answer in the loop's thread, if there ever is one."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
        self._questions.put((question, hear))

    def close(self) -> None:
        self._questions.put(None)

    def _run(self) -> None:
        while (asked := self._questions.get()) is not None:
            question, hear = asked
            answer: T | OSError
            try:
                answer = question()
            except OSError as error:
                answer = error
            except Exception as error:  # a bug, or a library's: it counts as no answer, and stops nothing else
                answer = OSError(f"{type(error).__name__}: {error}")
            try:
                self._loop.call_soon_threadsafe(hear, answer)
            except RuntimeError:
                return  # the loop is closed


class _State(enum.Enum):
    RESTING = enum.auto()
    """A timer says when it is asked again."""
    ASKING = enum.auto()
    CLOSED = enum.auto()


class Repeated(Generic[T]):
    """One question, asked again after each answer.

    `compose` makes the question, in the loop; `hear` gets an answer; `pause_s` says how long until the next
    time; `note` is told of silence and its end (kind, reason). `first`, if given, is awaited before each question.
    """

    def __init__(
        self,
        name: str,
        compose: Callable[[], Question[T]],
        hear: Callable[[T], None],
        pause_s: Callable[[], float],
        note: Callable[[str, str], None],
        first: Callable[[], Coroutine[Any, Any, None]] | None = None,
    ) -> None:
        self._compose = compose
        self._hear = hear
        self._pause_s = pause_s
        self._note = note
        self._first = first
        self._loop = asyncio.get_running_loop()
        self._asker: Asker[T] = Asker(name)
        self._timer: asyncio.TimerHandle | None = None
        self._late: asyncio.TimerHandle | None = None
        self._preparing: asyncio.Task[None] | None = None
        self._state = _State.RESTING
        self._again = False
        """Somebody wants an answer to a question that is put after now."""
        self._asked = 0.0
        """When it was asked last."""
        self._silent_since: float | None = None

    @property
    def is_silent(self) -> bool:
        return self._silent_since is not None

    def now(self) -> None:
        """Puts the question now; if it is being asked, once more after the answer."""
        if self._state is not _State.RESTING:
            self._again = True
            return
        self._state, self._again, self._asked = _State.ASKING, False, monotonic()
        self._cancel_timer()
        self._late = self._loop.call_later(NO_ANSWER_S, self._too_late)
        if self._first is None:
            self._put()
        else:
            self._preparing = self._loop.create_task(self._prepare(self._first))

    def sooner(self) -> None:
        """Something has happened: the pause that is under way may be too long."""
        if self._timer is not None:
            at = self._loop.time() + self._pause_s()
            if at < self._timer.when():
                self._cancel_timer()
                self._timer = self._loop.call_at(at, self.now)

    def close(self) -> None:
        """Nothing is asked or heard any more."""
        self._state = _State.CLOSED
        self._cancel_timer()
        self._cancel_late()
        if self._preparing is not None:
            self._preparing.cancel()
        self._asker.close()

    async def _prepare(self, first: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await first()
        finally:
            if self._state is _State.ASKING:
                self._put()

    def _put(self) -> None:
        self._asker.ask(self._compose(), self._answered)

    def _answered(self, answer: T | OSError) -> None:
        if self._state is not _State.ASKING:
            return
        self._cancel_late()
        self._state = _State.RESTING
        if isinstance(answer, OSError):
            self._say_silent(f"no answer: {answer}")
        else:
            if self._silent_since is not None:
                self._note("answers again", f"after {monotonic() - self._silent_since:.0f} s")
                self._silent_since = None
            self._hear(answer)
            if self._again:
                self.now()
        if self._state is _State.RESTING:  # else who has heard it wanted another one at once
            least_s = RETRY_S if isinstance(answer, OSError) else 0.0
            self._timer = self._loop.call_later(max(self._pause_s(), least_s), self.now)

    def _too_late(self) -> None:
        self._say_silent(f"no answer for {NO_ANSWER_S:g} s")

    def _say_silent(self, reason: str) -> None:
        if self._silent_since is None:
            self._silent_since = self._asked
            self._note(SILENT, reason)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _cancel_late(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None
