"""One call of a model's method: made ready to be sent, and what has come back for it."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from ..wire.values import pack, unpack
from .answer import Piece

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..wire.frames import Frame
    from ..wire.values import Buffer


class PackedCall(NamedTuple):
    """One call of a method of a model. The buffers are the caller's own memory."""

    model: str
    method: str
    head: dict[str, Any]
    buffers: list[Buffer]

    def within(self, left_s: float | None) -> PackedCall:
        """The same, telling the worker how much time there is: calls that it makes in its turn keep to it."""
        return self if left_s is None else self._replace(head={**self.head, "timeoutSec": round(left_s, 6)})


def pack_call(model: str, method: str, args: Sequence[Any], kwargs: Mapping[str, Any], *, stream: bool) -> PackedCall:
    """Makes a call ready before a model is loaded for it. Raises `NotSendable`."""
    values, buffers = pack({"args": list(args), "kwargs": dict(kwargs)})
    return PackedCall(model, method, {"method": method, **values, "stream": stream}, buffers)


class Call:
    """One call on a data connection: what has arrived for it, and whether it is over."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.arrived: deque[Frame | Exception] = deque()
        self.sent = False
        """Its frame is out of this process."""
        self.over = False
        """Nothing more will arrive."""
        self.abandoned = False
        """Nobody takes what arrives."""

    def __repr__(self) -> str:
        words = [word for word in ("sent", "over", "abandoned") if getattr(self, word)]
        return f"<Call {self.number} {' '.join(words)}, {len(self.arrived)} arrived>"

    @property
    def ready(self) -> bool:
        return bool(self.arrived)

    def push(self, item: Frame | Exception, *, last: bool) -> None:
        self.over = self.over or last
        if not self.abandoned:
            self.arrived.append(item)

    def take(self) -> Piece:
        """What arrived first. Raises the call's error, `Dropped`, or `ProtocolError`."""
        item = self.arrived.popleft()
        if isinstance(item, Exception):
            raise item
        head, buffers = item
        # The last frame of a stream brings a piece or, where the worker learned too late that it was the last, ``end``.
        return Piece(unpack(head.get("result"), buffers), more=bool(head.get("more")), empty=bool(head.get("end")))
