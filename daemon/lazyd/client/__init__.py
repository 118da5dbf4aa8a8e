"""The client library: how programs reach the daemon and the models.

- `blocking`: the client for threads; it imports no asyncio. `aio`: the one for asyncio.
- `session`: every method of the interface; `requests`, `calling`, `reconnect`, `lines`: the rules
  of both clients, written as generators of `steps` and free of I/O.
- `dataline`: a data connection without its I/O; `call`: one call on it.
- `reserving`: memory for the program itself.
- `context`: under which lease the running code itself works (a worker sets it).
- `lazy_loading`: existing loaders, called by the daemon where there is one; else their objects are kept by
  `lazy_shelf`. `lazy_daemon` finds out which.
- `replies`, `answer`, `degraded`, `held`: what comes back.

Standard library only, Python 3.9 and later; imports `lazyd.wire`, `lazyd.errors`, `lazyd.places`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .aio.client import AsyncClient, connect_async
    from .answer import Answer
    from .blocking.client import Client, connect
    from .lazy_loading import Lazy, LazyFamily, lazy

__all__ = ["Answer", "AsyncClient", "Client", "Lazy", "LazyFamily", "connect", "connect_async", "import_all", "lazy"]

_HOMES = {
    "Answer": "answer",
    "AsyncClient": "aio.client",
    "Client": "blocking.client",
    "Lazy": "lazy_loading",
    "LazyFamily": "lazy_loading",
    "connect": "blocking.client",
    "connect_async": "aio.client",
    "lazy": "lazy_loading",
}

_LATE = (
    "blocking.client",
    "blocking.line",
    "blocking.reservation",
    "call",
    "calling",
    "context",
    "lazy_loading",
    "reserving",
)
"""What is imported when it is first needed; together with what these import, it is all of the blocking client."""


def import_all() -> None:
    """Imports the whole blocking client now, for a process that lives longer than these files may.

    A worker does so: after an upgrade on disk, what it imports later would be of another version.
    """
    from importlib import import_module

    for name in _LATE:
        import_module(f"{__name__}.{name}")


if not TYPE_CHECKING:  # else a misspelt name would pass for one of ours

    def __getattr__(name: str) -> object:
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module 'lazyd.client' has no attribute {name!r}")
        from importlib import import_module

        value = globals()[name] = getattr(import_module(f"{__name__}.{home}"), name)
        return value
