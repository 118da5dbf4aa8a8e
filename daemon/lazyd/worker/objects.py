"""One loaded object and its thread: it loads, runs calls one after the other, parks and comes back, and closes.

A family's worker has one of these for each member. The I/O loop hears of it through callbacks
that run in the loop's thread.
"""

from __future__ import annotations

import ctypes
import enum
import functools
import inspect
import os
import queue
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

from ..errors import NoSuchMethod
from ..runtimes import CallCancelled, LoadAborted
from .allocator import give_back_memory
from .calls import Call, one_line, traceback_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Protocol

    from ..runtimes import LoadedModel, Parkable, Progress
    from .loop import Loop

    class Watcher(Protocol):
        """Is told, in the loop's thread, what becomes of an object."""

        def progressed(self, model: str, phase: str, fraction: float | None) -> None: ...
        def loaded(self, model: str, parks: bool) -> None: ...
        def parked(self, model: str) -> None: ...
        def park_failed(self, model: str, reason: str, trace: str) -> None: ...
        def failed(self, model: str, reason: str, trace: str, *, out_of_memory: bool) -> None: ...
        def ran_out(self, model: str) -> None: ...
        def closed(self, model: str) -> None: ...


PROGRESS_PAUSE_S = 0.1
"""Progress is told at most so often."""
POLITE_ABORT_S = 0.5
"""A load that does not look whether it is still wanted is interrupted after this time."""


class _Order(enum.Enum):
    """What a thread is to do, apart from calls."""

    PARK = "park"
    UNPARK = "unpark"
    CLOSE = "close"


class ModelThread:
    """Holds one object from the start of its load until it is closed.

    `closed` is the last that is told of it, or `failed`; then the thread has ended.
    """

    def __init__(
        self,
        key: str,
        load: Callable[[Progress], LoadedModel],
        out_of_memory: Callable[[BaseException], bool],
        loop: Loop,
        watcher: Watcher,
    ) -> None:
        self.key = key
        self._context = _client_context()
        self.lease_in_environment = False
        self._load = load
        self._is_of_memory = out_of_memory
        self._loop = loop
        self._watcher = watcher
        self._orders: queue.SimpleQueue[Call | _Order] = queue.SimpleQueue()
        self._unwanted = False
        self._loading = True
        self._told = (0.0, "")
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._live, name=key, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def submit(self, call: Call) -> None:
        """Runs the call after those submitted before."""
        self._orders.put(call)

    def park(self) -> None:
        """Has the object give back its device memory: `parked` or `park_failed` follows."""
        self._orders.put(_Order.PARK)

    def unpark(self) -> None:
        """Has it load again: `loaded` or `failed` follows, as for a load."""
        self._told, self._loading = (0.0, ""), True
        self._orders.put(_Order.UNPARK)

    def close(self) -> None:
        """Closes the object after what was ordered before; ends its load, or way back, if that is under way."""
        self._unwanted = True
        self._orders.put(_Order.CLOSE)
        if self._loading:
            self._loop.after(POLITE_ABORT_S, self._interrupt)

    # In the object's own thread.

    def _live(self) -> None:
        failure: BaseException | None = None
        model: LoadedModel | None = None
        try:
            model = self._ready(lambda: self._load(self._progress))
            while (order := self._orders.get()) is not _Order.CLOSE:
                if order is _Order.PARK:
                    self._park(model)
                elif order is _Order.UNPARK:
                    self._ready(functools.partial(self._unpark, model))
                elif order.claim():
                    self._run(model, order)
                del order  # an idle object keeps no one's arrays
        except LoadAborted:
            pass
        except BaseException as error:
            failure = error
        if model is not None:
            self._close(model)
            del model
        give_back_memory()
        if failure is None or self._unwanted:
            self._tell(self._watcher.closed, self.key)
        else:
            of_memory = self._is_of_memory(failure)
            self._tell(
                self._watcher.failed, self.key, one_line(failure), traceback_of(failure), out_of_memory=of_memory
            )

    def _ready(self, load: Callable[[], LoadedModel]) -> LoadedModel:
        """Loads, which may be interrupted as long as it lasts, and tells so."""
        try:
            model = load()
        finally:
            self._end_of_load()
        give_back_memory()
        if not self._unwanted:
            self._tell(self._watcher.loaded, self.key, bool(getattr(model, "parks", False)))
        return model

    def _park(self, model: LoadedModel) -> None:
        try:
            cast("Parkable", model).park()
        except BaseException as error:
            self._tell(self._watcher.park_failed, self.key, one_line(error), traceback_of(error))
        else:
            self._tell(self._watcher.parked, self.key)

    def _unpark(self, model: LoadedModel) -> LoadedModel:
        self._progress("unparking")
        cast("Parkable", model).unpark()
        return model

    def _close(self, model: LoadedModel) -> None:
        try:
            model.close()
        except BaseException as error:
            print(f"closing {self.key}: {one_line(error)}", flush=True)

    def _progress(self, phase: str, fraction: float | None = None) -> None:
        if self._unwanted:
            raise LoadAborted
        now = time.monotonic()
        last, last_phase = self._told
        if phase != last_phase or now - last >= PROGRESS_PAUSE_S:
            self._told = (now, phase)
            self._tell(self._watcher.progressed, self.key, phase, fraction)

    def _run(self, model: LoadedModel, call: Call) -> None:
        with _CallContext(self, call):
            try:
                self._answer(model, call)
            except CallCancelled:
                call.error(call.cancelled_error())
            except NoSuchMethod as error:
                call.error(error)
            except BaseException as error:
                if self._is_of_memory(error):
                    self._tell(self._watcher.ran_out, self.key)
                call.failed(error)

    def _answer(self, model: LoadedModel, call: Call) -> None:
        if call.method not in model.methods():
            raise NoSuchMethod(model=self.key, method=call.method)
        args, kwargs = call.arguments()
        result = model.call(call.method, args, kwargs, stream=call.stream, cancelled=call.cancelled)
        del args, kwargs
        if not isinstance(result, Iterator):
            _look(call)
            call.result(result)
        elif call.stream:
            call.last_piece(_each(result, call, call.piece))
        else:
            pieces: list[Any] = []
            last = _each(result, call, pieces.append)
            call.result(pieces if last is None else [*pieces, last])

    def _tell(self, tell: Callable[..., None], *args: Any, **named: Any) -> None:
        self._loop.soon(lambda: tell(*args, **named))

    # The end of a load that nobody wants.

    def _interrupt(self) -> None:
        """Raises `LoadAborted` in model code that does not report progress. Native code ends first."""
        with self._lock:
            if self._loading and self._thread.ident is not None:
                _raise_in(self._thread.ident, LoadAborted)

    def _end_of_load(self) -> None:
        with self._lock:
            self._loading = False
            _raise_in(threading.get_ident(), None)


