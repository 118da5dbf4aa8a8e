"""One loaded object and its thread: it loads, makes calls, parks and comes back, and closes.

A family's worker has one of these for each member. Calls are made one after the other, or, where the object may
answer several at once, also by helpers (`crew`); all else is done by the object's own thread alone. The I/O loop hears
of it through callbacks that run in the loop's thread.
"""

from __future__ import annotations

import contextlib
import copy
import ctypes
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, cast

from ..errors import NoSuchMethod
from ..runtimes import CallCancelled, Cancellation, LoadAborted
from .allocator import give_back_memory
from .answering import CallContext, answer, client_context
from .calls import one_line, traceback_of
from .crew import Crew, Order, Task
from .records import Warmth
from .warmup import ASYNC, WarmupFailed

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    from ..runtimes import LoadedModel, Parkable, Progress, Runtime
    from . import warmup
    from .calls import Call
    from .loop import Loop
    from .warmup import Warmup

    class Watcher(Protocol):
        """Is told, in the loop's thread, what becomes of an object."""

        def progressed(self, model: str, phase: str, fraction: float | None) -> None: ...
        def warming(self, model: str, warmup: Warmup, runs: bool) -> None: ...
        def loaded(self, model: str, parks: bool, url: str | None, warmth: Warmth) -> None: ...
        def warmed(self, model: str, warmth: Warmth, trace: str, *, out_of_memory: bool) -> None: ...
        def parked(self, model: str) -> None: ...
        def park_failed(self, model: str, reason: str, trace: str) -> None: ...
        def failed(self, model: str, reason: str, trace: str, *, out_of_memory: bool) -> None: ...
        def ran_out(self, model: str) -> None: ...
        def closed(self, model: str) -> None: ...


PROGRESS_PAUSE_S = 0.1
"""Progress is told at most so often."""
POLITE_ABORT_S = 0.5
"""A load that does not look whether it is still wanted is interrupted after this time."""


