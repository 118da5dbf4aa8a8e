"""lazyd: models on demand, under one memory budget for the whole machine.

What other programs use is here: `connect`, `connect_async` and the exceptions. The rest of the
package is the daemon's. Names are looked up when they are first used, so that ``import lazyd``
costs next to nothing; all of it is standard library.

    with lazyd.connect() as c:
        gemma = c.model("gemma")  # nothing is loaded yet
        print(gemma.complete("The capital of France is", max_tokens=8))
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .client import Answer, AsyncClient, Client, connect, connect_async, lazy
    from .errors import (
        Busy,
        CallFailed,
        Cancelled,
        Closed,
        Conflict,
        ConnectionLost,
        Degraded,
        InvalidConfig,
        InvalidSpec,
        LazydError,
        LoadFailed,
        ModelNotFound,
        NoRoom,
        NoSuchDevice,
        NoSuchMethod,
        NotKept,
        NotSendable,
        PermissionDenied,
        Timeout,
        Unavailable,
        WorkerDied,
    )

__version__ = "0.1.0"

__all__ = [
    "Answer",
    "AsyncClient",
    "Busy",
    "CallFailed",
    "Cancelled",
    "Client",
    "Closed",
    "Conflict",
    "ConnectionLost",
    "Degraded",
    "InvalidConfig",
    "InvalidSpec",
    "LazydError",
    "LoadFailed",
    "ModelNotFound",
    "NoRoom",
    "NoSuchDevice",
    "NoSuchMethod",
    "NotKept",
    "NotSendable",
    "PermissionDenied",
    "Timeout",
    "Unavailable",
    "WorkerDied",
    "__version__",
    "connect",
    "connect_async",
    "lazy",
]

if not TYPE_CHECKING:  # else a misspelt name would pass for one of ours

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module 'lazyd' has no attribute {name!r}")
        if name in ("Answer", "AsyncClient", "Client", "connect", "connect_async", "lazy"):
            from . import client as module
        else:
            from . import errors as module
        value = globals()[name] = getattr(module, name)
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
