"""How a call is made and answered, in the thread of its model."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..errors import NoSuchMethod
from ..runtimes import CallCancelled

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from ..runtimes import LoadedModel
    from .calls import Call


def answer(model: LoadedModel, call: Call) -> None:
    """Makes a call of a model. Raises `NoSuchMethod`, `CallCancelled`, and what it raises."""
    if call.method not in model.methods():
        raise NoSuchMethod(model=call.lease.named, method=call.method)
    args, kwargs = call.arguments()
    result = model.call(call.method, args, kwargs, stream=call.stream, cancelled=call.cancelled)
    del args, kwargs
    if not isinstance(result, Iterator):
        _look(call)
        call.result(result)
    elif call.stream:
        call.last_piece(_each(result, call, call.piece))
    else:
        pieces: list[Any] = []
        last = _each(result, call, pieces.append)
        call.result(pieces if last is None else [*pieces, last])


def _each(pieces: Iterator[Any], call: Call, take: Callable[[Any], None]) -> Any:
    """Takes each piece; what the iterator returned at its end. Raises `CallCancelled`."""
    try:
        while True:
            _look(call)
            try:
                piece = next(pieces)
            except StopIteration as end:
                return end.value
            _look(call)
            take(piece)
    finally:
        if inspect.isgenerator(pieces):
            pieces.close()


def _look(call: Call) -> None:
    if call.cancelled():
        raise CallCancelled


class CallContext:
    """Model code that calls models asks under the lease of its own call, and within its time limit."""

    def __init__(self, context: ModuleType | None, call: Call, *, in_environment: bool) -> None:
        """`context` is that of the client library; `in_environment`: programs that it starts ask so as well."""
        self.context, self.in_environment = context, in_environment
        self.lease, self.deadline = call.lease.id, call.deadline

    def __enter__(self) -> None:
        if self.context is not None:
            self.context.current_lease.set(self.lease)
            self.context.current_deadline.set(self.deadline)
        if self.in_environment:
            os.environ["LAZYD_LEASE"] = self.lease

    def __exit__(self, *_: object) -> None:
        if self.context is not None:
            self.context.current_lease.set(None)
            self.context.current_deadline.set(None)
        if self.in_environment:
            os.environ.pop("LAZYD_LEASE", None)


def client_context() -> ModuleType | None:
    """Where the client library looks for the call within which it is used, if it is there at all."""
    try:
        from ..client import context
    except ImportError:
        return None
    return context