class ModelThread:
    """Holds one object from the start of its load until it is closed.

    `closed` is the last that is told of it, or `failed`; then the thread has ended.
    """

    def __init__(
        self,
        key: str,
        load: Callable[[Progress], LoadedModel],
        runtime: Runtime,
        order: warmup.Order,
        loop: Loop,
        watcher: Watcher,
        concurrency: int = 1,
    ) -> None:
        """`order`: which warm-up is wanted; `concurrency`: how many calls are made at once."""
        self.key = key
        self._context = client_context()
        self.lease_in_environment = False
        self._load = load
        self._runtime = runtime
        self._order = order
        self._warmup: Warmup | None = None
        """What is left to be made of a warm-up beside the calls of others."""
        self._version = ""
        self._stop_warmup = Cancellation()
        self._loop = loop
        self._watcher = watcher
        self._crew = Crew(key, concurrency, self._run)
        self._unwanted = False
        self._loading = True
        self._told = (0.0, "")
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._live, name=key, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def submit(self, call: Call) -> None:
        """Makes the call when a thread is free; calls begin in the order in which they were submitted."""
        self._crew.submit(call, occupied=self._warmup is not None)

    def ended(self) -> None:
        """A call that was submitted has ended."""
        self._crew.ended()

    def park(self) -> None:
        """Has the object give back its device memory: `parked` or `park_failed` follows."""
        self._crew.order(Task.PARK)

    def unpark(self) -> None:
        """Has it load again: `loaded` or `failed` follows, as for a load."""
        self._told, self._loading = (0.0, ""), True
        self._crew.order(Task.UNPARK)

    def close(self) -> None:
        """Closes the object after what was ordered before; ends its load, or way back, if that is under way."""
        self._unwanted = True
        self._stop_warmup.cancel()
        self._crew.order(Task.CLOSE)
        if self._loading:
            self._loop.after(POLITE_ABORT_S, self._interrupt)

    # In the object's own thread.

    def _live(self) -> None:
        failure: BaseException | None = None
        model: LoadedModel | None = None
        try:
            with self._interruptible():
                model = self._load(self._progress)
                warmth = self._warm_up(model)
            self._crew.model = model
            self._tell_loaded(model, warmth)
            self._serve(model)
        except LoadAborted:
            pass
        except BaseException as error:
            failure = error
            self._crew.dismiss()
        self._warmup = self._crew.model = None
        if model is not None:
            self._close(model)
            del model
        give_back_memory()
        if failure is None or self._unwanted:
            self._tell(self._watcher.closed, self.key)
        else:
            of_memory = self._is_of_memory(failure)
            self._tell(self._watcher.failed, self.key, _reason(failure), traceback_of(failure), out_of_memory=of_memory)

    @contextlib.contextmanager
    def _interruptible(self) -> Iterator[None]:
        """Within this, `close` may interrupt it."""
        try:
            yield
        finally:
            self._end_of_load()

    def _tell_loaded(self, model: LoadedModel, warmth: Warmth) -> None:
        give_back_memory()
        if not self._unwanted:
            parks, url = bool(getattr(model, "parks", False)), getattr(model, "url", None)
            self._tell(self._watcher.loaded, self.key, parks, url, warmth)

    def _serve(self, model: LoadedModel) -> None:
        """Makes calls and carries out orders until the last."""
        while True:
            task = self._next()
            if not isinstance(task, Order):
                if task.claim():
                    self._run(model, task)
            elif task.task is Task.CLOSE:
                return
            else:
                try:
                    self._carry_out(task.task, model)
                finally:
                    task.done()
            del task  # an idle object keeps no one's arrays

    def _carry_out(self, task: Task, model: LoadedModel) -> None:
        if task is Task.PARK:
            self._warmup = None
            self._park(model)
        else:
            with self._interruptible():
                self._unpark(model)
            self._tell_loaded(model, Warmth(runtime=self._version))

    def _next(self) -> Call | Order:
        """What is to be done next. While nothing waits, the calls of a warm-up are made."""
        while self._warmup is not None and self._crew.is_idle:
            self._warm_beside(self._warmup)
        return self._crew.next()

    # Its warm-up.

    def _warm_up(self, model: LoadedModel) -> Warmth:
        """Makes all calls of a synchronous warm-up, or leaves them for later."""
        version = getattr(self._runtime, "version", None)
        self._version = version() if version is not None else ""
        if self._order.is_known(self._version):
            return Warmth("known", runtime=self._version)
        warmup = self._order.plan(model)
        if warmup is None:
            return Warmth(runtime=self._version)
        if self._order.mode == ASYNC:
            self._warmup = warmup
            return Warmth("waiting", runtime=self._version)
        while not warmup.is_over:
            self._make_call(warmup)
        return Warmth("done", warmup.spent_s, self._version)

    def _make_call(self, warmup: Warmup) -> None:
        """One call; it may be interrupted. Raises `LoadAborted`, `WarmupFailed`."""
        if self._unwanted:
            raise LoadAborted
        self._tell_warming(warmup, runs=True)
        try:
            warmup.call(self._stop_warmup)
        except CallCancelled:
            raise LoadAborted from None

    def _warm_beside(self, warmup: Warmup) -> None:
        """The next call of a warm-up beside the calls of others."""
        problem, trace, of_memory = "", "", False
        try:
            with self._lock:
                self._loading = True
            with self._interruptible():
                self._make_call(warmup)
        except LoadAborted:
            self._warmup = None
            return
        except BaseException as error:
            problem, trace, of_memory = _reason(error), traceback_of(error), self._is_of_memory(error)
        if not problem and not warmup.is_over:
            self._tell_warming(warmup, runs=False)
            return
        self._warmup = None
        warmth = Warmth("failed" if problem else "done", warmup.spent_s, self._version, problem)
        self._tell(self._watcher.warmed, self.key, warmth, trace, out_of_memory=of_memory)

    def _tell_warming(self, warmup: Warmup, *, runs: bool) -> None:
        self._tell(self._watcher.warming, self.key, copy.copy(warmup), runs)  # as it is now

    def _is_of_memory(self, error: BaseException) -> bool:
        cause = error.__cause__ if isinstance(error, WarmupFailed) else None
        return self._runtime.out_of_memory(cause or error)

    def _park(self, model: LoadedModel) -> None:
        try:
            cast("Parkable", model).park()
        except BaseException as error:
            self._tell(self._watcher.park_failed, self.key, one_line(error), traceback_of(error))
        else:
            self._tell(self._watcher.parked, self.key)

    def _unpark(self, model: LoadedModel) -> None:
        self._progress("unparking")
        cast("Parkable", model).unpark()

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
        with CallContext(self._context, call, in_environment=self.lease_in_environment):
            try:
                answer(model, call)
            except CallCancelled:
                call.error(call.cancelled_error())
            except NoSuchMethod as error:
                call.error(error)
            except BaseException as error:
                if self._is_of_memory(error):
                    self._tell(self._watcher.ran_out, self.key)
                call.failed(error)

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


def _reason(error: BaseException) -> str:
    """Why it failed, in one line."""
    return str(error) if isinstance(error, WarmupFailed) else one_line(error)


def _raise_in(thread: int, kind: type[BaseException] | None) -> None:
    """Raises an exception in another thread, at its next step in Python code; None takes it back."""
    python = getattr(ctypes, "pythonapi", None)  # CPython alone has it; elsewhere the host's kill must do
    if python is not None:
        python.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(kind) if kind else None)
