"""Shadow traffic: calls that were answered here are repeated on another model, and the answers compared.

A name may have a shadow (docs/versions.md). A call by it is answered first; then a thread of this process makes the
same call of the shadow, like any client and without hurry, and throws the answer away. Nobody waits for that: only a
model that is ready is called, at most `MOST_WAITING` calls wait to be repeated, and what is one too many, or larger
than `MOST_BYTES`, is skipped and counted. Streams are not repeated.
"""

from __future__ import annotations

import queue
import sys
import threading
from typing import TYPE_CHECKING, Any

from ..errors import CallFailed, LazydError, NoSuchMethod, Timeout, WorkerDied
from ..wire import values
from .alike import alike

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..client import Client
    from ..wire.values import Buffer
    from .calls import Call

    Tell = Callable[[str, str, dict[str, int]], None]
    """Of a name and its shadow: how many calls were ``equal``, ``different``, ``failed`` and ``skipped``."""

MOST_WAITING = 64
MOST_BYTES = 16 * 1024 * 1024
"""Of the arrays of a call, and of those of its answer."""
LIMIT_S = 60.0
"""For one repeated call."""
FAILURES = (CallFailed, NoSuchMethod, Timeout, WorkerDied)
"""The shadow's own. What else goes wrong says nothing of it."""


class Repeat:
    """A call that is to be repeated once it is answered."""

    def __init__(self, shadows: Shadows, call: Call) -> None:
        self._shadows = shadows
        self.name = str(call.lease.route)
        self.shadow = str(call.lease.shadow)
        self.method = call.method
        self.arguments, self.buffers = call.as_received()
        self.answer: Any = None

    def answered(self, result: Any) -> None:
        """In the model's thread, when its client has the answer, whose memory may be used again afterwards."""
        packed, buffers = values.pack(result)
        if max(_bytes(self.buffers), _bytes(buffers)) > MOST_BYTES:
            self._shadows.skip(self)
        else:
            self.answer = values.unpack(packed, [bytes(data) for data in buffers])
            self._shadows.put(self)


class Shadows:
    """All calls of a worker that are to be repeated. `tell` may be called in any thread."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._waiting: queue.Queue[Repeat] = queue.Queue(MOST_WAITING)
        self._thread: threading.Thread | None = None
        self._client: Client | None = None

    def repeat(self, call: Call) -> Repeat | None:
        """What is to be done with a call when it is answered; None: nothing."""
        return Repeat(self, call) if call.lease.shadow is not None and not call.stream else None

    def put(self, repeat: Repeat) -> None:
        """It is repeated when its turn comes."""
        try:
            self._waiting.put_nowait(repeat)
        except queue.Full:
            self.skip(repeat)
        else:
            if self._thread is None:
                self._thread = threading.Thread(target=self._live, name="shadows", daemon=True)
                self._thread.start()

    def skip(self, repeat: Repeat) -> None:
        """It is not repeated."""
        self._tell(repeat.name, repeat.shadow, {"skipped": 1})

    # In its own thread.

    def _live(self) -> None:
        from ..client.context import NOT_NESTED, current_lease

        current_lease.set(NOT_NESTED)
        while True:
            repeat = self._waiting.get()
            try:
                outcome = self._make(repeat)
            except BaseException as error:
                print(f"a call could not be repeated on {repeat.shadow}: {error!r}", file=sys.stderr, flush=True)
                outcome = "skipped"
            self._tell(repeat.name, repeat.shadow, {outcome: 1})
            del repeat  # an idle thread keeps no one's arrays

    def _make(self, repeat: Repeat) -> str:
        """Repeats a call; what has come of it."""
        if self._client is None:
            from ..client import connect

            self._client = connect()
        try:
            if not self._client.is_ready(repeat.shadow):
                return "skipped"
            args, kwargs = unpacked(repeat.arguments, repeat.buffers)
            answer = self._client.answer(repeat.shadow, repeat.method, args, kwargs, timeout=LIMIT_S)
        except FAILURES:
            return "failed"
        except LazydError:
            return "skipped"
        if answer.degraded is not None:
            return "skipped"
        return "equal" if alike(repeat.answer, answer.result) else "different"


def unpacked(arguments: tuple[Any, Any], buffers: Sequence[Buffer]) -> tuple[list[Any], dict[str, Any]]:
    """Positional and keyword arguments as they came. Raises `BadFrame`."""
    args, kwargs = arguments
    return values.unpack(args, buffers), {name: values.unpack(value, buffers) for name, value in kwargs.items()}


def _bytes(buffers: Sequence[Buffer]) -> int:
    return sum(memoryview(data).nbytes for data in buffers)
