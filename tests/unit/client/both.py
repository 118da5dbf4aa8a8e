"""The asyncio client behind the blocking client's methods, so that one test pins both."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

from lazyd.client.aio.proxy import AsyncModel

from .fakes import DEADLINE_S


class Loop:
    """An event loop in a thread."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def run(self, awaitable: Any) -> Any:
        async def awaited() -> Any:
            return await awaitable

        return asyncio.run_coroutine_threadsafe(awaited(), self._loop).result(DEADLINE_S)

    def iterate(self, pieces: AsyncIterator[Any]) -> Iterator[Any]:
        try:
            while True:
                try:
                    piece = self.run(pieces.__anext__())
                except StopAsyncIteration:
                    return
                yield piece
        finally:
            self.run(pieces.aclose())  # type: ignore[attr-defined]

    def stop(self) -> None:
        async def finish() -> None:
            await asyncio.get_running_loop().shutdown_asyncgens()

        self.run(finish())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(DEADLINE_S)
        self._loop.close()


class Facade:
    """Any object of the asyncio client: coroutines are run, asynchronous iterators iterated."""

    def __init__(self, loop: Loop, inner: Any) -> None:
        self._loop = loop
        self._inner = inner

    def __enter__(self) -> Facade:
        self._loop.run(self._inner.__aenter__())
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.run(self._inner.close())

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._inner, name)
        if name == "stream":
            return Facade(self._loop, value)
        if name == "is_ready" and isinstance(self._inner, AsyncModel):
            return self._loop.run(value())
        if not callable(value):
            return value

        def called(*args: Any, **kwargs: Any) -> Any:
            result = value(*args, **kwargs)
            if hasattr(result, "__anext__"):
                return self._loop.iterate(result)
            if hasattr(result, "__await__"):
                return self._loop.run(result)
            return Facade(self._loop, result) if name in ("model", "reserve") else result

        return called
