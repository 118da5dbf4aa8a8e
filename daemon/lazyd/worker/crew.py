"""The threads of one object: its own, and, where it answers several calls at once, helpers that only make calls.

All take from one queue. An order (park, come back, close) is put there once for each thread, so each comes to it when
its call has ended. Helpers wait at it; when all have come, the object's own thread carries it out, and they go on.
So whatever an order does to the object, no call is under way. Helpers start when they are first needed.
"""

from __future__ import annotations

import enum
import queue
import sys
import threading
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..runtimes import LoadedModel, Shared
    from .calls import Call


class Task(enum.Enum):
    """What an object's own thread is to do, apart from calls."""

    PARK = "park"
    UNPARK = "unpark"
    CLOSE = "close"


class Order:
    """A task, and the helpers that have come to it."""

    def __init__(self, task: Task, helpers: int) -> None:
        self.task = task
        self._helpers = helpers
        self._come = threading.Semaphore(0)
        self._done = threading.Event()

    def wait_for_helpers(self) -> None:
        """Until no helper is in a call."""
        for _ in range(self._helpers):
            self._come.acquire()

    def done(self) -> None:
        """Helpers go on."""
        self._done.set()

    def come(self) -> None:
        """A helper is there, and waits until the order is carried out. After the last one it ends."""
        self._come.release()
        if self.task is not Task.CLOSE:
            self._done.wait()


class Crew:
    """`run` makes a call of a model; `most` threads do so at once.

    `submit`, `ended` and `order` belong to the loop's thread, `next` and `dismiss` to the object's own.
    """

    def __init__(self, name: str, most: int, run: Callable[[LoadedModel, Call], None]) -> None:
        self.name = name
        self.run = run
        self.model: LoadedModel | None = None
        """What helpers call, or ask for one of their own: it is there before the first call."""
        self._most = most
        self._tasks: queue.SimpleQueue[Call | Order] = queue.SimpleQueue()
        self._helpers = 0
        self._calls = 0
        """Submitted, and not ended."""

    @property
    def is_idle(self) -> bool:
        """Nothing waits to be taken."""
        return self._tasks.empty()

    def submit(self, call: Call, *, occupied: bool) -> None:
        """A call for whichever thread is free first. `occupied`: the object's own may be in something else."""
        self._calls += 1
        self._tasks.put(call)
        wanted = min(self._most, self._calls + occupied)
        if 1 + self._helpers < wanted:
            self._start_helper()

    def ended(self) -> None:
        """A call has."""
        self._calls -= 1

    def order(self, task: Task) -> None:
        """For the object's own thread, after all that was submitted before."""
        order = Order(task, self._helpers)
        for _ in range(1 + self._helpers):
            self._tasks.put(order)
        if task is Task.CLOSE:
            self._helpers = 0

    def next(self) -> Call | Order:
        """Waits for what the object's own thread is to do; of an order, until no helper is in a call."""
        task = self._tasks.get()
        if isinstance(task, Order):
            task.wait_for_helpers()
        return task

    def dismiss(self) -> None:
        """The object's own thread ends, whatever was ordered: so do the helpers."""
        self.order(Task.CLOSE)

    def _start_helper(self) -> None:
        thread = threading.Thread(target=self._help, name=f"{self.name} +{self._helpers + 1}", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            print(f"{self.name} answers with {1 + self._helpers} threads: {error}", file=sys.stderr, flush=True)
            self._most = 1 + self._helpers
        else:
            self._helpers += 1

    # In a helper's thread.

    def _help(self) -> None:
        mine = _Own(self)
        while True:
            task = self._tasks.get()
            if isinstance(task, Order):
                if task.task is not Task.UNPARK:
                    mine.close()
                task.come()
                if task.task is Task.CLOSE:
                    return
            elif task.claim():
                mine.run(task)
            del task  # an idle thread keeps no one's arrays


class _Own:
    """What one helper calls: the model itself, or what it offers for one thread."""

    def __init__(self, crew: Crew) -> None:
        self._crew = crew
        self._model: LoadedModel | None = None

    def run(self, call: Call) -> None:
        try:
            if self._model is None:
                assert self._crew.model is not None
                self._model = for_thread(self._crew.model)
        except BaseException as error:
            call.failed(error)
        else:
            self._crew.run(self._model, call)

    def close(self) -> None:
        """Before the model itself is parked or closed."""
        model, self._model = self._model, None
        if model is not None and model is not self._crew.model:
            try:
                model.close()
            except BaseException as error:
                print(f"closing {self._crew.name}: {error!r}", file=sys.stderr, flush=True)


def for_thread(model: Any) -> LoadedModel:
    """What a helper calls in place of a model."""
    offer = getattr(model, "for_thread", None)
    return cast("Shared", model).for_thread() if callable(offer) else model
