"""Objects that this process has loaded itself, by name: each of them once, and the least recently used leave.

A load runs in the thread that asks for it first; the others wait for it. If it raises, all of them get what it has
raised, and the next who asks tries again. A loader may ask for other objects, but not in a circle.

What leaves is forgotten, not closed: somebody may have it in hand. Its memory is free when the last has let go of it.

A forked child keeps what was loaded. Loads that other threads of its parent had under way are none of its own.
"""

from __future__ import annotations

import collections
import os
import threading
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

MISSING = object()
"""Nothing is loaded."""

_lock = threading.RLock()
"""Of everything here. Nothing slow is done under it."""
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


class Shelf:
    """The loaded objects of one name. `maxsize` and `idle_timeout_s` may be set at any time; None: no limit."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.maxsize: int | None = None
        self.idle_timeout_s: float | None = None
        self._loaded: collections.OrderedDict[Hashable, Any] = collections.OrderedDict()
        self._used: dict[Hashable, float] = {}
        self._loads: dict[Hashable, _Load] = {}
        self._timer: threading.Timer | None = None

    def __repr__(self) -> str:
        return f"<Shelf {self.name} {list(self._loaded)}>"

    def __contains__(self, key: Hashable) -> bool:
        return key in self._loaded

    def find(self, key: Hashable) -> Any:
        """What is loaded, or `MISSING`. Finding it is a use."""
        with _lock:
            found = self._loaded.get(key, MISSING)
            if found is not MISSING:
                self._note_use(key)
            return found

    def get(self, key: Hashable, load: Callable[[], Any]) -> Any:
        """What is loaded, else what `load` makes; it is called once, however many ask. Raises what it raises."""
        while True:
            with _lock:
                found = self.find(key)
                if found is not MISSING:
                    return found
                under_way = self._loads.get(key)
                if under_way is None:
                    mine = self._loads[key] = _Load()
                elif under_way.waits_for_me:
                    raise RecursionError(f"the loader of {self._called(key)} asks for {self._called(key)}")
                else:
                    _waits[threading.get_ident()] = under_way
            if under_way is None:
                return self._load(key, mine, load)
            if self._wait(under_way):
                return under_way.result

    def forget(self, key: Hashable = MISSING) -> None:
        """Lets go of one object, or of all."""
        with _lock:
            for each in list(self._loaded) if key is MISSING else [key]:
                self._loaded.pop(each, None)
                self._used.pop(each, None)

    def _load(self, key: Hashable, load: _Load, make: Callable[[], Any]) -> Any:
        try:
            load.result = make()
        except BaseException as error:
            load.error = error
            raise
        finally:
            with _lock:
                del self._loads[key]
                if load.error is None:
                    self._keep(key, load.result)
            load.over.set()
        return load.result

    def _wait(self, load: _Load) -> bool:
        """Whether there is a result. If its thread was interrupted there is none, and another has to load."""
        try:
            load.over.wait()
        finally:
            with _lock:
                _waits.pop(threading.get_ident(), None)
        if isinstance(load.error, Exception):
            raise load.error
        return load.error is None

    def _keep(self, key: Hashable, value: Any) -> None:
        self._loaded[key] = value
        self._note_use(key)
        while self.maxsize is not None and len(self._loaded) > self.maxsize:
            self.forget(next(iter(self._loaded)))

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
        self._timer = threading.Timer(wait_s, self._look)
        self._timer.daemon = True
        self._timer.start()

    def _look(self) -> None:
        with _lock:
            self._timer = None
            if self.idle_timeout_s is None:
                return
            now = time.monotonic()
            for key, used in list(self._used.items()):
                if used + self.idle_timeout_s <= now:
                    self.forget(key)
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
