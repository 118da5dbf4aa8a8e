"""Objects that this process has loaded itself, by name: each of them once, and the least recently used leave.

A load runs in the thread that asks for it first; the others wait for it. If it raises, all of them get what it has
raised, and the next who asks tries again. A loader may ask for other objects, but not in a circle.

What leaves is forgotten, not closed: somebody may have it in hand. Its memory is free when the last has let go of it;
who asks before that gets the same object, not a second one beside it.

A forked child keeps what was loaded. Loads that other threads of its parent had under way are none of its own.
"""

from __future__ import annotations

import collections
import contextlib
import os
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

MISSING = object()
"""Nothing is loaded."""

_lock = threading.RLock()
"""Of everything here. Nothing slow is done under it: what leaves is let go of after, as its end may take long."""
_shelves: dict[str, Shelf] = {}
_waits: dict[int, _Load] = {}
"""By thread: the load that it waits for."""


def shelf_named(name: str) -> Shelf:
    """The one shelf of this name."""
    with _lock:
        return _shelves.setdefault(name, Shelf(name))


class _Load:
    """One that is under way, and how it has ended."""

    def __init__(self) -> None:
        self.thread = threading.get_ident()
        self.over = threading.Event()
        self.result: Any = MISSING
        self.error: BaseException | None = None

    @property
    def waits_for_me(self) -> bool:
        """It cannot end before this thread goes on."""
        load: _Load | None = self
        while load is not None:
            if load.thread == threading.get_ident():
                return True
            load = _waits.get(load.thread)
        return False

    def wait(self) -> None:
        """Until it is over. Its loader must not wait for this thread."""
        try:
            self.over.wait()
        finally:
            with _lock:
                _waits.pop(threading.get_ident(), None)


class Shelf:
    """The loaded objects of one name. `maxsize` and `idle_timeout_s` may be set at any time; None: no limit."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.maxsize: int | None = None
        self.idle_timeout_s: float | None = None
        self._loaded: collections.OrderedDict[Hashable, Any] = collections.OrderedDict()
        self._left: weakref.WeakValueDictionary[Hashable, Any] = weakref.WeakValueDictionary()
        """What was idle or one too many, as long as somebody has it in hand."""
        self._used: dict[Hashable, float] = {}
        self._loads: dict[Hashable, _Load] = {}
        self._timer: threading.Timer | None = None

    def __repr__(self) -> str:
        return f"<Shelf {self.name} {list(self._loaded)}>"

    def __contains__(self, key: Hashable) -> bool:
        return key in self._loaded or key in self._left

    def find(self, key: Hashable) -> Any:
        """What is loaded, or `MISSING`. Finding it is a use."""
        with _lock:
            found, _leave = self._find(key)
        return found

    def get(self, key: Hashable, load: Callable[[], Any]) -> Any:
        """What is loaded, else what `load` makes; it is called once, however many ask. Raises what it raises."""
        while True:
            with _lock:
                found, _leave = self._find(key)
                under_way = self._loads.get(key)
                if found is MISSING and under_way is None:
                    self._loads[key] = _Load()
                elif found is MISSING and under_way is not None:
                    if under_way.waits_for_me:
                        raise RecursionError(f"the loader of {self._called(key)} asks for {self._called(key)}")
                    _waits[threading.get_ident()] = under_way
            if found is not MISSING:
                return found
            if under_way is None:
                return self._load(key, load)
            under_way.wait()
            result, error, under_way = under_way.result, under_way.error, None
            if error is None:
                return result
            if isinstance(error, Exception):  # else its thread was interrupted, and another has to load
                try:
                    raise error
                finally:
                    del error  # it has this frame: together they would stay until the garbage is collected

    def forget(self, key: Hashable = MISSING) -> None:
        """Lets go of one object, or of all."""
        with _lock:
            keys = {*self._loaded, *self._left} if key is MISSING else {key}
            _leave = [(self._left.pop(each, None), self._take(each)) for each in keys]

    def _find(self, key: Hashable) -> tuple[Any, list[Any]]:
        """With those that are too many by it."""
        found = self._loaded.get(key, MISSING)
        if found is not MISSING:
            self._note_use(key)
            return found, []
        found = self._left.pop(key, MISSING)
        return found, self._keep(key, found) if found is not MISSING else []

    def _load(self, key: Hashable, make: Callable[[], Any]) -> Any:
        try:
            made = make()
        except BaseException as error:
            self._end(key, MISSING, error)
            raise
        self._end(key, made, None)
        return made

    def _end(self, key: Hashable, result: Any, error: BaseException | None) -> None:
        with _lock:
            load = self._loads.pop(key)
            load.result, load.error = result, error
            _leave = self._keep(key, result) if error is None else []
        load.over.set()

    def _keep(self, key: Hashable, value: Any) -> list[Any]:
        """Returns those that are too many by it."""
        self._loaded[key] = value
        self._note_use(key)
        leave = []
        while self.maxsize is not None and len(self._loaded) > self.maxsize:
            leave.append(self._let_go(next(iter(self._loaded))))
        return leave

    def _let_go(self, key: Hashable) -> Any:
        """It leaves, and is found again as long as somebody has it."""
        value = self._take(key)
        with contextlib.suppress(TypeError):  # not all objects can be referred to weakly
            self._left[key] = value
        return value

    def _take(self, key: Hashable) -> Any:
        self._used.pop(key, None)
        return self._loaded.pop(key, None)

    def _note_use(self, key: Hashable) -> None:
        self._loaded.move_to_end(key)
        self._used[key] = time.monotonic()
        self._watch()

    # What nobody uses.

    def _watch(self) -> None:
        """Sets the timer to when the object that was used first will have been idle for long enough."""
        if self._timer is not None or self.idle_timeout_s is None or not self._used:
            return
        wait_s = max(0.0, min(self._used.values()) + self.idle_timeout_s - time.monotonic())
        timer = threading.Timer(wait_s, self._look)
        timer.daemon = True
        with contextlib.suppress(RuntimeError):  # no thread starts while the interpreter ends; another use tries again
            timer.start()
            self._timer = timer

    def _look(self) -> None:
        with _lock:
            self._timer = None
            if self.idle_timeout_s is None:
                return
            until = time.monotonic() - self.idle_timeout_s
            _leave = [self._let_go(key) for key, used in list(self._used.items()) if used <= until]
            self._watch()

    def _called(self, key: Hashable) -> str:
        return repr(self.name) if key is None else f"{self.name!r} for {key!r}"

    def _forked(self) -> None:
        me = threading.get_ident()
        self._loads = {key: load for key, load in self._loads.items() if load.thread == me}
        self._timer = None  # its thread is the parent's; the next use sets another


def _after_fork() -> None:
    _waits.clear()
    for shelf in _shelves.values():
        shelf._forked()
    _lock.release()


os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_after_fork)
