"""What a model looks like to a program: an object whose methods are the model's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, overload

from ..degraded import result_of
from ..held import url_of
from ..method import Method

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from ..answer import Answer
    from .client import Client


class Model:
    """A model of the daemon. Nothing is loaded until the first call.

    ``model.complete(…)`` calls the method ``complete`` with these arguments and returns its
    result; ``model.stream.complete(…)`` yields the pieces of the result as they come; `call` does
    the same with a time limit. Names that are ours (`call`, `stream`, `lease`, `is_ready`,
    `name`, `timeout`) reach a model's method of that name as ``model.call("name")``.
    """

    def __init__(
        self,
        client: Client,
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
        return f"<Model {self.name}>"

    def __getattr__(self, method: str) -> Method:
        return Method(self.name, method, self._result)

    @property
    def is_ready(self) -> bool:
        """The model is loaded and serves. Asking loads nothing."""
        return self._client.is_ready(self.name)

    @property
    def stream(self) -> Stream:
        """The same methods, their results in pieces."""
        return Stream(self._client, self, self._idempotent, self._sticky)

    def lease(self) -> Lease:
        """Of a service: ``with model.lease() as lease:`` loads it and keeps it while programs use ``lease.url``."""
        return Lease(self._client, self.name)

    @overload
    def call(
        self, method: str, /, *args: Any, timeout: float | None = ..., meta: Literal[True], **kwargs: Any
    ) -> Answer: ...

    @overload
    def call(self, method: str, /, *args: Any, timeout: float | None = ..., meta: bool = ..., **kwargs: Any) -> Any: ...

    def call(self, method: str, /, *args: Any, timeout: float | None = None, meta: bool = False, **kwargs: Any) -> Any:
        """Calls a method; returns its result or, with `meta`, an `Answer`.

        `timeout` is in seconds and spans everything from the queue to the answer; None: the
        proxy's own. Raises `LazydError`.
        """
        answer = self._answer(method, args, kwargs, timeout)
        return answer if meta else result_of(self.name, answer)

    def _result(self, method: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        return result_of(self.name, self._answer(method, args, kwargs))

    def _answer(
        self, method: str, args: Sequence[Any], kwargs: Mapping[str, Any], timeout: float | None = None
    ) -> Answer:
        timeout = self.timeout if timeout is None else timeout
        return self._client.answer(
            self.name, method, args, kwargs, timeout=timeout, idempotent=self._idempotent, sticky=self._sticky
        )


class Lease:
    """A service in use, within a ``with`` block. Entering it raises `LazydError`."""

    def __init__(self, client: Client, model: str) -> None:
        self.url = ""
        """Where it is: ``http://127.0.0.1:34567``. It stays so within the block."""
        self._pieces = client.pieces(model, "hold")
        self._model = model

    def __repr__(self) -> str:
        return f"<Lease of {self._model} {self.url}>"

    def __enter__(self) -> Lease:
        try:
            self.url = url_of(self._model, next(self._pieces, None))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._pieces.close()  # type: ignore[attr-defined]


class Stream:
    """A model's methods, as iterators over the pieces of their results.

    The call begins when the first piece is asked for, and is cancelled when the iterator is closed
    or dropped before its end.
    """

    def __init__(self, client: Client, model: Model, idempotent: Collection[str], sticky: str | None) -> None:
        self._client = client
        self._model = model
        self._idempotent = idempotent
        self._sticky = sticky

    def __repr__(self) -> str:
        return f"{self._model!r}.stream"

    def __getattr__(self, method: str) -> Method:
        return Method(self._model.name, method, self._pieces)

    def call(self, method: str, /, *args: Any, timeout: float | None = None, **kwargs: Any) -> Iterator[Any]:
        """The pieces of a method's result. `timeout` spans everything from the queue to the last piece."""
        return self._pieces(method, args, kwargs, timeout)

    def _pieces(
        self, method: str, args: Sequence[Any], kwargs: Mapping[str, Any], timeout: float | None = None
    ) -> Iterator[Any]:
        timeout = self._model.timeout if timeout is None else timeout
        return self._client.pieces(
            self._model.name, method, args, kwargs, timeout=timeout, idempotent=self._idempotent, sticky=self._sticky
        )
