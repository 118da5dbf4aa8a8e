"""A reservation that a program holds while it works in a ``with`` block."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from .driver import Driver

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from ...errors import LazydError
    from ..reserving import Reserving


class Reservation:
    """Memory of a device that is this program's as long as the block lasts.

    Entering waits for it and raises what the daemon answers. A thread claims it again when the daemon
    was restarted; if that fails the program goes on, `lost` says why, and `on_lost` is told of it in
    that thread.
    """

    def __init__(self, rules: Reserving, timeout: float | None, on_lost: Callable[[LazydError], object] | None) -> None:
        self._rules = rules
        self._timeout = timeout
        self._on_lost = on_lost
        self._driver = Driver(rules.requests.socket)

    def __repr__(self) -> str:
        return repr(self._rules)

    def __enter__(self) -> Reservation:
        self._driver.run(self._rules.begin(self._timeout))
        threading.Thread(target=self._keep, name="lazyd reservation", daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    @property
    def id(self) -> str:
        """Its name in ``lazyctl status``; empty before it is held."""
        return self._rules.id

    @property
    def uuid(self) -> str | None:
        """Of the GPU, for ``CUDA_VISIBLE_DEVICES``; None: it is of RAM, or not held yet."""
        return self._rules.uuid

    @property
    def lost(self) -> LazydError | None:
        """Why it is not held any more, although nobody has ended it."""
        return self._rules.lost

    def close(self) -> None:
        """Gives the memory back. Doing it twice does no harm."""
        self._rules.close()
        self._driver.wake()

    def forget(self) -> None:
        """In a forked child: it is the parent's."""
        self._rules.requests.closed = True
        self._driver.forget()

    def _keep(self) -> None:
        self._driver.run(self._rules.keep())
        if self._rules.lost is not None and self._on_lost is not None:
            self._on_lost(self._rules.lost)
