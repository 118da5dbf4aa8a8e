"""``lazyd.lazy``: an existing loader, called on first use, by the daemon where there is one.

    @lazyd.lazy("strategy_engine")
    def engine(): return Engine(…)          # as it was

    engine().compute(…)                     # the daemon's model of that name, or an Engine of this process

    @lazyd.lazy("strategy/*", maxsize=10)   # a family: one object for each key, at most 10 in this process
    def strategy(key): return Strategy(key)

    strategy("alpha").signal(…)

Where no daemon answers, or it does not know the name, the loader is called here: once, whatever threads ask, and again
when the object has left. What has been loaded here is used until it leaves, also if a daemon comes meanwhile.

The daemon's own worker calls the loader itself (`lazyd_loader`) where the decorated function is named as the factory.
"""

from __future__ import annotations

import functools
import sys
from typing import TYPE_CHECKING, Any, overload

from . import lazy_daemon
from .lazy_shelf import MISSING, shelf_named

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

_COROUTINE = 0x80
"""Of ``code.co_flags``."""


@overload
def lazy(name: str, loader: Callable[[], Any], *, idle_timeout: float | None = ...) -> Lazy: ...


@overload
def lazy(name: str, loader: Callable[[Any], Any], *, maxsize: int, idle_timeout: float | None = ...) -> LazyFamily: ...


@overload
def lazy(name: str, *, idle_timeout: float | None = ...) -> Callable[[Callable[[], Any]], Lazy]: ...


@overload
def lazy(
    name: str, *, maxsize: int, idle_timeout: float | None = ...
) -> Callable[[Callable[[Any], Any]], LazyFamily]: ...


def lazy(
    name: str,
    loader: Callable[..., Any] | None = None,
    *,
    maxsize: int | None = None,
    idle_timeout: float | None = None,
) -> Any:
    """Wraps a loader, or decorates it.

    `name` is what the daemon calls it. `idle_timeout`: an object of this process that nobody has asked for in so many
    seconds leaves; None: it stays. With `maxsize` the loader takes a key: there is an object for each, called as `name`
    with the key in place of its ``*`` (or behind it, as ``name/key``), and at most so many in this process.
    Objects belong to their name: two wrappers of one name share them.
    """
    if loader is None:
        return functools.partial(lazy, name, maxsize=maxsize, idle_timeout=idle_timeout)
    if getattr(getattr(loader, "__code__", None), "co_flags", 0) & _COROUTINE:
        raise TypeError(f"the loader of {name!r} is a coroutine function; write it as a plain one and use aload()")
    if maxsize is None:
        return Lazy(name, loader, name, None, idle_timeout)
    if maxsize < 1:
        raise ValueError(f"maxsize of {name!r} is {maxsize}, and must be at least 1")
    return LazyFamily(name, loader, maxsize, idle_timeout)


class Lazy:
    """One object, or the daemon's model: call it to have it. Ask each time rather than keep what it answers."""

    def __init__(
        self, name: str, loader: Callable[[], Any], shelf: str, key: Hashable, idle_timeout: float | None
    ) -> None:
        functools.update_wrapper(self, loader, updated=())
        self.name = name
        self.lazyd_loader = loader
        self._shelf = shelf_named(shelf)
        self._shelf.idle_timeout_s = idle_timeout
        self._key = key

    def __repr__(self) -> str:
        return f"<Lazy {self.name}>"

    def __reduce__(self) -> Any:
        return pickled(self, None, self._shelf.idle_timeout_s)

    def __call__(self) -> Any:
        """A proxy of the daemon's model, of which nothing is loaded yet, or the object. Raises what its loader does."""
        found = self._shelf.find(self._key)
        if found is not MISSING:
            return found
        if lazy_daemon.knows(self.name):
            return lazy_daemon.model(self.name)
        return self._shelf.get(self._key, self.lazyd_loader)

    async def aload(self) -> Any:
        """The same for asyncio: something whose methods are awaited. A loader runs in a thread, and so do its
        object's methods."""
        import asyncio

        from .aio.in_threads import InThreads

        found = self._shelf.find(self._key)
        if found is MISSING:
            if await asyncio.to_thread(lazy_daemon.knows, self.name):
                return lazy_daemon.async_model(self.name)
            found = await asyncio.to_thread(self._shelf.get, self._key, self.lazyd_loader)
        return InThreads(found)

    @property
    def is_ready(self) -> bool:
        """It is loaded, here or by the daemon. Asking loads nothing."""
        return self._key in self._shelf or lazy_daemon.is_ready(self.name)

    def unload(self) -> None:
        """Lets go of what this process has loaded. What the daemon has is freed by the daemon."""
        self._shelf.forget(self._key)


class LazyFamily:
    """An object, or a model of the daemon, for each key."""

    def __init__(self, name: str, loader: Callable[[Any], Any], maxsize: int, idle_timeout: float | None) -> None:
        functools.update_wrapper(self, loader, updated=())
        self.name = name if "*" in name else f"{name}/*"
        self.lazyd_loader = loader
        self._idle_timeout = idle_timeout
        self._shelf = shelf_named(self.name)
        self._shelf.maxsize = maxsize

    def __repr__(self) -> str:
        return f"<LazyFamily {self.name}>"

    def __reduce__(self) -> Any:
        return pickled(self, self._shelf.maxsize, self._idle_timeout)

    def __call__(self, key: Hashable) -> Any:
        """As `Lazy`, for one key."""
        return self.of(key)()

    async def aload(self, key: Hashable) -> Any:
        """As `Lazy.aload`, for one key."""
        return await self.of(key).aload()

    def of(self, key: Hashable) -> Lazy:
        """What stands for one key; nothing is loaded by that."""
        load = functools.partial(self.lazyd_loader, key)
        return Lazy(self.name.replace("*", str(key), 1), load, self.name, key, self._idle_timeout)

    def unload(self, key: Hashable = MISSING) -> None:
        """Lets go of what this process has loaded for one key, or for all."""
        self._shelf.forget(key)


def pickled(wrapper: Lazy | LazyFamily, maxsize: int | None, idle_timeout: float | None) -> Any:
    """For other processes: by its name, as functions are, if it stands there instead of its loader; else with that."""
    module, name = sys.modules.get(wrapper.__module__), getattr(wrapper, "__qualname__", "")
    if name and getattr(module, name, None) is wrapper:
        return name
    return functools.partial(lazy, maxsize=maxsize, idle_timeout=idle_timeout), (wrapper.name, wrapper.lazyd_loader)