class _CallContext:
    """Model code that calls models asks under the lease of its own call, and within its time limit."""

    def __init__(self, thread: ModelThread, call: Call) -> None:
        self.context, self.in_environment = thread._context, thread.lease_in_environment
        self.lease, self.deadline = call.lease.id, call.deadline

    def __enter__(self) -> None:
        if self.context is not None:
            self.context.current_lease.set(self.lease)
            self.context.current_deadline.set(self.deadline)
        if self.in_environment:
            os.environ["LAZYD_LEASE"] = self.lease

    def __exit__(self, *_: object) -> None:
        if self.context is not None:
            self.context.current_lease.set(None)
            self.context.current_deadline.set(None)
        if self.in_environment:
            os.environ.pop("LAZYD_LEASE", None)


def _client_context() -> ModuleType | None:
    """Where the client library looks for the call within which it is used, if it is there at all."""
    try:
        from ..client import context
    except ImportError:
        return None
    return context


def _each(pieces: Iterator[Any], call: Call, take: Callable[[Any], None]) -> Any:
    """Takes each piece; what the iterator returned at its end. Raises `CallCancelled`."""
    try:
        while True:
            _look(call)
            try:
                piece = next(pieces)
            except StopIteration as end:
                return end.value
            _look(call)
            take(piece)
    finally:
        if inspect.isgenerator(pieces):
            pieces.close()


def _look(call: Call) -> None:
    if call.cancelled():
        raise CallCancelled


def _raise_in(thread: int, kind: type[BaseException] | None) -> None:
    """Raises an exception in another thread, at its next step in Python code; None takes it back."""
    python = getattr(ctypes, "pythonapi", None)  # CPython alone has it; elsewhere the host's kill must do
    if python is not None:
        python.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(kind) if kind else None)
