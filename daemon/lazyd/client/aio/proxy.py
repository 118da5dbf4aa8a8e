"""What a model looks like to a program: an object whose methods are the model's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, overload

from ..degraded import result_of
from ..held import url_of
from ..method import Method

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Mapping, Sequence

    from ..answer import Answer
    from .client import AsyncClient


class AsyncModel:
    """A model of the daemon. Nothing is loaded until the first call.

    ``await model.complete(…)`` calls the method ``complete`` with these arguments and returns its
    result; ``async for piece in model.stream.complete(…)`` gives the result in pieces as they come;
    `call` does the same with a time limit. Names that are ours (`call`, `stream`, `lease`, `is_ready`,
    `name`, `timeout`) reach a model's method of that name as ``model.call("name")``.
    """

    def __init__(
        self,
        client: AsyncClient,
        name: str,
        timeout: float | None,
        idempotent: Collection[str],
        sticky: str | None = None,
    ) -> None:
        self._client = client
        self._idempotent = tuple(idempotent)
        self._sticky = sticky
        self.name = name
        self.timeout = timeout
        """Seconds allowed for a call that names no limit of its own."""

    def __repr__(self) -> str:
        return f"<AsyncModel {self.name}>"

    def __getattr__(self, method: str) -> Method:
        return Method(self.name, method, self._result)

    async def is_ready(self) -> bool:
        """The model is loaded and serves. Asking loads nothing."""
        return await self._client.is_ready(self.name)

    @property
    def stream(self) -> AsyncStream:
        """The same methods, their results in pieces."""
        return AsyncStream(self._client, self, self._idempotent, self._sticky)

    def lease(self) -> AsyncLease:
        """Of a service: ``async with model.lease() as lease:`` loads it and keeps it while ``lease.url`` is used."""
        return AsyncLease(self._client, self.name)

    @overload
    async def call(
        self, method: str, /, *args: Any, timeout: float | None = ..., meta: Literal[True], **kwargs: Any
    ) -> Answer: ...

    @overload
    async def call(
        self, method: str, /, *args: Any, timeout: float | None = ..., meta: bool = ..., **kwargs: Any
    ) -> Any: ...

    async def call(
        self, method: str, /, *args: Any, timeout: float | None = None, meta: bool = False, **kwargs: Any
    ) -> Any:
        """Calls a method; returns its result or, with `meta`, an `Answer`.

        `timeout` is in seconds and spans everything from the queue to the answer; None: the
        proxy's own. Raises `LazydError`.
        """
        answer = await self._answer(method, args, kwargs, timeout)
        return answer if meta else result_of(self.name, answer)

    async def _result(self, method: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        return result_of(self.name, await self._answer(method, args, kwargs))

    async def _answer(
        self, method: str, args: Sequence[Any], kwargs: Mapping[str, Any], timeout: float | None = None
    ) -> Answer:
        timeout = self.timeout if timeout is None else timeout
        return await self._client.answer(
            self.name, method, args, kwargs, timeout=timeout, idempotent=self._idempotent, sticky=self._sticky
        )


class AsyncLease:
    """A service in use, within an ``async with`` block. Entering it raises `LazydError`."""

    def __init__(self, client: AsyncClient, model: str) -> None:
        self.url = ""
        """Where it is: ``http://127.0.0.1:34567``. It stays so within the block."""
        self._pieces = client.pieces(model, "hold")
        self._model = model

    def __repr__(self) -> str:
        return f"<AsyncLease of {self._model} {self.url}>"

    async def __aenter__(self) -> AsyncLease:
        try:
            self.url = url_of(self._model, await self._pieces.__anext__())
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._pieces.aclose()  # type: ignore[attr-defined]


class AsyncStream:
    """A model's methods, as asynchronous iterators over the pieces of their results.

    The call begins when the first piece is asked for, and is cancelled when the iterator is closed
    or dropped before its end.
    """

    def __init__(self, client: AsyncClient, model: AsyncModel, idempotent: Collection[str], sticky: str | None) -> None:
        self._client = client
        self._model = model
        self._idempotent = idempotent
        self._sticky = sticky

    def __repr__(self) -> str:
        return f"{self._model!r}.stream"

    def __getattr__(self, method: str) -> Method:
        return Method(self._model.name, method, self._pieces)

    def call(self, method: str, /, *args: Any, timeout: float | None = None, **kwargs: Any) -> AsyncIterator[Any]:
        """The pieces of a method's result. `timeout` spans everything from the queue to the last piece."""
        return self._pieces(method, args, kwargs, timeout)

    def _pieces(
        self, method: str, args: Sequence[Any], kwargs: Mapping[str, Any], timeout: float | None = None
    ) -> AsyncIterator[Any]:
        timeout = self._model.timeout if timeout is None else timeout
        return self._client.pieces(
            self._model.name, method, args, kwargs, timeout=timeout, idempotent=self._idempotent, sticky=self._sticky
        )
