"""A call made ready to be sent, before a model is loaded for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from ..wire.values import pack

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..wire.values import Buffer


class PackedCall(NamedTuple):
    """One call of a method of a model. The buffers are the caller's own memory."""

    model: str
    method: str
    head: dict[str, Any]
    buffers: list[Buffer]


def pack_call(model: str, method: str, args: Sequence[Any], kwargs: Mapping[str, Any], *, stream: bool) -> PackedCall:
    """Raises `NotSendable`."""
    values, buffers = pack({"args": list(args), "kwargs": dict(kwargs)})
    return PackedCall(model, method, {"method": method, **values, "stream": stream}, buffers)
