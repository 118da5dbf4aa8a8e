"""Plays both sides of a comparison at the same time, one of them in a process of its own."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

from lazyd.replay.facts import Use
from lazyd.replay.outcome import Outcome
from lazyd.replay.run import Run

from .simulate_input import CannotSimulate, Played, Side

ALONE = 2000
"""So many uses are played one side after the other: a process costs more."""


class Runs:
    """The other side is begun at once, before there are threads here that draw."""

    def __init__(self, played: Played) -> None:
        self._played = played
        self._done = [0.0, 0.0]
        self._ours: Connection | None = None
        self._process: BaseProcess | None = None
        if len(played.uses) > ALONE:
            self._begin()

    def _begin(self) -> None:
        fork = multiprocessing.get_context("fork")  # what is to be played is there, and need not be sent
        self._ours, theirs = fork.Pipe(duplex=False)
        self._process = fork.Process(target=_play_apart, args=(theirs, self._ours, self._played), daemon=True)
        self._process.start()
        theirs.close()

    def outcomes(self, on_progress: Callable[[float], object]) -> tuple[Outcome, Outcome]:
        """Of both sides. `on_progress` hears the part of all that is done.

        Raises:
            CannotSimulate: the process of the other side has died.
        """
        first, second = self._played.sides
        try:
            ours = _play(self._played, first, lambda part: self._tell(0, part, on_progress))
            if self._ours is None:
                return ours, _play(self._played, second, lambda part: self._tell(1, part, on_progress))
            while True:
                found = self._hear(on_progress, block=True)
                if found is not None:
                    return ours, found
        finally:
            if self._process is not None:
                self._process.kill()
                self._process.join()

    def _tell(self, side: int, part: float, on_progress: Callable[[float], object]) -> None:
        self._done[side] = part
        if side == 0 and self._ours is not None:
            while part < 1 and self._ours.poll():
                if self._hear(on_progress, block=False) is not None:
                    break
        on_progress(sum(self._done) / 2)

    _early: Outcome | None = None
    """What came while this side was still playing."""

    def _hear(self, on_progress: Callable[[float], object], *, block: bool) -> Outcome | None:
        """One word of the other process; its outcome, if it is that."""
        if self._early is not None:
            return self._early
        assert self._ours is not None
        try:
            said: float | Outcome = self._ours.recv()
        except EOFError:
            raise CannotSimulate("a process that replayed the history has died; is there enough memory?") from None
        if isinstance(said, Outcome):
            self._early, self._done[1] = said, 1.0
            return said
        self._done[1] = said
        if block:
            on_progress(sum(self._done) / 2)
        return None


def _play(played: Played, side: Side, on_progress: Callable[[float], object]) -> Outcome:
    uses: Sequence[Use] = played.uses
    return Run(side.config, side.facts, on_progress, pins=played.pins).play(uses)


def _play_apart(out: Connection, theirs: Connection, played: Played) -> None:
    """The other process: it ends without a word when it is interrupted, or nobody hears it."""
    theirs.close()
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    out.send(_play(played, played.sides[1], out.send))
