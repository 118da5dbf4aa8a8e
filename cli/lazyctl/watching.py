"""While a call waits for its model, the load can be watched."""

from __future__ import annotations

import contextlib
import threading
from types import TracebackType
from typing import TYPE_CHECKING

import click

from lazyd.errors import LazydError

from .session import Reply, Session
from .units import duration

if TYPE_CHECKING:
    from .progress import LoadBar

_LAST_WORD_S = 0.2
"""How long the end of a load that was drawn is waited for: it comes with the call's lease."""


class LoadWatch:
    """Draws the load of `model` on standard error, if that is a terminal and the model is not ready.

    A thread asks the daemon for it on a connection of its own, so the call itself goes the same
    way whether somebody looks or not. Call `done` when the call has begun to answer.
    """

    def __init__(self, session: Session, model: str) -> None:
        self._session = session
        self._model = model
        self._lock = threading.Lock()
        self._bar: LoadBar | None = None
        self._took: float | None = None
        self._over = False
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> LoadWatch:
        if self._session.err.height and not self._session.json:
            self._thread.start()
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self._end()

    def done(self) -> None:
        """The model answers: the bar goes, and the time that the load took stays."""
        if not self._over and self._bar is not None:
            self._thread.join(_LAST_WORD_S)
        if self._end() and self._took is not None:
            line = f"{self._model} was loaded in {duration(self._took)}"
            click.echo(self._session.err.paint(line, "dim"), err=True, color=self._session.err.colour)

    def _end(self) -> bool:
        """Take the bar away. Returns whether there was one."""
        with self._lock:
            self._over = True
            bar, self._bar = self._bar, None
            if bar is not None:
                bar.stop()
        return bar is not None

    def _watch(self) -> None:
        with contextlib.suppress(LazydError):  # the call will say what is wrong
            reply = self._session.ask("Load", model=self._model, on_reply=self._show)
            self._took = reply.get("loadSec")

    def _show(self, step: Reply) -> None:
        from .progress import LoadBar

        with self._lock:
            if self._over:
                return
            if self._bar is None:
                self._bar = LoadBar(self._model)
                self._bar.start()
            self._bar.show(step)
