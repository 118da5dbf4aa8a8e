"""Whether the daemon answers for a name, as this process has found out.

It is asked once, and again when its answer is older than `RENEW_S`: so a daemon that comes later is found, and one that
does not know a name any more is not asked for it. One that was there and has gone is waited for as every client
does (`reconnect`), since it is being restarted; only then it counts as gone.
"""

from __future__ import annotations

import time
import weakref
from typing import TYPE_CHECKING

from ..errors import LazydError, ModelNotFound, PermissionDenied, Unavailable
from .blocking.client import Client

if TYPE_CHECKING:
    import asyncio

    from .aio.client import AsyncClient
    from .aio.proxy import AsyncModel
    from .blocking.proxy import Model

RENEW_S = 10.0

_answers: dict[str, tuple[bool, float]] = {}
"""By name: what was answered, and when."""
_clients: dict[None, Client] = {}
"""One, for all threads. Without a lock, which a child might inherit held: `setdefault` is one step. A forked child
goes on with it, on connections of its own."""
_aio: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncClient] = weakref.WeakKeyDictionary()


def knows(name: str) -> bool:
    """Whether there is a daemon that has a model of this name. Loads nothing."""
    answer = _answers.get(name)
    if answer is None or time.monotonic() >= answer[1] + RENEW_S:
        answer = _answers[name] = (_ask(name), time.monotonic())
    return answer[0]


def model(name: str) -> Model:
    """A proxy of the daemon's model."""
    return _shared().model(name)


def async_model(name: str) -> AsyncModel:
    """The same for the event loop that runs."""
    import asyncio

    from .aio.client import AsyncClient

    loop = asyncio.get_running_loop()
    client = _aio.get(loop)
    if client is None:
        client = _aio[loop] = AsyncClient()
        weakref.finalize(loop, client._session.close).atexit = False  # nobody else closes it
    return client.model(name)


def is_ready(name: str) -> bool:
    """The daemon has it loaded."""
    try:
        return _shared().is_ready(name)
    except LazydError:
        return False


def forget() -> None:
    """What was answered so far does not count."""
    _answers.clear()


def _ask(name: str) -> bool:
    try:
        _shared().describe(name)
    except (ModelNotFound, PermissionDenied):
        return False
    except Unavailable:
        _renew()  # one that was told of a stop would not find the daemon that is started after it
        return False
    except LazydError:
        return True  # it has it, and a call will say what is wrong with it
    return True


def _shared() -> Client:
    client = _clients.get(None)
    return client if client is not None else _clients.setdefault(None, Client())  # one connects when it is first used


def _renew() -> None:
    _clients.clear()
